"""Advice on the stand-in node: a real UCX asked, its settings clocked."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.processes import ran
from toposeat import mapping
from toposeat.emulation import emulated_node, machine_text
from toposeat.launch import find_gpu_aware_mpi
from toposeat.model.placement_file import save_placement
from toposeat.topology import read_topology

pytestmark = pytest.mark.mpi

FAR = (0, 8)
HALO = ("--grid", "2x1x1", "--weights", "3,1,1", "--device", "--bytes", "500000")


@pytest.fixture(scope="module")
def mpi():
    if Path("/proc/driver/nvidia/version").exists():
        pytest.skip("this node has a real NVIDIA driver: the stand-in refuses to load beside it")
    found = find_gpu_aware_mpi()
    if isinstance(found, str):
        pytest.skip(found)
    return found


def toposeat(mpi, folder, *words, **variables):
    """Run a verb on 16 emulated K80s; UCX is left to itself but for `variables`."""
    with emulated_node(machine_text(read_topology("k80-16"), scale=0.05)) as node:
        environment = node.environment(mpi.environment())
        for name in ("UCX_RNDV_SCHEME", "UCX_CUDA_IPC_ENABLE_GET_ZCOPY", "UCX_TLS"):
            environment.pop(name, None)
        done = ran(
            [Path(sys.executable).with_name("toposeat"), *map(str, words)],
            env={**environment, "TOPOSEAT_EMULATOR_QUIET": "1", **variables},
            cwd=folder,
            stdin=subprocess.DEVNULL,
            timeout=90,
        )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_settings_of_a_far_pair_are_clocked(mpi, tmp_path, examples_dir):
    mpi.installation.compile(examples_dir / "halo3d" / "halo3d.c", tmp_path / "halo3d")
    placement = mapping.seat_ranks(read_topology("k80-16"), 2, FAR, metadata={})
    seats = tuple(replace(seat, cpus=None, memory_node=None) for seat in placement.seats)
    save_placement(replace(placement, seats=seats), tmp_path / "far.place")
    line = (*mpi.launch_words(2), tmp_path / "halo3d", *HALO, "--iterations", "2", "--warmup", "1")
    words = ("advise", "-p", "far.place", "--repeats", "1", "--time", r" ([0-9.]+) s", "--json")
    found = json.loads(toposeat(mpi, tmp_path, *words, "--", *line, UCX_RNDV_SCHEME="put_zcopy"))
    assert found["stack"]["kind"] == "openmpi-ucx"
    assert found["stack"]["transport"].startswith("UCX ")
    assert found["stack"]["rule"] == [{"from_bytes": 0, "protocol": "put"}]
    assert "measured" in {each["basis"] for each in found["stack"]["statements"]}
    assert found["emulated"] == "k80-16"
    clocked = found["clocked"]
    assert clocked["baseline"] == "present"
    assert [order["name"] for order in clocked["orders"]] == ["receiver reads", "through the host"]
    assert {len(order["seconds"]) for order in clocked["orders"]} == {1}
    assert len(clocked["default_s"]) == len(clocked["again_s"]) == 1
    assert found["recommended"] is None  # one repeat: no spread, so no verdict
