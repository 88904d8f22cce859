"""Every format of one machine's description: texts and XML, by the registry of the readers."""

import zlib
from dataclasses import replace
from itertools import chain
from pathlib import Path

from tests.fuzz.job_targets import written
from tests.fuzz.target import SEEDS, Target, chosen, text_seeds
from tests.topology.case_files import FOLDER, cases
from tests.topology.readers.recorded import FORMATS, format_name
from tests.topology.readers.render import RENDERERS
from toposeat.errors import InputError, ToposeatError
from toposeat.topology import catalogue_names, parse_topology, read_topology, topology_text

_ROUND_TRIP = 16  # one input of so many goes through a topology file as well


def machine_targets(max_bytes):
    """One target for every registered format of text."""
    found = {each.name: [] for each in FORMATS}
    texts = text_seeds(sample_texts())
    ours = ((Path(n), topology_text(read_topology(n)).encode()) for n in catalogue_names())
    for path, data in chain(_seeds(), texts, ours):
        try:
            found[format_name(written(path, data))].append((path, data))
        except ToposeatError:  # of a network, or refused by every reader
            continue
    return [Target(name, chosen(seeds, max_bytes), _read) for name, seeds in found.items() if seeds]


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


def _read(name, data):
    try:
        topology = read_topology(written(name, data))
    except InputError as error:
        if "says too little to be a machine by itself" in error.message:
            return
        raise
    if zlib.crc32(data) % _ROUND_TRIP == 0:
        check_round_trip(topology)


def check_round_trip(topology):
    """What was read can be saved, and read again as the same."""
    again = parse_topology(topology_text(topology), "again")
    # In what order routes are listed says nothing.
    assert again.route_of_pair == topology.route_of_pair, "a saved topology has other routes"
    assert replace(again, routes=topology.routes) == topology, "it is read as another one"
