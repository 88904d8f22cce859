"""One damage after the other in every format: each refusal names file, line, cause and a hint.

Damage is what a number out of bounds, a lost row or two statements against each other look like.
"""

from pathlib import Path

import pytest

from tests.fuzz.target import SEEDS
from tests.support.tables import literals
from tests.topology.case_files import texts_of
from tests.topology.networks.test_damage import SAMPLES
from tests.topology.readers.recorded import FORMATS, format_name
from toposeat.cli.main import main
from toposeat.errors import InputError
from toposeat.profile import read_traffic
from toposeat.topology import read_network, read_topology, topology_text

CASES = {  # by file and title; others are seeds of the fuzzing
    "lscpu": ("layout", "nodes of a socket are joined on its die"),
    "lspci": ("lspci", "a device by its number"),
    "rocm-smi": ("rocm_smi", "MI250X"),
    "amd-smi": ("amd_smi", "MI250X"),
    "amd-smi.json": ("amd_smi", "three GCDs in JSON"),
    "kfd": ("kfd", "MI300X"),
    "xpu-smi": ("xpu_smi", "stacks of Max 1550"),
    "nccl.xml": ("nccl_xml", "two GPUs"),
    "hwloc2.xml": ("hwloc_xml", "three GPUs"),
}
NETWORKS = {name: data.decode() for name, data in SAMPLES.items()}
TRAFFIC = {
    "pairs.csv": "# ranks=4\nsource,target,bytes,messages\n0,1,5,2\n2,0,7,1\n",
    "matrix.csv": "0,5,1e3\n7,0,0\n1,2,0\n",
    "run.0.prof": "# POINT TO POINT\nE\t0\t1\t800 bytes\t8 msgs sent\t0,8\n",
    "rank0.json": '{"schemaVersion": 1,\n "distributedInfo":\n  {"rank": 0, "world_size": 2},\n'
    ' "traceEvents": [\n]}\n',
}

DAMAGE = literals(Path(__file__).with_name("damage.txt"))


def written(folder, name, text):
    path = folder / name
    path.write_text(text)
    return path


def machine_text(name):
    if name == "machine.json":
        return topology_text(read_topology("minsky-4"))
    if name in CASES:
        *_, text = texts_of(*CASES[name]).values()
        return text
    return (SEEDS / name).read_text()


def damaged(text, damage):
    """The damaged text, and how the line is to be named."""
    old, new, _, further = damage
    assert old in text, old
    line = "" if further is None else f"{text.count(chr(10), 0, text.index(old)) + 1 + further}:"
    return text.replace(old, new, 1), line


def check(error, path, line, words):
    assert str(error).startswith(f"{path}:{line} "), f"{error}, not line {line}"
    assert words in error.message
    assert error.hint
    assert "\n" not in str(error) + error.hint


OTHERS = NETWORKS.keys() | TRAFFIC.keys()
MACHINES = [name for name in DAMAGE if name not in OTHERS]
MACHINE_CASES = [(name, damage) for name in MACHINES for damage in DAMAGE[name]]
OTHER_CASES = [(name, damage) for name in DAMAGE if name in OTHERS for damage in DAMAGE[name]]


def _short(value):
    return value if isinstance(value, str) else str(value)[:40]


@pytest.mark.parametrize(("name", "damage"), MACHINE_CASES, ids=_short)
def test_machines(name, damage, tmp_path):
    text, line = damaged(machine_text(name), damage)
    path = written(tmp_path, name, text)
    with pytest.raises(InputError) as caught:
        read_topology(path)
    check(caught.value, path, line, damage[2])


@pytest.mark.parametrize(("name", "damage"), OTHER_CASES, ids=_short)
def test_networks_and_traffic(name, damage, tmp_path):
    texts, read = (NETWORKS, read_network) if name in NETWORKS else (TRAFFIC, read_traffic)
    text, line = damaged(texts[name], damage)
    path = written(tmp_path, name, text)
    with pytest.raises(InputError) as caught:
        read(path)
    check(caught.value, path, line, damage[2])


@pytest.mark.parametrize("name", MACHINES)
def test_the_command_line_prints_place_and_hint(name, tmp_path, capsys):
    text, line = damaged(machine_text(name), DAMAGE[name][0])
    path = written(tmp_path, name, text)
    assert main(["discover", "-t", str(path)]) in (1, 2)
    out, err = capsys.readouterr()
    assert not out
    assert err.startswith(f"error: {path}:{line} ")
    assert "\nhint: " in err


def test_every_format_of_machines_is_damaged(tmp_path):
    found = {format_name(written(tmp_path, name, machine_text(name))) for name in MACHINES}
    assert {each.name for each in FORMATS} <= found
