"""`toposeat run` of placements onto machines of the catalogue, on emulated nodes."""

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.processes import executable, ran
from toposeat import topology
from toposeat.cli.main import main
from toposeat.model.placement_file import load_placement, parse_placement
from toposeat.topology import save_topology

TOPOSEAT = str(Path(sys.executable).with_name("toposeat"))
BRIDGED = "rtx-4-crossed-bridges"


@pytest.fixture
def launcher(tmp_path):
    path = executable(tmp_path / "mpiexec", "#!/bin/sh\necho HYDRA 5.0\n")
    return str(path)


def run_on(node, place, launcher, *options):
    """A dry run of four ranks on an emulated node."""
    words = [TOPOSEAT, "emulate", "-t", node, "--", TOPOSEAT, "run", "-p", str(place), *options]
    done = ran([*words, "--dry-run", "--", launcher, "-n", "4", "true"])
    return done.returncode, done.stdout, done.stderr


def mapped(tmp_path, machine):
    place = tmp_path / "job.place"
    assert main(["map", "ring:4", "-t", machine, "--solver", "random", "-o", str(place)]) == 0
    return place


def test_devices_go_by_their_numbers(tmp_path, launcher):
    place = mapped(tmp_path, BRIDGED)
    code, out, err = run_on(BRIDGED, place, launcher)
    assert code == 0, err
    found = parse_placement(out.partition("==> seats.place <==\n")[2].partition("\n\n")[0] + "\n")
    assert found.devices == load_placement(place).devices
    assert "every pair of them is joined in the same way" in err


def test_a_node_that_is_wired_in_another_way_is_refused(tmp_path, launcher):
    """Bridges that join other numbers: no order is looked for in which they would be alike."""
    place = mapped(tmp_path, BRIDGED)
    file = tmp_path / "node.json"
    nominal = topology.read_topology(BRIDGED)
    swapped = [
        replace(d, id={"gpu1": "gpu2", "gpu2": "gpu1"}.get(d.id, d.id)) for d in nominal.devices
    ]
    save_topology(replace(nominal, devices=tuple(swapped)), file)
    code, out, err = run_on(str(file), place, launcher)
    assert (code, out) == (1, "")
    assert "D0 and D1 of this node are joined in another way" in err
    assert "toposeat map TRAFFIC -t this" in err


@pytest.mark.parametrize(
    ("machine", "said"),
    [("dgx-1v", "dgx-1v has 8 devices, this node 4"), ("k40-4", "k40-4 has Tesla K40")],
)
def test_another_machine_is_refused_unless_asked_for(tmp_path, launcher, machine, said):
    place = mapped(tmp_path, machine)
    code, out, err = run_on("polaris-4", place, launcher)
    assert (code, out) == (1, "")
    assert "nothing was started, the placement is for another machine" in err
    assert said in err
    code, out, err = run_on("polaris-4", place, launcher, "--other-machine")
    assert code == 0, err
