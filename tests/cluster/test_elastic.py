"""torchrun that starts again after a failure: real jobs whose order of nodes stays the plan's."""

from __future__ import annotations

import os
import re
from collections import Counter
from pathlib import Path

import pytest

from tests.support.cluster import LOGIN, Cluster, toposeat
from tests.support.pytorch import python_with_torch, why_no_torch
from toposeat.model.placement_file import load_placement

pytestmark = [
    pytest.mark.skipif(bool(why_no_torch()), reason=why_no_torch() or "none"),
    pytest.mark.skipif(
        python_with_torch().startswith("/tmp/"),
        reason="nodes do not see /tmp: TOPOSEAT_TEST_TORCH must be elsewhere",
    ),
]
_SAID = re.compile(r"attempt \d+ rank (\d+) host (\w+)")


@pytest.fixture
def environment(cluster: Cluster) -> dict[str, str]:
    return {
        **cluster.emulated("polaris-4"),
        **{"OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "eth0"},
        "PATH": f"{Path(python_with_torch()).parent}:{os.environ['PATH']}",
    }


def seats(text: str) -> Counter[tuple[int, str]]:
    """How often each rank was started on a host."""
    return Counter((int(rank), host) for rank, host in _SAID.findall(text))


def test_all_nodes_start_again_where_one_rank_fails(
    cluster: Cluster, environment: dict[str, str], shared_dir: Path
) -> None:
    """A public case: with the static rendezvous half of the ranks stayed in the old attempt."""
    case = shared_dir / "cases" / "ml" / "13-elastic-restart.py"
    if not case.exists():
        pytest.skip("no cases of ML jobs in ../shared")
    place = cluster.share / "elastic.place"
    place.write_bytes(case.with_suffix(".place").read_bytes())
    script = cluster.share / "elastic.py"
    script.write_bytes(case.read_bytes())
    torchrun = ["torchrun", "--nnodes", "2", "--nproc-per-node", "2", "--rdzv-backend=c10d"]
    torchrun += ["--rdzv-endpoint=tb1:29611", "--rdzv-id=1", "--max-restarts", "1"]
    torchrun += ["--tee", "1", script]  # lines of ranks do not mix
    line = ["srun", "-w", "tb1,tb2", "-N2", "--ntasks-per-node=1", *torchrun]
    words = [toposeat(), "run", "-p", place, "--", *line]
    done = cluster.on(LOGIN, words, environment=environment, seconds=240)  # it sleeps for 60
    assert done.returncode == 0, done.stderr
    planned = Counter((seat.rank, seat.host) for seat in load_placement(place).seats)
    assert seats(done.stdout) == planned + planned, done.stderr
    assert done.stderr.count("without tb2 the job ends") == 1
