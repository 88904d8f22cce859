"""Jobs as sites start them: heterogeneous ones, arrays, `--segment`, a PMIx without its library.

Their variables are imitated: the Slurm of the tests' cluster is 22.05 without accounting.
"""

import shlex
import sys
from pathlib import Path

import pytest

from tests.support.processes import executable
from tests.support.tables import rows
from toposeat.errors import InputError, ToposeatError, UsageError
from toposeat.launch import (
    LauncherKind,
    allocation_of,
    check_ready,
    parse_launch_line,
    refuse_fewer,
    run_placed,
)
from toposeat.launch.launchers import slurm

LINES = Path(__file__).with_name("lines.txt")
HETEROGENEOUS = {
    "SLURM_JOB_ID": "7",
    "SLURM_HET_SIZE": "2",
    "SLURM_JOB_NODELIST": "a[1-2]",
    "SLURM_JOB_NODELIST_HET_GROUP_0": "a[1-2]",
    "SLURM_JOB_NODELIST_HET_GROUP_1": "b[1-4]",
    "SLURM_JOB_CPUS_PER_NODE_HET_GROUP_0": "8(x2)",
    "SLURM_JOB_CPUS_PER_NODE_HET_GROUP_1": "32(x4)",
    "SLURM_TASKS_PER_NODE_HET_GROUP_0": "1(x2)",
    "SLURM_TASKS_PER_NODE_HET_GROUP_1": "4(x4)",
}


NAMES = {"openmpi": "mpirun.openmpi", "mpich": "mpiexec.mpich", "none": "app"}  # that tell which


def parse(text, kind=LauncherKind.SRUN):
    return parse_launch_line(shlex.split(text), identify=lambda _: kind)


def start(text, placed, environment, kind="srun"):
    """What `run` would start of a line, with a launcher that does nothing."""
    folder = placed[1].parent
    tool = executable(folder / NAMES.get(kind, kind), "#!/bin/sh\n")
    argv = [str(tool), *(word.removeprefix("./") for word in shlex.split(text)[1:])]
    given = {"PATH": "/usr/bin:/bin", "SLURM_MPI_TYPE": "pmix_v5", **environment}
    return run_placed(argv, *placed, dry_run=True, environment=given).launched


@pytest.mark.parametrize(("kind", "text", "hosts", "places"), rows(LINES, "heterogeneous"))
def test_components_of_a_heterogeneous_job(kind, text, hosts, places):
    found = allocation_of(parse(text, LauncherKind(kind)), HETEROGENEOUS)
    assert " ".join(found.hosts) == hosts
    assert str(found.slots[found.hosts[0]]) == places
    assert found.in_job


@pytest.mark.parametrize(
    ("group", "cause"), [("0,1", "on several components"), ("2", "the job has 2 components")]
)
def test_components_that_no_plan_can_have(group, cause):
    with pytest.raises(InputError, match=cause) as caught:
        allocation_of(parse(f"srun --het-group={group} -n 2 ./app"), HETEROGENEOUS)
    assert caught.value.hint


def test_programs_with_colons_are_refused():
    with pytest.raises(UsageError, match="nodes of its own") as caught:
        parse("srun -n 2 ./a : -n 2 ./b")
    assert "--multi-prog" in caught.value.hint


def test_a_task_of_an_array_is_a_job(place):
    """Its own nodes are those of the job; no word of the line names the array."""
    of_array = {"SLURM_ARRAY_JOB_ID": "6", "SLURM_ARRAY_TASK_ID": "1", "SLURM_JOB_ID": "7"}
    line, placed = "srun -n 4 ./app", place(4)
    job = {"SLURM_JOB_NODELIST": "n1", "SLURM_JOB_CPUS_PER_NODE": "8"}
    assert start(line, placed, job | of_array) == start(line, placed, job)


@pytest.mark.parametrize("option", ["--segment=2", "-m block:cyclic", "-m '*:cyclic'"])
def test_words_for_the_scheduler_and_for_sockets_stay(option, place):
    """`--segment` picks nodes of one block before the job; sockets are bound by toposeat-exec."""
    assert set(shlex.split(option)) <= set(start(f"srun {option} -n 4 ./app", place(4), {}))


@pytest.fixture
def plugins(tmp_path, monkeypatch):
    """The folder of plugins of a Slurm of the distribution, with PMIx."""
    folder = tmp_path / "usr" / "lib" / "slurm-wlm"
    folder.mkdir(parents=True)
    (folder / "mpi_pmix.so").write_bytes(b"\0_libpmix\0libpmix.so\0pmixp_libpmix\0")
    monkeypatch.setattr(slurm, "_DISTRIBUTION", folder.parent)
    monkeypatch.setattr(slurm, "configured", {"PluginDir": str(folder), "MpiDefault": ""}.get)
    return folder


def test_pmix_without_its_library(plugins):
    line = parse("srun --mpi=pmix -n 4 ./app")
    with pytest.raises(UsageError, match=r"needs libpmix\.so, which is not installed") as caught:
        check_ready(line, {})
    assert "apt-get install libpmix-dev " in caught.value.hint
    library = plugins.parent / "pmix2" / "lib" / "libpmix.so.2"
    library.parent.mkdir(parents=True)
    library.touch()
    with pytest.raises(UsageError, match=r"needs libpmix\.so, "):
        check_ready(line, {})
    (plugins / "mpi_pmix.so").write_bytes(b"libpmix.so.2\0")
    check_ready(line, {})
    library.unlink()
    with pytest.raises(UsageError, match=r"needs libpmix\.so\.2, ") as caught:
        check_ready(line, {})
    assert "apt-get install libpmix2 " in caught.value.hint
    with pytest.raises(UsageError, match="needs libpmix"):
        check_ready(parse("srun -n 4 ./app"), {"SLURM_MPI_TYPE": "pmix_v4"})
    check_ready(parse("srun --mpi=pmi2 -n 4 ./app"), {})
    (plugins / "mpi_pmix.so").unlink()
    with pytest.raises(UsageError, match="no PMIx here"):
        check_ready(line, {})


def test_a_sites_own_slurm_is_believed(plugins, monkeypatch, tmp_path):
    """Its plugin has the path of a library that only it knows."""
    monkeypatch.setattr(slurm, "_DISTRIBUTION", tmp_path / "elsewhere")
    assert plugins.is_dir()
    check_ready(parse(f"srun --mpi=pmix -n 4 {sys.executable}"), {})


JOB = {"SLURM_JOB_NODELIST": "a[1-4]", "SLURM_NTASKS": "16"}
JOBS = {"no job": {}, "a job": JOB, "heterogeneous": HETEROGENEOUS | JOB}


@pytest.mark.parametrize(("kind", "text", "job", "starts"), rows(LINES, "never shrinks"))
def test_a_job_never_shrinks(*, place, kind, text, job, starts):
    line, environment = parse(text, LauncherKind(kind)), JOBS[job]
    if starts in ("unknown", "1"):
        refuse_fewer(line, 1, environment)
        assert start(text, place(1), environment, kind)
        return
    refuse_fewer(line, int(starts), environment)
    cause = f"the line starts {starts} ranks, and each was a world of its own: the program's MPI"
    with pytest.raises(ToposeatError, match=f"{cause} does not know"):
        refuse_fewer(line, 1, environment)
    with pytest.raises(UsageError, match=f"the placement is for 1 rank, .* {starts} ranks"):
        start(text, place(1), environment, kind)


def test_fewer_ranks_than_asked_name_the_pmi():
    with pytest.raises(ToposeatError) as caught:
        refuse_fewer(parse("srun ./app"), 1, JOB)
    assert "srun --mpi=pmix ... (Open MPI)" in caught.value.hint
    with pytest.raises(ToposeatError, match="the largest world of the program had 4"):
        refuse_fewer(parse("srun ./app"), 4, JOB)
