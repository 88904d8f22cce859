"""torchrun that starts again after a failure: real jobs whose order of nodes stays the plan's."""

import ast
import os
import re
import subprocess
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.cluster.test_realise import DEVICES, NODES
from tests.cluster.test_torchrun import ORDER, PER_NODE, blocks
from tests.support.cluster import LOGIN, Cluster, toposeat
from tests.support.pytorch import python_with_torch, why_no_torch
from toposeat.model.placement_file import load_placement, save_placement

pytestmark = [
    pytest.mark.skipif(bool(why_no_torch()), reason=why_no_torch() or "none"),
    pytest.mark.skipif(
        python_with_torch().startswith("/tmp/"),
        reason="nodes do not see /tmp: TOPOSEAT_TEST_TORCH must be elsewhere",
    ),
]
_PATIENCE_S = 400.0  # six ranks that import torch on two busy cores
_SAID = re.compile(r"attempt \d+ rank (\d+) host (\w+)")


@pytest.fixture
def environment(cluster):
    return {
        **cluster.emulated("polaris-4"),
        **{"OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "eth0"},
        "PATH": f"{Path(python_with_torch()).parent}:{os.environ['PATH']}",
    }


def seats(text):
    """How often each rank was started on a host."""
    return Counter((int(rank), host) for rank, host in _SAID.findall(text))


def test_all_nodes_start_again_where_one_rank_fails(cluster, environment, shared_dir):
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
    done = cluster.on(
        LOGIN, words, environment=environment, seconds=_PATIENCE_S
    )  # it sleeps for 60
    assert done.returncode == 0, done.stderr
    planned = Counter((seat.rank, seat.host) for seat in load_placement(place).seats)
    assert seats(done.stdout) == planned + planned, done.stderr
    assert done.stderr.count("without tb2 the job ends") == 1


SCRIPT = """
import os, signal, socket, sys, time
import torch
import torch.distributed as dist
folder, host, local = sys.argv[1], socket.gethostname(), int(os.environ["LOCAL_RANK"])
device = os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",")[local]
dist.init_process_group("gloo")
world = [None] * dist.get_world_size()
dist.all_gather_object(world, (host, local, device))
if dist.get_rank() == 0:
    with open(os.path.join(folder, "worlds"), "a") as file:
        file.write(repr(world) + "\\n")
names = (f"leave-{host}", f"fail-{host}", "end")
leaves, fails, end = (os.path.join(folder, name) for name in names)
ended = torch.zeros(1)
while not ended:
    time.sleep(0.2)
    if local == 0 and os.path.exists(leaves):
        os.remove(leaves)
        os.kill(os.getppid(), signal.SIGTERM)  # the agent ends, and its ranks
        time.sleep(60)
    if local == 0 and os.path.exists(fails):
        os.remove(fails)
        sys.exit(3)
    ended += os.path.exists(end)
    dist.all_reduce(ended)  # fails where a node has left
"""


@dataclass
class Job:
    """Ranks that tell their worlds until they are told to end."""

    cluster: Cluster
    environment: Mapping[str, str]
    folder: Path
    per_node: int
    options: Sequence[str]
    started: dict[str, subprocess.Popen[str]] = field(default_factory=dict)
    seen: int = 0

    def start(self, node, *before):
        """Start a `run` on a node."""
        torchrun = ["torchrun", f"--nproc-per-node={self.per_node}", *self.options]
        line = [*before, *torchrun, self.folder / "train.py", self.folder]
        words = [toposeat(), "run", "-p", self.folder / "job.place", "--", *line]
        self.started[node] = self.cluster.start(node, words, environment=self.environment)

    def do(self, what, node):
        """Let a rank of a node `fail`, or the node `leave`."""
        (self.folder / f"{what}-{node}").touch()

    def becomes(self, hosts):
        """Wait for a further world of these hosts, and look at the order of all until then."""
        path, end = self.folder / "worlds", time.monotonic() + _PATIENCE_S
        while time.monotonic() < end and self.started:
            worlds = path.read_text().splitlines() if path.exists() else []
            for text in worlds[self.seen :]:
                self.seen += 1
                world = ast.literal_eval(text)
                found = list(dict.fromkeys(host for host, *_ in world))
                if set(found) == set(hosts):
                    assert found == list(hosts)
                    assert len(world) == len(hosts) * self.per_node
                    return world
                assert found == [host for host in hosts if host in found]
            time.sleep(0.2)
        raise AssertionError(f"no world of {hosts}: {self.end()}")

    def end(self):
        """What was printed, once the job has ended."""
        (self.folder / "end").touch()
        said = ""
        for node, each in self.started.items():
            out, error = each.communicate(timeout=_PATIENCE_S)
            said += f"--- {node}: {each.returncode}\n{out}{error}"
        self.started = {}
        return said


@pytest.fixture
def folder(cluster, tmp_path):
    """With the program, where every node sees it."""
    made = cluster.share / tmp_path.name
    made.mkdir()
    (made / "train.py").write_text(SCRIPT)
    return made


def planned(world):
    """Whether the devices of hosts of the plan are those of the plan."""
    return all(
        device == str(DEVICES[NODES.index(host)][local])
        for host, local, device in world
        if host in ORDER
    )


def test_restarts_on_three_nodes_keep_the_planned_order(cluster, folder, environment):
    save_placement(blocks(), folder / "job.place")
    # torch's ranks would read what the last ones left (pytorch#135712)
    environment["TORCH_DISABLE_SHARE_RDZV_TCP_STORE"] = "1"
    options = ["--nnodes=3", "--rdzv-backend=c10d", "--rdzv-endpoint=tb1:29613"]
    job = Job(cluster, environment, folder, PER_NODE, [*options, "--max-restarts=3"])
    job.start(LOGIN, "srun", "-N3")
    assert planned(job.becomes(ORDER))
    job.do("fail", "tb2")
    assert planned(job.becomes(ORDER))
    job.do("fail", "tb3")
    assert planned(job.becomes(ORDER))
    said = job.end()
    assert f"--- {LOGIN}: 0\n" in said
    assert "without tb3 the job ends" in said
