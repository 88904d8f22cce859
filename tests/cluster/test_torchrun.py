"""torchrun on several nodes: recorded below srun, seated by `run` on each or below srun."""

import os
from dataclasses import replace
from pathlib import Path

import pytest

from tests.cluster.test_realise import DEVICES, NODES, plan
from tests.support.cluster import LOGIN, toposeat
from tests.support.pytorch import PROGRAM, python_with_torch, why_no_torch
from tests.support.torch_bytes import differences
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


def blocks():
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


def test_records_come_home_from_nodes_that_share_no_folder(cluster):
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


@pytest.fixture
def folder(cluster, tmp_path):
    """With the program, where every node sees it."""
    made = cluster.share / tmp_path.name
    made.mkdir()
    (made / "train.py").write_text(REPORT)
    return made


@pytest.fixture
def environment(cluster):
    bin_ = Path(python_with_torch()).parent
    return {
        **cluster.emulated("polaris-4"),
        **{"OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "eth0"},
        "PATH": f"{bin_}:{os.environ['PATH']}",
    }


def check(folder):
    """Every rank was where the plan has it, with its devices in the order of the plan."""
    for rank in range(len(ORDER) * PER_NODE):
        host, local = ORDER[rank // PER_NODE], rank % PER_NODE
        first = DEVICES[NODES.index(host)][:PER_NODE]
        told = dict(word.split("=") for word in (folder / f"rank-{rank}").read_text().split())
        assert (told["host"], told["local"], told["ranks"]) == (host, str(local), "6")
        assert told["list"].split(",")[:PER_NODE] == [str(device) for device in first]


def torchrun(folder):
    words = ["torchrun", "--nnodes", str(len(ORDER)), "--nproc-per-node", str(PER_NODE)]
    return [*words, folder / "train.py", folder]


def test_ranks_follow_the_plan_whatever_the_names_of_nodes(cluster, folder, environment):
    save_placement(blocks(), folder / "job.place")
    words = [toposeat(), "run", "-p", folder / "job.place", "--", *torchrun(folder)]
    started = [cluster.start(node, words, environment=environment) for node in sorted(ORDER)]
    for each in started:
        _, error = each.communicate(timeout=120)
        assert each.returncode == 0, error
    check(folder)


def test_below_srun_all_ranks_are_seated_or_none(cluster, folder, environment):
    place = folder / "job.place"
    plan = blocks()
    *others, last = plan.seats
    absent = "0000:99:00.0"
    listed = [
        replace(each, pci_bus_id=absent) if each.index == last.index else each
        for each in plan.devices_of_host[last.host]
    ]
    wrong = replace(
        plan,
        seats=(*others, replace(last, pci_bus_id=absent)),
        devices_of_host={**plan.devices_of_host, last.host: tuple(listed)},
    )
    save_placement(wrong, place)
    words = [toposeat(), "run", "-p", place, "--", "srun", "-N3", *torchrun(folder)]
    refused = cluster.on(LOGIN, words, environment=environment)
    assert refused.returncode == 1
    assert "of 6 ranks cannot be seated as placed" in refused.stderr, refused.stderr
    assert not list(folder.glob("rank-*"))
    save_placement(plan, place, overwrite=True)
    done = cluster.on(LOGIN, words, environment=environment)
    assert done.returncode == 0, done.stderr
    check(folder)
