"""Reading recorded files of tools in tests, and partial topologies by the rows of their tables."""

from pathlib import Path

from toposeat.topology import read_topologies
from toposeat.topology.formats import parse_file
from toposeat.topology.readers import nvidia_smi_topo
from toposeat.topology.readers.file_text import FileText, read_file
from toposeat.topology.relation import UNKNOWN, Relation
from toposeat.topology.told import is_whole


def facts_of(path):
    """What a recorded file of tables says, by the reader that the registry finds for it."""
    return as_facts(parse_file(read_file(path)))


def facts_of_text(text, name="f.txt"):
    """The same for a text."""
    return as_facts(parse_file(FileText(text, Path(name))))


def matrix_of_text(text, path="f.txt"):
    """What a text says as output of `nvidia-smi topo -m`, whatever the registry takes it for."""
    return nvidia_smi_topo.parse(FileText(text, Path(path)))


def machine_of(folder, *texts):
    """The machine of these outputs together, each saved in a file of its own."""
    paths = [folder / f"{at}.txt" for at in range(len(texts))]
    for path, text in zip(paths, texts, strict=True):
        path.write_text(text)
    return read_topologies(paths)


def as_facts(parsed):
    """A partial topology, nothing else."""
    assert not is_whole(parsed)
    return parsed


def row_of(facts):
    """The number of each endpoint: devices first, then NICs."""
    ids = [*(d.id for d in facts.devices), *(n.id for n in facts.nics)]
    return {id: i for i, id in enumerate(ids)}


def peers(facts):
    """Peer access by row of the source and row of the target."""
    row = row_of(facts)
    return {
        (row[p.source], row[p.target]): p.peer_access
        for p in facts.pairs
        if p.peer_access is not None
    }


def bonds(facts):
    """Bonds by rows, the smaller first; those of the way back must be there too."""
    row = row_of(facts)
    found = {(row[p.source], row[p.target]): p.bond for p in facts.pairs if p.bond is not None}
    assert set(found) == {(j, i) for i, j in found}
    return {(i, j): bond for (i, j), bond in found.items() if i < j}


def relations(facts):
    """Best connections by rows, the smaller first; both ways must be alike."""
    row = row_of(facts)
    found = {
        (row[p.source], row[p.target]): Relation(p.path_class, p.lanes or 0)
        for p in facts.pairs
        if p.path_class is not None
    }
    assert all(found[j, i] == relation for (i, j), relation in found.items())
    return {(i, j): relation for (i, j), relation in found.items() if i < j}


def relation(facts, i, j):
    """The best connection of two rows."""
    return relations(facts).get((min(i, j), max(i, j)), UNKNOWN)


def pcie(device):
    """The state of a device's link, which is told."""
    assert device.pcie is not None
    return device.pcie
