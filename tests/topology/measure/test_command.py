"""`toposeat measure` as it is run: on the stand-in, under launchers, and where it cannot work."""

import json
import os
import signal
import sys
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.processes import ran
from toposeat.cli.main import main
from toposeat.emulation import emulated_node, machine_text
from toposeat.topology import read_topology, save_topology
from toposeat.topology.measure import MeasureError, Workers
from toposeat.topology.measure.pairs import transfer

_BIN = Path(sys.executable).parent
pytestmark = pytest.mark.skipif(
    Path("/proc/driver/nvidia/version").exists(),
    reason="this node has a real NVIDIA driver: the stand-in refuses to load beside it",
)


def toposeat(*words, cwd, code=0):
    """Run the command."""
    environment = {
        **os.environ,
        "OMPI_ALLOW_RUN_AS_ROOT": "1",
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
        "PATH": f"{_BIN}:{os.environ['PATH']}",
    }
    done = ran([str(_BIN / "toposeat"), *words], cwd=cwd, env=environment, timeout=100)
    assert done.returncode == code, done.stderr
    return done


def emulated(*words, scale="0.2", hide=""):
    """The words of `toposeat emulate` before those of `measure`."""
    hidden = ["env", f"TOPOSEAT_EMULATED_HIDDEN={hide}"] if hide else []
    return ["emulate", "-t", "k80-16", "--scale", scale, "--", *hidden, "toposeat", *words]


def copy_for_long(workers):
    for _ in range(1000):
        transfer(workers, [(0, 1)], "get", 4 << 20, 10)


@pytest.mark.alone
def test_a_measured_node_maps(tmp_path):
    options = ["--devices", "0,1,2,4", "--budget", "0", "--json"]
    # slow links, so that a busy machine keeps pace
    words = emulated("measure", "-t", "k80-16", *options, "-o", "m.json", scale="0.06")
    found = json.loads(toposeat(*words, cwd=tmp_path).stdout)
    assert found["schema"] == "toposeat/measurement/1"
    rates = found["protocols"]["get"]["bandwidth_bytes_per_s"]
    assert rates[0][0] is None
    assert rates[0][1] > 1.2 * rates[0][2] > 1.2 * rates[0][3]
    assert [0, 1] in [each["devices"] for each in found["shared"]]
    both = found["protocols"]["get"]["both_ways_bytes_per_s"]
    assert both[0][1] > 1.2 * both[0][2] > 1.2 * both[0][3]
    assert {each["what"] for each in found["host"]} == {"bandwidth", "latency"}
    machine = read_topology(tmp_path / "m.json")
    curve = machine.route_of_pair["gpu0", "gpu4"].curve
    assert curve is not None
    assert len(curve.points) >= 6
    toposeat("map", "ring:4", "-t", "m.json", "-o", "p.place", cwd=tmp_path)


@pytest.mark.mpi
@pytest.mark.parametrize(("family", "more"), [("openmpi", ["--oversubscribe"]), ("mpich", [])])
def test_a_node_of_which_nothing_is_known_under_a_launcher(tmp_path, family, more):
    launcher = _BIN.parent / "mpi" / family / "bin/mpirun"
    if not launcher.exists():
        pytest.skip(f"no {family} in the environment of the tests")
    words = ["measure", "--budget", "0", "-o", "m.json"]
    launch = ["--", str(launcher), *more, "-n", "3"]
    done = toposeat(*emulated(*words, *launch), cwd=tmp_path)
    assert "Measuring 3 GPUs" in done.stderr
    assert "get: GB/s" in done.stdout
    assert "known from measurements only" in done.stderr
    assert len(read_topology(tmp_path / "m.json").devices) == 3


@pytest.mark.parametrize(
    ("words", "cause"),
    [
        (["--devices", "0,x"], "not a list of numbers"),
        (["--devices", "1,1"], "a GPU is listed twice"),
        (["--budget", "nan"], "not a time"),
        (["--budget", "-1"], "not a time"),
    ],
)
def test_what_cannot_be_asked(capsys, words, cause):
    assert main(["measure", *words]) == 2
    said = capsys.readouterr().err
    assert cause in said
    assert "hint: " in said


def test_without_a_driver_there_is_a_reason(tmp_path):
    done = toposeat("measure", "-o", "m.json", cwd=tmp_path, code=1)
    assert "driver" in done.stderr
    assert "hint: " in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_hidden_gpus_are_not_there(tmp_path):
    done = toposeat(*emulated("measure", "--devices", "0,15", hide="3"), cwd=tmp_path, code=1)
    assert "there is no GPU 15: 15 are visible" in done.stderr
    done = toposeat(*emulated("measure", "--devices", "2"), cwd=tmp_path, code=1)
    assert "1 GPU visible; a pair needs two" in done.stderr


def test_another_machine_is_refused_before_anything_is_measured(tmp_path):
    words = ["measure", "-t", "dgx-1v", "--devices", "0,1", "--budget", "0"]
    done = toposeat(*emulated(*words, "-o", "m.json"), cwd=tmp_path, code=1)
    assert "no PCI bus id or UUID in common" in done.stderr
    assert "hint: " in done.stderr
    assert done.stdout == ""
    assert list(tmp_path.iterdir()) == []


def test_what_was_not_possible_or_not_there_is_said(tmp_path):
    machine = read_topology("k80-16")
    devices = machine.devices[:3]
    kept = {each.id for each in devices}
    gone = {each.id for each in machine.devices} - kept
    links = tuple(each for each in machine.links if not gone & {*each.ends})
    routes = tuple(
        replace(route, peer_access={route.source, route.target} != {"gpu0", "gpu2"})
        for route in machine.routes
        if route.source in kept and route.target in kept
    )
    small = replace(machine, devices=devices, links=links, pairs=(), routes=routes)
    save_topology(small, tmp_path / "three.json")
    words = ["--", "toposeat", "measure", "-t", "three.json", "--budget", "0"]
    done = toposeat("emulate", "-t", "three.json", "--scale", "0.2", *words, cwd=tmp_path)
    assert "note: get is not possible for 2 pairs, GPU 0 to 2 first" in done.stderr
    assert "They went through host memory" in done.stderr
    assert "staged: GB/s" in done.stdout
    words.insert(1, "TOPOSEAT_EMULATED_HIDDEN=1")
    words.insert(1, "env")
    done = toposeat("emulate", "-t", "three.json", "--scale", "0.2", *words, cwd=tmp_path)
    assert "has 3 GPUs, 2 were measured; not visible here: gpu1 (" in done.stderr


def test_a_killed_worker_is_said_and_nothing_is_left(monkeypatch):
    with emulated_node(machine_text(read_topology("k80-16"), scale=0.2)) as node:
        for name, value in node.environment(os.environ).items():
            monkeypatch.setenv(name, value)
        workers = Workers(devices=[0, 1])
        with workers:
            workers.ask(dict.fromkeys(range(2), "size 4194304"))
            workers.link(0, 1)
            victim = workers._children[1].pid
            threading.Timer(0.3, lambda: os.kill(victim, signal.SIGKILL)).start()
            with pytest.raises(MeasureError, match=r"ended|other process"):
                copy_for_long(workers)
        assert all(child.returncode is not None for child in workers._children)
        assert not workers._folder.exists()
