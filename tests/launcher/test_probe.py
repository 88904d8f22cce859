"""The rank probe: what a rank had in the end, from inside, with a stand-in CUDA driver."""

import os
from pathlib import Path

import pytest

from tests.launcher.support import placement_text, seat_line
from tests.support.interposed import PROGRAMS, compile_c


class Rank:
    """Runs a program as rank 0 with reports, and reads its probes."""

    def __init__(self, launcher, programs, probe):
        self.launcher, self.programs, self.probe = launcher, programs, probe
        self.folder = launcher.folder / "reports"
        self.folder.mkdir()
        self.code = 0
        self.stdout = ""

    def run(self, *line, **env):
        place = self.launcher.place(placement_text([seat_line(0, 0)]))
        done = self.launcher.run(
            *("-m", place, "--report", self.folder, "--probe", self.probe, "--", *line),
            env={"LD_LIBRARY_PATH": str(self.programs), **env},
            check=False,
        )
        self.code, self.stdout = done.code, done.stdout
        assert done.stderr == ""
        found = []
        for path in sorted(self.folder.glob("*.probe")):
            lines = path.read_text().splitlines()
            assert lines[0] == "# toposeat/probe/1"
            found.append(
                {key: value for key, _, value in (row.partition("\t") for row in lines[1:])}
            )
        return found

    def application(self, *words, **env):
        return self.run(self.programs / "application", *words, **env)


@pytest.fixture
def rank(launcher, programs, probe_library):
    return Rank(launcher, programs, probe_library)


def test_a_program_without_a_driver_says_so(rank):
    (found,) = rank.application()
    assert (found["rank"], found["when"], found["cuda"]) == ("0", "exit", "not loaded")
    assert (
        found["cpus"]
        == Path("/proc/self/status").read_text().split("Cpus_allowed_list:\t")[1].split("\n")[0]
    )
    assert rank.code == 3


@pytest.mark.parametrize(
    ("env", "devices"),
    [
        ({"FAKE_ACTIVE": "2"}, "00000000:12:00.0"),
        ({"FAKE_ACTIVE": "03"}, "00000000:10:00.0,00000000:13:00.0"),
        ({"FAKE_CURRENT": "1"}, "00000000:11:00.0"),
        ({}, ""),
    ],
)
def test_devices_with_a_context_are_named(rank, env, devices):
    (found,) = rank.application("load", "chdir", **env)
    assert (found["cuda"], found["cuda_devices"]) == ("asked", devices)


@pytest.mark.parametrize(
    ("error", "word"),
    [(3, "not initialised"), (4, "already shut down"), (999, "error 999")],
)
def test_a_driver_that_refuses_proves_nothing_and_harms_nothing(rank, error, word):
    (found,) = rank.application("load", FAKE_ACTIVE="0", FAKE_RESULT=str(error))
    assert found["cuda"] == word
    assert "cuda_devices" not in found
    assert rank.code == 3


@pytest.mark.parametrize("words", [[], ["exit"]])
def test_the_driver_is_asked_before_the_runtime_shuts_it_down(rank, words):
    # as a real CUDA runtime does it, by a handler at exit: without this PyTorch was never verified
    (found,) = rank.application("load", "runtime", *words, FAKE_ACTIVE="2")
    assert (found["cuda"], found["cuda_devices"]) == ("asked", "00000000:12:00.0")
    assert rank.code == 3


def test_a_python_program_is_asked_before_the_runtime_ends(rank):
    code = "import ctypes, sys; ctypes.CDLL('libcuda.so.1').fake_runtime(); sys.exit(3)"
    (found,) = rank.run("python3", "-c", code, FAKE_ACTIVE="1")
    assert (found["cuda"], found["cuda_devices"], rank.code) == ("asked", "00000000:11:00.0", 3)


def test_a_fork_of_a_process_with_a_driver_is_silent(rank):
    assert len(rank.application("load", "fork", FAKE_ACTIVE="1")) == 1


@pytest.mark.parametrize("end", ["os._exit(0)", "sys.exit(0)"])
def test_another_fork_is_asked(rank, end):
    code = f"""
import ctypes, os, sys
if os.fork():
    os.wait()
else:
    ctypes.CDLL('libcuda.so.1')
    os.environ['CUDA_VISIBLE_DEVICES'] = '2'
    {end}
"""
    found = rank.run("python3", "-c", code, FAKE_ACTIVE="1")
    by_driver = {each["cuda"]: each for each in found}
    assert set(by_driver) == {"not loaded", "asked"}
    assert by_driver["asked"]["cuda_devices"] == "00000000:11:00.0"
    assert by_driver["asked"]["list"] == "CUDA_VISIBLE_DEVICES=2"
    assert rank.code == 0


@pytest.mark.parametrize("end", ["exit 0", "kill -KILL $$", "kill -PIPE $$", "exit 3"])
@pytest.mark.parametrize("shell", ["sh", "bash"])
def test_a_child_that_was_killed_is_told(rank, shell, end):
    (found,) = rank.run(shell, "-c", f"exec 2>&-; {shell} -c '{end}'; exit 0")
    assert ("child" in found) == ("KILL" in end)
    assert rank.code == 0


_EXECS = ("execl", "execlp", "execle", "execv", "execvp", "execve", "execvpe", "fexecve")


@pytest.mark.parametrize("cleared", [False, True], ids=["heard", "cleared"])
@pytest.mark.parametrize(
    ("way", "expected"),
    [
        *((way, "env") for way in (*_EXECS, "vfork", "posix_spawn", "posix_spawnp")),
        *(("system", "sh"), ("popen", "sh")),
    ],
)
def test_a_program_that_is_started_without_the_probe_is_told(rank, way, expected, cleared):
    found = rank.run(rank.programs / "starter", way, *(["cleared"] if cleared else []))
    assert (rank.stdout, rank.code) == ("started\n", 0)
    told = [each["program"] for each in found if each.get("child") == "unheard"]
    assert {Path(name).name for name in told} == ({expected} if cleared else set())


def test_an_end_without_handlers_is_not_waited_for_beyond_a_moment(rank):
    """A signal's handler ends the process while the report's own lock is held: no deadlock."""
    assert rank.application("locked") == []
    assert rank.code == 0


def test_an_end_without_handlers_that_calls_itself_good_is_seen(rank):
    (found,) = rank.application("load", "_exit0", FAKE_ACTIVE="1")
    assert (found["cuda_devices"], rank.code) == ("00000000:11:00.0", 0)


@pytest.mark.parametrize(("word", "code"), [("crash", -6), ("_exit", 4)])
def test_a_rank_that_ends_abruptly_leaves_no_report(rank, word, code):
    assert rank.application(word) == []
    assert rank.code == code


def test_processes_behind_a_script_count_if_they_use_a_device(rank):
    line = f"{rank.programs}/application; {rank.programs}/application load; exit 5"
    found = rank.run("sh", "-c", line, FAKE_ACTIVE="3")
    assert rank.code == 5
    # The shell is the rank and does not end well; only its second child used a GPU.
    assert [each["cuda_devices"] for each in found] == ["00000000:13:00.0"]


@pytest.mark.parametrize("program", [["direct"], ["host", "plugin.so"]])
def test_mpi_finalize_is_seen_and_done_also_for_a_private_library(rank, program):
    (found,) = rank.run(*(rank.programs / name for name in program))
    assert (found["when"], rank.stdout, rank.code) == ("MPI_Finalize", "finalized\n", 0)


@pytest.mark.mpi
@pytest.mark.parametrize("mpi", ["debian-openmpi", "debian-mpich"], indirect=True)
@pytest.mark.parametrize("binding", ["mpif", "mpi"])
def test_mpi_finalize_of_fortran_is_seen(rank, mpi, binding, build_dir):
    program = compile_c(mpi, PROGRAMS / f"ring_{binding}.f90", build_dir)
    (found,) = rank.run(program, **mpi.env)
    assert (found["when"], rank.code) == ("MPI_Finalize", 0)


def test_an_end_bound_anew_is_seen(rank):
    cpus = sorted(os.sched_getaffinity(0))
    code = f"import os; os.sched_setaffinity(0, [{cpus[-1]}])"
    (found,) = rank.run("python3", "-c", code)
    assert found["cpus"] == str(cpus[-1])


def test_a_folder_that_vanished_stops_nothing(rank):
    assert rank.run("sh", "-c", f"rm -r {rank.folder}; exit 6") == []
    assert rank.code == 6
