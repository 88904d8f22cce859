"""Advice on the stand-in node: curves measured there, a real UCX asked, its settings clocked."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from toposeat import mapping
from toposeat.emulation import emulated_node, machine_text
from toposeat.launch import GpuAwareMpi, find_gpu_aware_mpi
from toposeat.model.placement_file import save_placement
from toposeat.model.route import CopyProtocol
from toposeat.topology import read_topology

pytestmark = [pytest.mark.mpi, pytest.mark.alone]

NEAR, FAR = (0, 1), (0, 8)
HALO = ("--grid", "2x1x1", "--weights", "3,1,1", "--device", "--bytes", "500000")
PATTERN = "stencil3d:2x1x1,weight=3,bytes=500000"


@pytest.fixture(scope="module")
def mpi() -> GpuAwareMpi:
    if Path("/proc/driver/nvidia/version").exists():
        pytest.skip("this node has a real NVIDIA driver: the stand-in refuses to load beside it")
    found = find_gpu_aware_mpi()
    if isinstance(found, str):
        pytest.skip(found)
    return found


def toposeat(mpi: GpuAwareMpi, folder: Path, *words: object, **variables: str) -> str:
    """Run a verb on 16 emulated K80s; UCX is left to itself but for `variables`."""
    with emulated_node(machine_text(read_topology("k80-16"), scale=0.05)) as node:
        environment = node.environment(mpi.environment())
        for name in ("UCX_RNDV_SCHEME", "UCX_CUDA_IPC_ENABLE_GET_ZCOPY", "UCX_TLS"):
            environment.pop(name, None)
        done = subprocess.run(
            [Path(sys.executable).with_name("toposeat"), *map(str, words)],
            env={**environment, "TOPOSEAT_EMULATOR_QUIET": "1", **variables},
            cwd=folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=90,
            check=False,
        )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def folder(mpi: GpuAwareMpi, tmp_path_factory: pytest.TempPathFactory, examples_dir: Path) -> Path:
    """`node.json`: pairs 0-1, 0-8 and 1-8 measured; placements of two ranks; the program."""
    place = tmp_path_factory.mktemp("advise")
    mpi.installation.compile(examples_dir / "halo3d" / "halo3d.c", place / "halo3d")
    options = ("--devices", "0,1,8", "--budget", "0", "--protocols", "put,staged")
    toposeat(mpi, place, "measure", "-t", "k80-16", *options, "-o", "node.json")
    machine = read_topology(str(place / "node.json"))
    assert machine.metadata["emulated"] == "k80-16"
    for name, devices in (("near", NEAR), ("far", FAR)):
        placement = mapping.seat_ranks(machine, 2, devices, metadata={})
        seats = tuple(replace(seat, cpus=None, memory_node=None) for seat in placement.seats)
        save_placement(replace(placement, seats=seats), place / f"{name}.place")
    return place


def advised(mpi: GpuAwareMpi, folder: Path, name: str, *options: str, **variables: str) -> Any:
    words = ("advise", "-p", f"{name}.place", "-t", "node.json", "--traffic", PATTERN)
    line = (*mpi.launch_words(2), folder / "halo3d", *HALO, "--iterations", "2", "--warmup", "1")
    timed = ("--time", r" ([0-9.]+) s", "--json")
    return json.loads(toposeat(mpi, folder, *words, *options, *timed, "--", *line, **variables))


def measured_s(folder: Path, protocol: CopyProtocol, message_bytes: int) -> float:
    """Of one message from device 0 to device 8, by the curves of `node.json`; seconds."""
    machine = read_topology(str(folder / "node.json"))
    (far,) = [r for r in machine.routes if (r.source, r.target) == ("gpu0", "gpu8")]
    (way,) = [each for each in far.protocols or () if each.protocol is protocol]
    latency_s, bytes_per_s = way.curve.at(message_bytes)
    return latency_s + message_bytes / bytes_per_s


def test_a_far_pair_that_copies_directly_is_sent_through_the_host(
    mpi: GpuAwareMpi, folder: Path
) -> None:
    staged_s, put_s = (
        measured_s(folder, each, 1_500_000) for each in (CopyProtocol.STAGED, CopyProtocol.PUT)
    )
    if staged_s > 0.85 * put_s:
        pytest.skip(
            f"this machine is too busy: a copy of {staged_s * 1e3:.2f} ms through the host's memory"
            f" was measured beside {put_s * 1e3:.2f} ms, not 0.77 of it"
        )
    found = advised(
        mpi, folder, "far", "--repeats", "1", "--tries", "1", UCX_RNDV_SCHEME="put_zcopy"
    )
    assert found["stack"]["kind"] == "openmpi-ucx"
    assert found["stack"]["transport"].startswith("UCX ")
    assert found["stack"]["rule"] == [{"from_bytes": 0, "protocol": "put"}]
    assert "measured" in {each["basis"] for each in found["stack"]["statements"]}
    best = found["candidates"][0]
    assert best["variables"] == {"UCX_RNDV_SCHEME": "auto", "UCX_TLS": "^cuda_ipc"}
    assert best["predicted_gain"] > 0.1
    assert found["tried"] == ["through the host"]
    assert found["emulated"] == "k80-16"
    clocked = found["clocked"]
    assert clocked["baseline"] == "present"
    (order,) = clocked["orders"]
    assert len(order["seconds"]) == len(clocked["default_s"]) == len(clocked["again_s"]) == 1
    assert found["recommended"] is None  # one repeat: no spread, so no verdict


def test_where_direct_is_best_nothing_is_promising(mpi: GpuAwareMpi, folder: Path) -> None:
    words = ("advise", "-p", "near.place", "-t", "node.json", "--traffic", PATTERN, "--json")
    said = toposeat(mpi, folder, *words, "--stack", "openmpi-ucx", UCX_RNDV_SCHEME="put_zcopy")
    found = json.loads(said)
    assert found["recommended"] is None
    (worst,) = [each for each in found["candidates"] if each["name"] == "through the host"]
    assert worst["predicted_gain"] < -0.5
