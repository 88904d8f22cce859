"""A list of devices that the job inherited: what is planned, on one node, are the job's devices."""

import json

import pytest

from toposeat import launch, topology
from toposeat.cli.main import main
from toposeat.model.placement_file import load_placement
from toposeat.pipeline import MachineSource, machine_of_job

LISTED = {"CUDA_VISIBLE_DEVICES": "3,1"}


@pytest.fixture(autouse=True)
def _inherited(monkeypatch):
    here = topology.read_topology("rtx-4-crossed-bridges")
    monkeypatch.setattr("toposeat.topology.live.discover.facts_of_this", lambda: here)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3,1")


@pytest.mark.parametrize("source", [[], ["-t", "this"]])
def test_map_and_export(source, tmp_path, capsys):
    place = tmp_path / "app.place"
    assert main(["map", "ring:2", *source, "--json", "-o", str(place)]) == 0
    assert json.loads(capsys.readouterr().out)["line"].endswith(" CUDA_VISIBLE_DEVICES=3,1")
    assert load_placement(place).devices == [3, 1]  # the default is the order of the list
    assert main(["export", str(place), "--launcher", "script"]) == 0
    script = capsys.readouterr().out
    assert "devices=3,1 ;;" in script or "devices=3,1 " in script
    assert "0,2" not in script
    assert main(["map", "ring:4", *source]) == 1
    assert "4 ranks" in capsys.readouterr().err
    assert main(["map", "ring:2", *source, "--devices", "0,1"]) == 2
    assert "leaves it out" in capsys.readouterr().err


def test_choose(capsys):
    assert main(["choose", "2", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["line"].endswith(" CUDA_VISIBLE_DEVICES=3,1")
    assert main(["choose", "1", "--free", "0,1"]) == 2
    assert "leaves it out" in capsys.readouterr().err


def test_tune():
    line = launch.parse_launch_line(["mpirun", "-n", "2", "./app"])
    for source in (None, "this"):
        job = machine_of_job(line, MachineSource(topology=source), LISTED, lambda _: None)
        assert [device.index for device in job.machine.topology.devices] == [3, 1]


def test_doctor_shows_the_whole_machine_and_orders_the_jobs_devices(capsys, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3,2,1")
    main(["doctor"])
    shown = capsys.readouterr().out
    assert "4 x" in shown
    main(["doctor", "--json"])
    gains = json.loads(capsys.readouterr().out)["gains"]
    assert gains
    assert {tuple(sorted(gain["device_of_rank"])) for gain in gains} == {(1, 2, 3)}


def test_another_machine_is_not_this_one(capsys):
    assert main(["map", "ring:8", "-t", "dgx-1v", "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["device_of_rank"]) == 8
