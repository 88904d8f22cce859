"""Programs that start their ranks as ML servers do: recorded, and run on an emulated node."""

import os
import sys
from pathlib import Path

import pytest

from tests.support.processes import ran
from tests.support.pytorch import python_with_torch, torchrun, why_no_torch
from tests.support.starters import COUNT, HOW
from tests.support.strict_jobs import NOT_AS_PLANNED
from tests.support.torch_bytes import given
from toposeat.emulation import emulated_node, machine_text
from toposeat.model.placement_file import load_placement
from toposeat.model.traffic_file import load_traffic
from toposeat.topology import read_topology

STARTERS = Path(__file__).parents[1] / "support" / "starters.py"
TOPOSEAT = str(Path(sys.executable).with_name("toposeat"))
# Ranks that have ended are not waited for, however long the others would be.
PATIENT = f"""{sys.executable} -c 'from toposeat.cli.main import entry
from toposeat.launch import watching
watching._LAST_REPORTS_S = 1e6
entry()'"""
needs_torch = pytest.mark.skipif(bool(why_no_torch()), reason=why_no_torch() or "none")
MACHINE = "rtx-4-crossed-bridges"
# Pairs that talk most: by default each is split by the bridges.
PAIRS = """
import os, torch, torch.distributed as dist
dist.init_process_group("gloo")
rank = dist.get_rank()
pairs = [dist.new_group([first, first + 1]) for first in (0, 2)]
for _ in range(3):
    dist.all_reduce(torch.ones(250000), group=pairs[rank // 2])
dist.all_reduce(torch.ones(10))
os.write(1, f"rank {rank} {os.environ.get('CUDA_VISIBLE_DEVICES')}\\n".encode())
dist.barrier()
dist.destroy_process_group()
"""


def emulated(script, folder):
    """A shell script on the emulated node."""
    left_out = ("CUDA_VISIBLE_DEVICES", "LOCAL_RANK")
    environment = {name: value for name, value in os.environ.items() if name not in left_out}
    environment |= {"XDG_CACHE_HOME": str(folder / "cache"), "OMP_NUM_THREADS": "1"}
    with emulated_node(machine_text(read_topology(MACHINE))) as node:
        return ran(["sh", "-ec", script], env=node.environment(environment), cwd=folder)


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Two pairs of ranks on the crossed bridges."""
    folder = tmp_path_factory.mktemp("place")
    done = emulated(f"{TOPOSEAT} map llm:tp=2,dp=2 -t this -o a.place", folder)
    assert done.returncode == 0, done.stderr
    return folder / "a.place"


@pytest.mark.parametrize("how", HOW)
def test_ranks_use_the_planned_devices(how, place, tmp_path):
    program = f"{sys.executable} {STARTERS} {how} device 4"
    done = emulated(f"{PATIENT} run -p {place} -- {program}", tmp_path)
    assert done.returncode == 0, done.stderr
    rows = [dict(word.split("=") for word in row.split()) for row in done.stdout.splitlines()]
    found = {int(row["rank"]): row["pci"][-10:] for row in rows}
    planned = {seat.rank: str(seat.pci_bus_id)[-10:] for seat in load_placement(place).seats}
    assert found == planned
    assert list(planned.values()) != sorted(planned.values())
    # Only a Python that knows its LOCAL_RANK when it starts can be asked what it got.
    asked = how in ("deepspeed", "local-rank")
    assert ("4 ranks as planned" in done.stderr) == asked, done.stderr


@needs_torch
@pytest.mark.parametrize("how", HOW)
def test_every_rank_of_pytorch_is_verified(how, place, tmp_path):
    program = f"{python_with_torch()} {STARTERS} {how} both 4"
    done = emulated(f"{TOPOSEAT} run --strict -p {place} -- {program}", tmp_path)
    assert done.returncode == 0, done.stderr
    assert "4 ranks as planned" in done.stderr


@needs_torch
def test_a_rank_of_pytorch_elsewhere_is_found(place, tmp_path):
    program = f"env CUDA_VISIBLE_DEVICES=1,0 {python_with_torch()} {STARTERS} spawn both 4"
    done = emulated(f"{TOPOSEAT} run --strict -p {place} -- {program}", tmp_path)
    assert done.returncode == NOT_AS_PLANNED, done.stderr


@needs_torch
@pytest.mark.parametrize("how", HOW)
def test_every_rank_is_recorded(how, tmp_path):
    line = [python_with_torch(), STARTERS, how, "torch", "2"]
    done = ran(
        [TOPOSEAT, "profile", "-o", tmp_path / "a.prof", "--", *line],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stderr
    traffic = load_traffic(tmp_path / "a.prof")
    assert given(traffic) == {("allreduce", (0, 1), rank): COUNT * 4 for rank in (0, 1)}


@needs_torch
def test_tune_then_run_of_torchrun(tmp_path):
    (tmp_path / "train.py").write_text(PAIRS)
    line = " ".join(torchrun("train.py"))
    done = emulated(f"{TOPOSEAT} tune -- {line}; {TOPOSEAT} run -- {line}", tmp_path)
    assert done.returncode == 0, done.stderr
    said = [row for row in done.stdout.splitlines() if not row.startswith("rank ")]
    assert said[0].startswith("Verdict   Predicted gain from moving ")
    ranks = sorted(row for row in done.stdout.splitlines() if row.startswith("rank "))
    listed = next(row for row in said if "CUDA_VISIBLE_DEVICES=" in row).partition("DEVICES=")[2]
    assert ranks == sorted(f"rank {rank} {to}" for to in ("None", listed) for rank in range(4))
