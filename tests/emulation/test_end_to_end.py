"""The whole path with a real GPU-aware MPI on the stand-in node, and its clocked gain."""

import json
import statistics
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.processes import ran
from toposeat.cli.main import main
from toposeat.emulation import emulated_node, machine_text
from toposeat.launch import find_gpu_aware_mpi
from toposeat.model.placement_file import load_placement
from toposeat.model.traffic import MemorySpace
from toposeat.model.traffic_file import load_traffic
from toposeat.topology import read_topology

pytestmark = pytest.mark.mpi

RANKS = 8
HALO = ("--grid", "2x2x2", "--weights", "3,1,1", "--device", "--bytes", "500000")
PATTERN = "stencil3d:2x2x2,weight=3,bytes=500000"  # the same


@pytest.fixture(scope="module")
def mpi():
    if Path("/proc/driver/nvidia/version").exists():
        pytest.skip("this node has a real NVIDIA driver: the stand-in refuses to load beside it")
    found = find_gpu_aware_mpi()
    if isinstance(found, str):
        pytest.skip(found)
    return found


def compiled(mpi, examples, name, folder):
    program, source = folder / name, examples / name / f"{name}.c"
    line = [str(mpi.installation.mpicc), "-O2", "-rdynamic", "-Wall", "-Wextra", "-Werror"]
    subprocess.run([*line, "-o", str(program), str(source), "-ldl"], check=True)
    return program


def on_node(mpi, *words, machine="k80-16", scale=1):
    """Run a command on an emulated node, whose links have this share of their speed."""
    with emulated_node(machine_text(read_topology(machine), scale=scale)) as node:
        done = ran(
            list(map(str, words)),
            env={**node.environment(mpi.environment()), "TOPOSEAT_EMULATOR_QUIET": "1"},
            stdin=subprocess.DEVNULL,
            timeout=90,
        )
    assert done.returncode == 0, done.stderr
    return done


def toposeat(mpi, *words, **node):
    return on_node(mpi, Path(sys.executable).with_name("toposeat"), *words, **node).stdout


def mapped(source, machine, place):
    assert main(["map", str(source), "-t", str(machine), "-o", str(place)]) == 0


def test_messages_of_devices_are_recorded(mpi, examples_dir, tmp_path):
    halo, profile = compiled(mpi, examples_dir, "halo3d", tmp_path), tmp_path / "halo.prof"
    profiling = (Path(sys.executable).with_name("toposeat"), "profile", "-o", profile, "--")
    done = on_node(mpi, *profiling, *mpi.launch_words(RANKS), halo, *HALO, "--iterations", "2")
    assert "GPU-aware" not in done.stderr  # Open MPI is not, the UCX that has the messages is
    traffic = load_traffic(profile)
    device = sum(t.bytes.sum() for (_, s), t in traffic.tables.items() if s is MemorySpace.DEVICE)
    # 8 ranks send one face along each dimension: 3 + 1 + 1 times the size, per iteration.
    assert device == RANKS * 5 * 500_000 * 2


@pytest.mark.alone
def test_a_pattern_is_mapped_and_clocked(mpi, examples_dir, tmp_path):
    halo, place = compiled(mpi, examples_dir, "halo3d", tmp_path), tmp_path / "halo.place"
    line = [*mpi.launch_words(RANKS), halo, *HALO]
    mapped(PATTERN, "k80-16", place)
    assert load_placement(place).ranks == RANKS

    timed = [*line, "--iterations", "3", "--warmup", "1"]
    words = ("compare", place, "-t", "k80-16", "--traffic", PATTERN, "--json")
    options = ("--repeats", "1", "--time", r" ([0-9.]+) s")
    document = toposeat(mpi, *words, *options, "--", *timed, scale=0.01)  # uplinks of 40 MB/s
    clocked = json.loads(document)["clocked"]
    assert clocked["emulated"] == "k80-16"
    (placed,) = clocked["orders"]
    default = clocked["default_s"] + clocked["again_s"]
    assert len(default) == 2
    assert len(placed["seconds"]) == 1
    assert placed["predicted"] > 0.5
    # Predicted to take 0.37 of the default's time; a loaded machine delays both.
    assert statistics.median(placed["seconds"]) < 0.75 * statistics.median(default)


@pytest.mark.alone
def test_measured_numbers_predict_what_is_clocked(mpi, examples_dir, tmp_path):
    node = {"machine": "power9-4", "scale": 0.006}  # its X-bus moves 192 MB/s
    halo = compiled(mpi, examples_dir, "halo3d", tmp_path)
    line = [*mpi.launch_words(4), halo, "--grid", "2x1x2", "--weights", "3,1,1", "--device"]
    line += ["--bytes", "3000000", "--iterations", "2"]
    profile, place, measured = (tmp_path / name for name in ("h.prof", "h.place", "m.json"))
    toposeat(mpi, "profile", "-o", profile, "--", *line, machine="power9-4")
    toposeat(mpi, "measure", "-t", "power9-4", "--budget", "0", "-o", measured, **node)
    mapped(profile, measured, place)
    words = ("compare", place, "-t", measured, "--traffic", profile, "--json", "--repeats", "1")
    options = ("--time", r" ([0-9.]+) s", "--", *line, "--warmup", "1")
    document = json.loads(toposeat(mpi, *words, *options, **node))
    (placed,) = document["clocked"]["orders"]
    assert 0.5 < placed["predicted"] < 0.8  # from what was measured on the slowed-down links
    default = document["clocked"]["default_s"] + document["clocked"]["again_s"]
    assert placed["seconds"][0] < 0.75 * statistics.median(default)


@pytest.mark.parametrize(
    "words",
    [
        ("stencil2d", "--halo", "2", "--rows", "24", "--columns", "30", "--grid", "2x2"),
        ("diffusion2d", "--columns", "500", "--rows", "8"),
        ("alltoall", "--pairwise", "--size", "2", "--bytes", "20000"),
    ],
    ids=lambda words: words[0],
)
def test_examples_are_right_on_devices(mpi, words, examples_dir, tmp_path):
    program = compiled(mpi, examples_dir, words[0], tmp_path)
    run = [*mpi.launch_words(4), program, *words[1:], "--iterations", "3"]
    assert f"{words[0]}: verified" in on_node(mpi, *run, "--device").stdout


def test_what_is_missing_is_named(tmp_path):
    found = find_gpu_aware_mpi((), {"TOPOSEAT_UCX": str(tmp_path)})
    assert isinstance(found, str)
    assert "libuct_cuda" in found
