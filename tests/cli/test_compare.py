"""`compare` takes machine and traffic from its placements where they are not given."""

import json
from pathlib import Path

import pytest

from toposeat.cli.main import main

BRIDGED = "rtx-4-crossed-bridges"


def placed(folder, name, traffic, machine, *more):
    path = folder / name
    assert main(["map", traffic, "-t", machine, "-o", str(path), *more]) == 0
    return str(path)


def compared(capsys, *argv):
    capsys.readouterr()
    assert main(["compare", *argv, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["predicted"]
    assert isinstance(found, list)
    return found


@pytest.mark.parametrize("as_file", [False, True])
def test_the_header_says_for_what(tmp_path, capsys, as_file):
    machine = BRIDGED
    if as_file:
        machine = str(tmp_path / "node.json")
        assert main(["discover", "-t", BRIDGED, "-o", machine]) == 0
    place = placed(tmp_path, "a.place", "stencil2d:2x2", machine)
    given = compared(capsys, place, "-t", BRIDGED, "--traffic", "stencil2d:2x2")
    assert compared(capsys, place) == given
    other = compared(capsys, place, "-t", BRIDGED, "--traffic", "ring:4")
    assert compared(capsys, place, "--traffic", "ring:4") == other != given


@pytest.mark.parametrize(
    ("traffic", "job"),
    [("llm:tp=2,dp=2", "torchrun --nproc-per-node N train.py"), ("ring:4", "mpirun -n N ./app")],
)
def test_what_clocks_them_is_the_line_of_the_traffics_kind(tmp_path, capsys, traffic, job):
    assert main(["compare", placed(tmp_path, "a.place", traffic, BRIDGED)]) == 0
    assert f"the same line with -- {job} at its end" in capsys.readouterr().err


def test_a_network_is_found_with_its_nodes_and_hosts(tmp_path, capsys):
    network = tmp_path / "topology.conf"
    network.write_text("SwitchName=leaf1 Nodes=n[1-2]\nSwitchName=leaf2 Nodes=n[3-4]\n")
    words = ("--node", BRIDGED, "--hosts", "n[1-3]")
    place = placed(tmp_path, "a.place", "ring:12", str(network), *words)
    given = compared(capsys, place, "-t", str(network), *words, "--traffic", "ring:12")
    assert compared(capsys, place) == given


def test_ranks_without_a_common_rail_are_said_as_map_says_them(tmp_path, capsys):
    network = tmp_path / "topology.conf"
    network.write_text("SwitchName=leaf1 Nodes=n[1-2]\n")
    words = ("--node", "hgx-h100")
    place = placed(tmp_path, "a.place", "alltoall:16", f"{network},rails=8:only", *words)
    capsys.readouterr()
    assert main(["compare", place]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "ranks on different rails: 56 pairs. NCCL sends" in said


def test_placements_of_several_machines_need_a_word(tmp_path, capsys):
    places = [placed(tmp_path, name, "ring:4", name) for name in (BRIDGED, "k40-4")]
    capsys.readouterr()
    assert main(["compare", *places]) == 2
    error = capsys.readouterr().err
    assert f"do not have the same machine: {BRIDGED}, k40-4" in error
    assert "-t SRC" in error


def test_a_header_may_say_nothing(tmp_path, capsys):
    place = Path(placed(tmp_path, "a.place", "ring:4", BRIDGED))
    lines = place.read_text().splitlines(keepends=True)
    place.write_text("".join(line for line in lines if not line.startswith("# traffic")))
    capsys.readouterr()
    assert main(["compare", str(place)]) == 2
    assert f"{place} does not say its traffic" in capsys.readouterr().err
