"""Real frameworks on two nodes: started as under Slurm, recorded by formula, placed, verified.

The plan has rank 0 on the second node of the job, so that what meets on the first one waits.
"""

from dataclasses import replace
from pathlib import Path

import pytest

from tests.cluster.test_realise import plan
from tests.profile.test_frameworks import PROGRAM, WORLD, per_step, why_not
from tests.support.cluster import LOGIN, toposeat
from tests.support.pytorch import python_with_torch, why_no_torch
from tests.support.torch_bytes import given
from toposeat.model.placement_file import save_placement
from toposeat.model.result_file import parse_run
from toposeat.model.runs import SeatVerdict
from toposeat.model.traffic_file import load_traffic

HOSTS = ("tb2", "tb2", "tb1", "tb1")
SRUN = ("srun", "-w", "tb1,tb2", "-N2")
TORCHRUN = (
    *(*SRUN, "--ntasks-per-node=1", "torchrun", "--nnodes", "2", "--nproc-per-node", "2"),
    *("--rdzv-backend", "c10d", "--rdzv-endpoint", "tb1:29633", "--no-python"),
)
# toposeat asks the stand-in driver; frameworks, whose calls it does not know, are to find none.
WITHOUT_DRIVER = ("env", "-u", "LD_LIBRARY_PATH", "-u", "TOPOSEAT_EMULATED_MACHINE", "python")
STARTERS = {
    "lightning": (*SRUN, "-n4", "--ntasks-per-node=2"),
    "transformers": TORCHRUN,
    "fsdp2": TORCHRUN,
    "accelerate": TORCHRUN,
    "deepspeed": TORCHRUN,
}
_SECONDS = 400.0  # four ranks that import torch on two busy cores

pytestmark = [
    pytest.mark.skipif(bool(why_no_torch()), reason=why_no_torch() or "none"),
    pytest.mark.skipif(
        python_with_torch().startswith("/tmp/"),
        reason="nodes do not see /tmp: TOPOSEAT_TEST_TORCH must be elsewhere",
    ),
]


@pytest.fixture
def environment(cluster):
    own = cluster.emulated("polaris-4")
    return {
        **own,
        **{"OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "eth0", "DS_ACCELERATOR": "cpu"},
        "NODES": "2",
        "PATH": f"{Path(python_with_torch()).parent}:{own['PATH']}",
    }


def placement():
    """Two ranks on each of two nodes, the second one first; no CPUs, of which there are two."""
    found = plan((1,) * 4 + (0,) * 4 + (2,) * 4 + (3,) * 4)
    seats = [seat for seat in found.seats if seat.host in HOSTS and seat.local_rank < 2]
    return replace(
        found,
        seats=tuple(replace(seat, rank=rank, cpus=None) for rank, seat in enumerate(seats)),
        devices_of_host={host: found.devices_of_host[host] for host in dict.fromkeys(HOSTS)},
    )


@pytest.mark.parametrize("case", STARTERS)
def test_a_job_on_two_nodes(cluster, environment, case):
    why = why_not(case)
    if why:
        pytest.skip(why)

    def started(*words, steps):
        line = [*STARTERS[case], *WITHOUT_DRIVER, PROGRAM, str(steps), case]
        command = [toposeat(), *words, "--", *line]
        done = cluster.on(LOGIN, command, environment=environment, seconds=_SECONDS)
        assert done.returncode == 0, done.stderr

    gave = []
    for steps in (2, 5):
        profile = cluster.share / f"{case}-{steps}.prof"
        started("profile", "-o", profile, steps=steps)
        gave.append(given(load_traffic(profile)))
    few, many = gave
    many.subtract(few)
    moved = per_step(case)
    assert {key: size for key, size in many.items() if size} == {
        (operation, WORLD, rank): 3 * size for operation, size in moved.items() for rank in WORLD
    }
    place, record = cluster.share / f"{case}.place", cluster.share / f"{case}.json"
    save_placement(placement(), place)
    started("run", "--strict", "-p", place, "-o", record, steps=2)
    run = parse_run(record.read_text(), record)
    assert run.verdict is SeatVerdict.AS_PLACED
    assert tuple(seat.host for seat in run.seats) == HOSTS
