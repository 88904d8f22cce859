"""Real frameworks on one node: started as their users do, recorded to the byte of the formula."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.processes import ran
from tests.support.pytorch import python_with_torch, why_no_torch
from tests.support.torch_bytes import given
from toposeat.model.traffic_file import load_traffic

PROGRAM = Path(__file__).parents[1] / "support" / "framework_program.py"
RANKS, LAYER = 4, 64 * 64 * 4  # bytes
WORLD = tuple(range(RANKS))
TORCHRUN = ("torchrun", "--nproc-per-node", str(RANKS))
ACCELERATE = (
    *("accelerate", "launch", "--multi_gpu", "--num_machines", "1", "--num_processes", str(RANKS)),
    *("--mixed_precision", "no", "--dynamo_backend", "no"),
)
STARTERS = {
    "accelerate": ACCELERATE,
    "lightning": ("python",),
    "transformers": TORCHRUN,
    "deepspeed": ("deepspeed", "--num_accelerators", str(RANKS)),
    "spawn": ("python",),
    "fsdp2": TORCHRUN,
    "ray": ("python",),
}
# Bytes that each rank gives in a step: gradients; of FSDP its shard, once since a root keeps what
# it gathered, and what it gets.
SHARDED = {"allgather": LAYER // RANKS, "reduce_scatter_block": LAYER // RANKS}
MORE = {"transformers": 4, "deepspeed": 4}  # one float more in each step: seen, not derived


def per_step(case):
    """Bytes that each rank gives in a step, by operation."""
    if case == "fsdp2":
        return SHARDED
    asked = {"bcast": 8} if case == "lightning" else {}  # whether to go on
    return {"allreduce": LAYER + MORE.get(case, 0), **asked}


pytestmark = pytest.mark.skipif(bool(why_no_torch()), reason=why_no_torch() or "none")


def why_not(case):
    """Why a framework cannot be started; empty if it can."""
    package = case if case not in ("spawn", "fsdp2") else "torch"
    line = [python_with_torch(), "-c", f"import {package}"]
    done = subprocess.run(line, check=False, capture_output=True)
    return "" if done.returncode == 0 else f"no package {package} beside torch"


def recorded(folder, case, steps):
    """What each rank gave to each group, by operation."""
    profile = folder / f"{steps}.prof"
    line = [*STARTERS[case], str(PROGRAM), str(steps), case]
    toposeat = str(Path(sys.executable).with_name("toposeat"))
    done = ran(
        [toposeat, "profile", "-o", str(profile), "--", *line],
        env={
            **os.environ,
            "PATH": f"{Path(python_with_torch()).parent}:{os.environ['PATH']}",
            **{"OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo", "DS_ACCELERATOR": "cpu"},
            "RAY_ADDRESS": "local",  # not one of another job on this machine
        },
        cwd=folder,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return given(load_traffic(profile))


@pytest.mark.parametrize("case", STARTERS)
def test_a_step_is_recorded_as_by_formula(tmp_path, case):
    """By two runs of different length: what comes at the start and at the end is in both."""
    why = why_not(case)
    if why:
        pytest.skip(why)
    few, many = recorded(tmp_path, case, 2), recorded(tmp_path, case, 5)
    moved = per_step(case).items()
    expected = {(operation, WORLD, rank): 3 * size for operation, size in moved for rank in WORLD}
    many.subtract(few)
    assert {key: size for key, size in many.items() if size} == expected
