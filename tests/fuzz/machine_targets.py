"""Every format of one machine's description: texts and XML, by the registry of the readers."""

import zlib
from dataclasses import replace
from itertools import chain
from pathlib import Path

from tests.fuzz.target import SEEDS, Target, chosen, text_seeds
from tests.topology.readers import amd_samples as amd
from tests.topology.readers import test_hwloc_xml, test_nccl_xml
from tests.topology.readers.render import RENDERERS
from toposeat.errors import InputError, ToposeatError
from toposeat.topology import catalogue_names, read_topology
from toposeat.topology.formats import FORMATS, format_of, parse_outputs
from toposeat.topology.merge import merge_topologies
from toposeat.topology.readers.file_text import decoded
from toposeat.topology.told import makes_machine
from toposeat.topology.topology_file import parse_topology, topology_text

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
    """What the readers' own tests write: the tools of AMD and Intel, matrices."""
    bus = amd.MI250X_BUS[:3]

    def kind(i, j):
        return "XGMI" if (i, j) in ((0, 1), (1, 0)) else "PCIE"

    def number(i, j):
        return 10.0 + 10 * i + j

    texts = {
        "rocm-smi": amd.rocm_smi_mi250x(),
        "amd-smi": _amd_smi(bus),
        "amd-smi-8": amd.amd_smi_mi250x(),
        "amd-smi.json": amd.amd_smi_json(bus, amd.mi250x_weight, kind),
        "xpu-smi": amd.xpu_smi(2, 2, amd.max1550, ["0-15", "16-31"]),
        "kfd": amd.kfd_mi300a(1).text(),
        "kfd-grep": amd.kfd_mi300a(1).grep(),
        "kfd-parts": amd.kfd_mi300a(3).text(),
        "hwloc2.xml": test_hwloc_xml.SAMPLE,
        "nccl.xml": test_nccl_xml.SAMPLE,
        "lscpu": "Architecture: x86_64\nVendor ID: AuthenticAMD\nModel name: AMD EPYC 7543\n"
        "CPU family: 25\nModel: 1\nNUMA node(s): 2\nNUMA node0 CPU(s): 0-31\n",
        "lspci": "-+-[0000:80]---01.0-[81]----00.0  NVIDIA Corporation AD104GL [L4]\n"
        " \\-[0000:00]---01.0-[01]----00.0  Intel Corporation Ethernet X710\n",
        "cpuinfo": "processor\t: 0\nvendor_id\t: GenuineIntel\ncpu family\t: 6\n"
        "model\t\t: 143\nmodel name\t: Intel(R) Xeon(R) Platinum 8480C\n",
    }
    cells = [["X", "NV2", "SYS"], ["NV2", "X", "SYS"], ["SYS", "SYS", "X"]]
    for name, render in RENDERERS.items():
        texts[f"topo-{name}"] = render(cells, 2, ["0-7", "8-15"])
    return texts


def _amd_smi(bus):
    """Every table of a few GPUs: what takes a reader 5 ms with eight of them."""
    cells = {
        "ACCESS": lambda i, j: "ENABLED",
        "WEIGHT": amd.mi250x_weight,
        "HOPS": lambda i, j: int(i != j),
        "LINK TYPE": lambda i, j: "SELF" if i == j else "XGMI",
        "NUMA BW": lambda i, j: "N/A" if i == j else "50000-200000",
    }
    return "".join(amd.amd_smi_table(f"{name} TABLE", bus, cell) for name, cell in cells.items())


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
