"""Every format of networks, and the strings that name networks, hosts and machines."""

from pathlib import Path

from tests.fuzz.job_targets import written
from tests.fuzz.target import Target, chosen, text_seeds
from tests.topology.networks.test_damage import SAMPLES
from toposeat.errors import UsageError
from toposeat.model.cpu_list import parse_cpu_list
from toposeat.model.hostlist import compress_hostlist, expand_hostlist, expand_scheduler_list
from toposeat.topology import read_network, read_topology

_MORE = {
    "scontrol": "SwitchName=s0 Level=0 LinkSpeed=1 Nodes=n[1-2]\n"
    "SwitchName=s1 Level=0 LinkSpeed=1 Nodes=n[3-4]\n"
    "SwitchName=s2 Level=1 LinkSpeed=1 Nodes=n[1-4] Switches=s[0-1]\n",
    "blocks.yaml": "- topology: f\n  flat: true\n- topology: k\n  block:\n    block_sizes: [2, 4]\n"
    "    blocks:\n      - block: b1\n        nodes: n[1-2]\n      - block: b2\n"
    "        nodes: n[3-4]\n",
}
_SYNTHETIC = (
    "tree:2:2:4", "tree:2:2:4,bw=12/6/6,lat=1.5", "pcie:2:2:4", "nvswitch:8,bw=300", "full:4",
    "ring:8", "mesh:4x4", "torus:4x4x2,bw=25,lat=2",
)  # fmt: skip
_SHAPES = (
    "fattree:8:16:32", "fattree:4:2:2,bandwidth=25:50:100,latency=1:2:3", "hierarchy:4:8:16,node=1",
    "torus3d:4x4x4,nodes=2,bandwidth=25", "torus2d:4x8", "torus4d:2x2x2x2", "dragonfly:9:4:2:2",
)  # fmt: skip
_HOSTS = (
    "n[001-016,020],login1", "circe-n[001-016],n[019-020]", "r[1-2]c[1-3]n[01-04]",
    "n1/0*8+n2/0*8", "n1 8 n2 8", "a,b,c\nd", "x[9-11]y",
)  # fmt: skip
_CPUS = ("0-3,8-11", "1,3-4,7", "5", "0-31,64-95")


def network_targets(max_bytes):
    """One target for every sample of a network."""
    files = [(Path(name), data) for name, data in SAMPLES.items()] + text_seeds(_MORE)
    return [Target(file[0].name, chosen([file], max_bytes), _read) for file in files]


def _read(name, data):
    network = read_network(written(name, data))
    assert network.hosts
    part = network.restricted_to(network.host_names[:2])
    assert all(len(level.group_of_host) == len(part.hosts) for level in part.levels)


def string_targets():
    """What users type: names of machines, of networks, of hosts, of CPUs."""
    return [
        _of_strings("synthetic machines", _SYNTHETIC, _read_synthetic),
        _of_strings("synthetic networks", _SHAPES, _read_shape),
        _of_strings("hostlists", _HOSTS, _read_hosts),
        _of_strings("CPU lists", _CPUS, _read_cpus),
    ]


def _of_strings(name, seeds, read):
    def read_bytes(_, data):
        read(data.decode("utf-8", "replace"))

    texts = tuple((Path(name), text.encode()) for text in seeds)
    return Target(name, texts, read_bytes)


def _known(text, seeds):
    if text.partition(":")[0] not in {seed.partition(":")[0] for seed in seeds}:
        raise UsageError("no such kind", hint="a file would be looked for")


def _read_synthetic(text):
    _known(text, _SYNTHETIC)
    read_topology(text)


def _read_shape(text):
    _known(text, _SHAPES)
    assert read_network(text).hosts


def _read_hosts(text):
    names = expand_scheduler_list(text)
    assert expand_hostlist(compress_hostlist(names)) == names, "other hosts after compression"


def _read_cpus(text):
    try:
        parse_cpu_list(text)
    except ValueError as error:  # the placement reader says where
        raise UsageError(str(error).replace("\n", " "), hint="as placement_file does") from error
