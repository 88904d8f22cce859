"""`toposeat run` of placements onto machines of the catalogue, on emulated nodes."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.processes import executable, ran
from toposeat import topology
from toposeat.cli.main import main
from toposeat.model.placement_file import load_placement, parse_placement
from toposeat.topology.topology_file import save_topology

TOPOSEAT = str(Path(sys.executable).with_name("toposeat"))
BRIDGED = "rtx-4-crossed-bridges"


@pytest.fixture
def launcher(tmp_path: Path) -> str:
    path = executable(tmp_path / "mpiexec", "#!/bin/sh\necho HYDRA 5.0\n")
    return str(path)


def run_on(node: str, place: Path, launcher: str, *options: str) -> tuple[int, str, str]:
    """A dry run of four ranks on an emulated node."""
    words = [TOPOSEAT, "emulate", "-t", node, "--", TOPOSEAT, "run", "-p", str(place), *options]
    done = ran([*words, "--dry-run", "--", launcher, "-n", "4", "true"])
    return done.returncode, done.stdout, done.stderr


def mapped(tmp_path: Path, machine: str) -> Path:
    place = tmp_path / "job.place"
    assert main(["map", "ring:4", "-t", machine, "--solver", "random", "-o", str(place)]) == 0
    return place


def exchanged(value: object, one: str, other: str) -> Any:
    """A JSON value in which two words have changed places."""
    if isinstance(value, dict):
        return {key: exchanged(each, one, other) for key, each in value.items()}
    if isinstance(value, list):
        return [exchanged(each, one, other) for each in value]
    return {one: other, other: one}.get(value, value) if isinstance(value, str) else value


def test_devices_are_matched_by_their_wiring(tmp_path: Path, launcher: str) -> None:
    """On a node whose bridges join other positions, ranks that shared a bridge still do."""
    place = mapped(tmp_path, BRIDGED)
    file = tmp_path / "node.json"
    nominal = topology.read_topology(BRIDGED)
    save_topology(nominal, file)
    document = json.loads(file.read_text())
    devices = document.pop("devices")
    document = exchanged(document, "gpu1", "gpu2")
    file.write_text(json.dumps({**document, "devices": devices}))
    own = topology.read_topology(str(file))

    code, out, err = run_on(str(file), place, launcher)
    assert code == 0, err
    found = parse_placement(out.partition("==> seats.place <==\n")[2].partition("\n\n")[0] + "\n")
    before = load_placement(place)
    for machine, placement in ((nominal, before), (own, found)):
        of_pci = {device.pci_bus_id: device.id for device in machine.devices}
        devices = [of_pci[seat.pci_bus_id] for seat in placement.seats]
        classes = [
            [machine.route_of_pair[a, b].path_class for b in devices if b != a] for a in devices
        ]
        if placement is before:
            wanted = classes
    assert classes == wanted
    assert [seat.index for seat in found.seats] != [seat.index for seat in before.seats]


@pytest.mark.parametrize(
    ("machine", "said"),
    [("dgx-1v", "dgx-1v has 8 devices, this node 4"), ("k40-4", "k40-4 has Tesla K40")],
)
def test_another_machine_is_refused_unless_asked_for(
    tmp_path: Path, launcher: str, machine: str, said: str
) -> None:
    place = mapped(tmp_path, machine)
    code, out, err = run_on("polaris-4", place, launcher)
    assert (code, out) == (1, "")
    assert "nothing was started, the placement is for another machine" in err
    assert said in err
    code, out, err = run_on("polaris-4", place, launcher, "--other-machine")
    assert code == 0, err
