"""CPUs of this machine that a job may not use: cgroups of both versions, and Slurm's threads."""

from dataclasses import replace

import pytest

from toposeat import topology
from toposeat.mapping import seat_ranks
from toposeat.model.cpu_list import RESERVED
from toposeat.topology.live.job_cpus import with_cpus_of_job


@pytest.fixture
def node():
    """Two sockets, of which the nodes of the GPUs have CPUs 16-31, 48-63, 80-95 and 112-127."""
    return topology.read_topology("dgx-a100")


def tree(root, mine, cpus):
    """A root folder where this process is in these cgroups."""
    for name, text in {"proc/self/cgroup": mine, **cpus}.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{text}\n")
    return root


V2 = "sys/fs/cgroup/{}cpuset.cpus.effective"
V1 = "sys/fs/cgroup/cpuset/{}cpuset.effective_cpus"


@pytest.mark.parametrize(
    ("mine", "file"),
    [
        ("0::/slurm/job_7/step_0", V2),
        ("9:memory:/slurm/job_7\n4:cpu,cpuset:/slurm/job_7/step_0\n0::/", V1),
        ("0::/", V2),
    ],
    ids=["v2", "v1", "container"],
)
def test_the_job_has_what_its_cgroup_has(tmp_path, node, mine, file):
    """The step is of one core, and may start tasks on all of its job's."""
    cgroups = {"": "0-255", "slurm/": "0-255", "slurm/job_7/": "0-63,128-191"}
    if mine == "0::/":
        cgroups = {"": "0-63,128-191"}
    files = {file.format(name): cpus for name, cpus in cgroups.items()}
    files[file.format("slurm/job_7/step_0/")] = "0"
    part = with_cpus_of_job(node, {}, tree(tmp_path, mine, files))
    assert part.metadata[RESERVED] == "80-95,112-127,208-223,240-255"
    assert part.report[-1] == (
        "the job's cgroup leaves out CPUs 80-95,112-127,208-223,240-255: no rank is bound to them"
    )
    bound = [seat.cpus for seat in seat_ranks(part, 8, range(8)).seats]
    assert bound[:2] == ["48-55,176-183", "56-63,184-191"]
    assert bound[4:] == [None] * 4


def test_threads_that_a_job_did_not_ask_for(tmp_path, node):
    told = tuple(
        replace(part, cores=("0,128", "1,129")) if part.cpus else part for part in node.components
    )
    node = replace(node, components=told)
    assert with_cpus_of_job(node, {"SLURM_THREADS_PER_CORE": "2"}, tmp_path) is node
    part = with_cpus_of_job(node, {"SLURM_THREADS_PER_CORE": "1"}, tmp_path)
    assert part.metadata[RESERVED] == "128-129"
    assert topology.said_of_lists(part) == (
        "SLURM_THREADS_PER_CORE=1 leaves out CPUs 128-129: no rank is bound to them",
    )


@pytest.mark.parametrize("mine", ["", "0::/", "no cgroup at all", "0::/../../x"])
def test_what_is_not_told_hides_nothing(tmp_path, node, mine):
    assert with_cpus_of_job(node, {}, tree(tmp_path, mine, {})) is node
    whole = tree(tmp_path, mine, {V2.format(""): "0-255"})
    assert with_cpus_of_job(node, {}, whole) is node
