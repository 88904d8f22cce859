"""Every format of one machine's description: texts and XML, by the registry of the readers."""

import zlib
from dataclasses import replace
from itertools import chain
from pathlib import Path

from tests.fuzz.target import SEEDS, Target, chosen, text_seeds
from tests.topology.case_files import FOLDER, cases
from tests.topology.readers.render import RENDERERS
from toposeat.errors import InputError, ToposeatError
from toposeat.topology import catalogue_names, parse_topology, read_topology, topology_text
from toposeat.topology.formats import FORMATS, format_of, parse_outputs
from toposeat.topology.merge import merge_topologies
from toposeat.topology.readers.file_text import decoded
from toposeat.topology.told import makes_machine

_ROUND_TRIP = 16  # one input of so many goes through a topology file as well


def machine_targets(max_bytes):
    """One target for every registered format of text."""
    found = {each.name: [] for each in FORMATS}
    texts = text_seeds(sample_texts())
    ours = ((Path(n), topology_text(read_topology(n)).encode()) for n in catalogue_names())
    for path, data in chain(_seeds(), texts, ours):
        try:
            found[format_of(decoded(data, path)).name].append((path, data))
        except ToposeatError:  # of a network, or refused by every reader
            continue
    return [
        Target(each.name, chosen(found[each.name], max_bytes), _reader_of(each))
        for each in FORMATS
        if found[each.name]
    ]


def _seeds():
    for path in sorted(SEEDS.rglob("*")):
        if path.is_file():
            yield path, path.read_bytes()


def sample_texts():
    """What the readers' own tests read, and a matrix in each of its forms."""
    texts = {}
    of_machines = [path for path in sorted(FOLDER.glob("*.txt")) if "network" not in path.stem]
    for path in of_machines:
        for title, case in cases(path.stem).items():
            if case.base is None and "\nrefused" not in f"\n{case.shows}":
                named = {f"{path.stem}/{title}/{name}": text for name, text in case.files.items()}
                texts.update(named)
    cells = [["X", "NV2", "SYS"], ["NV2", "X", "SYS"], ["SYS", "SYS", "X"]]
    for name, render in RENDERERS.items():
        texts[f"topo-{name}"] = render(cells, 2, ["0-7", "8-15"])
    return texts


def _reader_of(of):
    """Reads as a user's file is read, but by this reader wherever it would take the file."""

    def parsed(name, data):
        file = decoded(data, name)
        if not of.looks_like(file):
            return parse_outputs(file)
        try:
            return [of.parse(file)]
        except ValueError as error:
            raise InputError(str(error), path=name, hint="as parse_outputs does") from error

    def read(name, data):
        parts = parsed(name, data)
        if any(map(makes_machine, parts)):
            topology = _merged(parts)
            if zlib.crc32(data) % _ROUND_TRIP == 0:
                check_round_trip(topology)

    return read


def _merged(parts):
    try:
        return merge_topologies(parts, "fuzzed")
    except ValueError as error:  # as `sources` takes it
        raise InputError(str(error), path="fuzzed", hint="as sources does") from error


def check_round_trip(topology):
    """What was read can be saved, and read again as the same."""
    again = parse_topology(topology_text(topology), "again")
    # In what order routes are listed says nothing.
    assert again.route_of_pair == topology.route_of_pair, "a saved topology has other routes"
    assert replace(again, routes=topology.routes) == topology, "it is read as another one"
