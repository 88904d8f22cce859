"""Records of PyTorch jobs on two nodes, of which the second does not see the folder of the run.

Both are this machine: to the second one the path of that folder is another one.
"""

import os
import re
import secrets
import socket
import subprocess
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.node_folders import node_folders
from tests.support.pytorch import PROGRAM, python_with_torch, why_no_torch
from tests.support.torch_bytes import RANKS, VALUE, differences, given
from toposeat.installed import native_path
from toposeat.launch.home import Home
from toposeat.launch.home_job import Expected
from toposeat.launch.python_hook import hooked_path
from toposeat.profile import read_folders
from toposeat.profile.recording.gathering import BUNDLE_SUFFIX, unpack_bundles

pytestmark = pytest.mark.skipif(bool(why_no_torch()), reason=why_no_torch())
STEPS = 2
BUNDLES = Expected(
    name=re.compile(r"node-.*"), max_bytes=1 << 30, max_all_bytes=1 << 32, by_sender=True
)
EXEC = str(native_path("bin/toposeat-exec"))


@dataclass(frozen=True)
class Job:
    """A job of which the first half of the ranks is on the first node."""

    folder: Path
    home: str
    key: dict[str, str]
    run: str
    port: int

    def start(self, node, task, words, **more):
        """What `profile -- srun` starts as a task of a node."""
        folder = self.folder if node == 0 else Path("/not/seen/here")
        told = {
            "TOPOSEAT_PROFILE_DIR": folder, "TOPOSEAT_PROFILE_RUN": self.run,
            "TOPOSEAT_PROFILE_HOME": self.home, "TOPOSEAT_PROFILE_EXEC": EXEC,
            **hooked_path({}),
        }  # fmt: skip
        given_words = [word for name, value in told.items() for word in ("-E", f"{name}={value}")]
        line = [EXEC, "--records", f"{self.run}:{folder}", *given_words, "--", *words]
        own = {"SLURM_JOB_ID": "1", "SLURM_PROCID": task, "SLURM_LOCALID": 0, "SLURM_STEP_ID": 0}
        numbers = {name: str(value) for name, value in {**own, **more}.items()}
        env = {**os.environ, "OMP_NUM_THREADS": "1", **numbers, **self.key}
        return subprocess.Popen(line, env=env, stderr=subprocess.PIPE, text=True)

    def left(self):
        """What lies in the second node's own folder."""
        folders = node_folders(self.run, self.key)
        return [path.name for folder in folders for path in folder.iterdir()]


@contextmanager
def job(folder):
    run = secrets.token_hex(8)
    (folder / f".run-{run}").touch()
    with socket.socket() as free, Home(folder, expected=BUNDLES) as home:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
        free.close()
        yield Job(folder, home.words, home.environment, run, port)


def arrived(folder):
    assert list(folder.glob(f"*{BUNDLE_SUFFIX}"))
    unpack_bundles(folder, {})
    return read_folders(folder)


def test_the_last_rank_of_a_node_brings_its_records_home(tmp_path):
    with job(tmp_path) as one:
        words = [python_with_torch(), str(PROGRAM), "grouped", str(STEPS)]
        ranks = [
            one.start(
                rank // 2, rank, words,
                RANK=rank, WORLD_SIZE=RANKS, MASTER_ADDR="127.0.0.1", MASTER_PORT=one.port,
            )
            for rank in range(RANKS)
        ]  # fmt: skip
        said = [rank.communicate()[1] for rank in ranks]
        assert [rank.returncode for rank in ranks] == [0] * RANKS
        assert not any("toposeat" in each for each in said)
        assert one.left() == []
    assert len(list(tmp_path.glob("*.tpstorch"))) == RANKS // 2
    traffic = arrived(tmp_path)
    assert not differences("grouped", STEPS, traffic)
    assert all(info.finalized for info in traffic.rank_info)


def test_what_a_killed_rank_left_comes_home_with_torchrun(tmp_path):
    with job(tmp_path) as one:
        words = [
            *(python_with_torch(), "-m", "torch.distributed.run", "--nnodes", "2"),
            *("--nproc-per-node", "2", "--master-addr", "127.0.0.1", "--master-port"),
            *(str(one.port), "--node-rank"),
        ]
        program = [str(PROGRAM), "killed", str(STEPS)]
        # Rank 1 is killed: it is on the node whose task has node rank 0.
        tasks = [one.start(1 - node, node, [*words, str(node), *program]) for node in range(2)]
        for task in tasks:
            task.communicate()
            assert task.returncode == 1
        # Its record was sent, and stays: it may live where the others cannot see it.
        assert [name.split("-")[1] for name in one.left()] == ["1"]
        collect = [EXEC, "--collect", f"{one.run}:{one.home}"]
        assert subprocess.run(collect, env={**os.environ, **one.key}, check=False).returncode == 0
        assert one.left() == []
    traffic = arrived(tmp_path)
    assert [info.rank for info in traffic.rank_info] == list(range(RANKS))
    assert given(traffic)["allreduce", tuple(range(RANKS)), 1] == STEPS * 1000 * VALUE
