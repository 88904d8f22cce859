"""The usual recipe of PyTorch under Slurm, with rank 0 off the first host: it meets."""

import os
from pathlib import Path

import pytest

from tests.support.cluster import LOGIN, toposeat
from tests.support.pytorch import python_with_torch, why_no_torch

CASES = Path(__file__).resolve().parents[3] / "shared" / "cases" / "ml"
LINE = ["srun", "-w", "tb1,tb2", "-N2", "-n2"]
TELL = """
import os
hosts = os.environ["SLURM_JOB_NODELIST"]
os.environ.setdefault("MASTER_ADDR", hosts.split(",")[0])
print("rank", os.environ["SLURM_PROCID"], os.uname().nodename, hosts, os.environ["MASTER_ADDR"])
"""


@pytest.fixture
def placement(cluster):
    """Two ranks, 0 on tb2 and 1 on tb1."""
    path = cluster.share / "moved.place"
    path.write_text((CASES / "11-slurm-master-addr.place").read_text())
    return path


def test_ranks_find_the_host_of_rank_0_first(cluster, placement):
    script = cluster.share / "tell.py"
    script.write_text(TELL)
    words = [toposeat(), "run", "-p", placement, "--", *LINE, "python3", script]
    for given in ({}, {"MASTER_ADDR": "tb1"}):
        environment = {**cluster.emulated("polaris-4"), **given}
        done = cluster.on(LOGIN, words, environment=environment)
        assert done.returncode == 0, done.stderr
        assert sorted(done.stdout.splitlines()) == [
            "rank 0 tb2 tb2,tb1 tb2",
            "rank 1 tb1 tb2,tb1 tb2",
        ]
        assert "Rank 0    is on tb2" in done.stderr


@pytest.mark.skipif(bool(why_no_torch()), reason=why_no_torch() or "none")
def test_the_public_recipe_meets(cluster, placement):
    bin_ = Path(python_with_torch()).parent
    environment = cluster.emulated("polaris-4")
    environment |= {"PATH": f"{bin_}:{os.environ['PATH']}", "GLOO_SOCKET_IFNAME": "eth0"}
    script = cluster.share / "recipe.py"
    script.write_text((CASES / "11-slurm-master-addr.py").read_text())
    words = [toposeat(), "run", "-p", placement, "--", *LINE, "python", script]
    done = cluster.on(LOGIN, words, environment=environment)
    assert done.returncode == 0, done.stderr
    assert sorted(line for line in done.stdout.splitlines() if "sum" in line) == [
        "rank 0 sum 2.0",
        "rank 1 sum 2.0",
    ]
