"""What readers say of one file or text, before it is merged, by the rows of its tables.

Here tests ask readers, which are behind the door: what a machine is made of, and by which of them.
"""

from collections import defaultdict
from dataclasses import replace
from pathlib import Path

from toposeat.model.topology import Pair, PathClass, Topology
from toposeat.topology import formats, read_topologies
from toposeat.topology.merge import merge_topologies
from toposeat.topology.readers.file_text import FileText, read_file

FORMATS, TREES = formats.FORMATS, formats.TREES
UNTOLD = PathClass.UNKNOWN.value


def facts_of(path):
    """What a recorded file of tables says, by the reader that the registry finds for it."""
    return as_facts(formats.parse_file(read_file(path)))


def facts_of_text(text, name="f.txt"):
    """The same for a text."""
    return as_facts(formats.parse_file(FileText(text, Path(name))))


def parts_of(path):
    """What each output in a file says."""
    return formats.parse_outputs(read_file(path))


def parts_of_text(text, name="f.txt"):
    """What each output in a text says, without what was found there."""
    found = formats.parse_outputs(FileText(text, Path(name)))
    return [part for part in found if part.origin != "text"]


def format_name(path):
    """The format that a file is of."""
    return formats.format_of(read_file(path)).name


def is_whole(part):
    """Whether it draws links; else it is a table."""
    return bool(part.devices and (part.name or part.links or part.components))


def machine_of(folder, *texts):
    """The machine of these outputs together, each saved in a file of its own."""
    paths = [folder / f"{at}.txt" for at in range(len(texts))]
    for path, text in zip(paths, texts, strict=True):
        path.write_text(text)
    return read_topologies(paths)


def table(devices, *, origin="test", nics=(), numbers=(), peer_access=None, **more):
    """What a source of tables would tell; its facts of pairs are by row and column."""
    ids = [*(d.id for d in devices), *(n.id for n in nics)]
    told = {("peer_access", pair): value for pair, value in (peer_access or {}).items()}
    for kind in ("path_class", "pcie_class"):  # of both ways alike
        for (i, j), value in more.pop(kind, {}).items():
            told |= {(kind, (i, j)): value, (kind, (j, i)): value}
    members = defaultdict(dict)
    for (member, (i, j)), value in (told | more.pop("pairs", {})).items():
        members[ids[i], ids[j]][member] = value
    own = tuple(d.id for d in devices)
    return Topology(
        origin=origin,
        devices=tuple(devices),
        nics=tuple(nics),
        pairs=tuple(Pair(source=a, target=b, **told) for (a, b), told in members.items()),
        numbers=tuple(replace(each, devices=own) for each in numbers),
        **more,
    )


def merged(*parts):
    """The machine of these parts together; files hold no measured tables, so not by the door."""
    return merge_topologies(parts, "m")


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
    """Best connections by rows, the smaller first, as nvidia-smi has them; both ways are alike."""
    row = row_of(facts)
    found = {
        (row[p.source], row[p.target]): f"NV{p.lanes}" if p.lanes else p.path_class.value
        for p in facts.pairs
        if p.path_class is not None
    }
    assert all(found[j, i] == relation for (i, j), relation in found.items())
    return {(i, j): relation for (i, j), relation in found.items() if i < j}


def relation(facts, i, j):
    """The best connection of two rows."""
    return relations(facts).get((min(i, j), max(i, j)), UNTOLD)


def pcie(device):
    """The state of a device's link, which is told."""
    assert device.pcie is not None
    return device.pcie
