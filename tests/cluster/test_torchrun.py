"""torchrun on several nodes by `toposeat run` on each: ranks are where the plan has them."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from tests.cluster.test_realise import DEVICES, NODES, plan
from tests.support.cluster import Cluster, toposeat
from tests.support.pytorch import python_with_torch, why_no_torch
from toposeat.model.placement import Placement
from toposeat.model.placement_file import save_placement

ORDER = ("tb3", "tb1", "tb2")  # neither as numbers nor as text
PER_NODE = 2
PROGRAM = """
import os, socket, sys, torch
import torch.distributed as dist
dist.init_process_group("gloo")
total = torch.ones(1)
dist.all_reduce(total)
rank = dist.get_rank()
told = f"host={socket.gethostname()} list={os.environ.get('CUDA_VISIBLE_DEVICES')}"
told += f" local={os.environ['LOCAL_RANK']} ranks={int(total)}"
open(os.path.join(sys.argv[1], f"rank-{rank}"), "w").write(told)
dist.destroy_process_group()
"""


def blocks() -> Placement:
    """Two ranks on each of three nodes."""
    found = plan(tuple(NODES.index(host) for host in ORDER for _ in range(4)) + (3,) * 4)
    seats = [seat for seat in found.seats if seat.host in ORDER and seat.local_rank < PER_NODE]
    return replace(
        found,
        seats=tuple(replace(seat, rank=rank, cpus=None) for rank, seat in enumerate(seats)),
        devices_of_host={host: found.devices_of_host[host] for host in ORDER},
    )


@pytest.mark.skipif(bool(why_no_torch()), reason=why_no_torch() or "none")
def test_ranks_follow_the_plan_whatever_the_names_of_nodes(
    cluster: Cluster, tmp_path: Path
) -> None:
    if python_with_torch().startswith("/tmp/"):
        pytest.skip("nodes do not see /tmp: TOPOSEAT_TEST_TORCH must be elsewhere")
    folder = cluster.share / tmp_path.name
    folder.mkdir()
    script = folder / "train.py"
    script.write_text(PROGRAM)
    save_placement(blocks(), folder / "job.place")
    bin_ = Path(python_with_torch()).parent
    environment = {**cluster.emulated("polaris-4"), "OMP_NUM_THREADS": "1"}
    environment |= {"PATH": f"{bin_}:{os.environ['PATH']}", "GLOO_SOCKET_IFNAME": "eth0"}
    line = ["torchrun", "--nnodes", "3", "--nproc-per-node", str(PER_NODE), script, folder]
    words = [toposeat(), "run", "-p", folder / "job.place", "--", *line]
    started = [cluster.start(node, words, environment=environment) for node in sorted(ORDER)]
    for each in started:
        _, error = each.communicate(timeout=120)
        assert each.returncode == 0, error
    for rank in range(len(ORDER) * PER_NODE):
        host, local = ORDER[rank // PER_NODE], rank % PER_NODE
        first = DEVICES[NODES.index(host)][:PER_NODE]
        told = dict(word.split("=") for word in (folder / f"rank-{rank}").read_text().split())
        assert (told["host"], told["local"], told["ranks"]) == (host, str(local), "6")
        assert told["list"].split(",")[:PER_NODE] == [str(device) for device in first]
