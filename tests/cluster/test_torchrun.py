"""torchrun on several nodes: recorded below srun, and seated by `toposeat run` on each."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from tests.cluster.test_realise import DEVICES, NODES, plan
from tests.support.cluster import LOGIN, Cluster, toposeat
from tests.support.pytorch import PROGRAM, python_with_torch, why_no_torch
from tests.support.torch_bytes import differences
from toposeat.model.placement import Placement
from toposeat.model.placement_file import save_placement
from toposeat.model.traffic_file import load_traffic

ORDER = ("tb3", "tb1", "tb2")  # neither as numbers nor as text
PER_NODE = 2
REPORT = """
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


pytestmark = [
    pytest.mark.skipif(bool(why_no_torch()), reason=why_no_torch() or "none"),
    pytest.mark.skipif(
        python_with_torch().startswith("/tmp/"),
        reason="nodes do not see /tmp: TOPOSEAT_TEST_TORCH must be elsewhere",
    ),
]


def test_records_come_home_from_nodes_that_share_no_folder(cluster: Cluster) -> None:
    torchrun = ["torchrun", "--nnodes", "2", "--nproc-per-node", "2", "--rdzv-backend", "c10d"]
    torchrun += ["--rdzv-endpoint", "tb1:29511", PROGRAM, "grouped", "2"]
    line = ["srun", "-w", "tb1,tb2", "-N2", "-n2", *torchrun]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "eth0"}
    environment["PATH"] = f"{Path(python_with_torch()).parent}:{os.environ['PATH']}"
    profile = cluster.share / "torch.prof"
    done = cluster.on(
        LOGIN, [toposeat(), "profile", "-o", profile, "--", *line], environment=environment
    )
    assert done.returncode == 0, done.stderr
    traffic = load_traffic(profile)
    assert [info.host for info in traffic.rank_info] == ["tb1", "tb1", "tb2", "tb2"]
    assert not differences("grouped", 2, traffic)


def test_ranks_follow_the_plan_whatever_the_names_of_nodes(
    cluster: Cluster, tmp_path: Path
) -> None:
    folder = cluster.share / tmp_path.name
    folder.mkdir()
    script = folder / "train.py"
    script.write_text(REPORT)
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
