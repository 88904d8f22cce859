"""`profile --watch` on a real MPI run: its lines, and the job's own streams beside them."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tests.support.mpi import FEW_MPI_NAMES, MpiToolchain
from tests.support.processes import ran
from toposeat.cli.main import main

pytestmark = pytest.mark.mpi

_GIVE_UP_S = 100
_FOR_EVER = "1000000000"
_SAID = "a line of the job's own, whole"


def _line(mpi: MpiToolchain, halo3d: Path, iterations: str) -> list[str]:
    job = [str(halo3d), "--grid", "1x2x2", "--bytes", "1000", "--iterations", iterations]
    launch = [str(mpi.mpirun), *mpi.run_flags, "-n", "4"]
    return [*launch, "sh", "-c", f'echo "{_SAID}"; exec "$@"', "sh", *job]


def _profile(*words: str) -> list[str]:
    program = "from toposeat.cli.main import entry; entry()"
    return [sys.executable, "-c", program, "profile", "--watch", *words]


@pytest.mark.parametrize("mpi", FEW_MPI_NAMES, indirect=True)
def test_lines_while_the_job_runs(mpi: MpiToolchain, halo3d: Path, tmp_path: Path) -> None:
    words = _profile("-t", "rtx-4-crossed-bridges", "-o", str(tmp_path / "a.prof"), "--")
    with subprocess.Popen(
        [*words, *_line(mpi, halo3d, _FOR_EVER)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env=dict(mpi.env),
    ) as job:
        give_up = threading.Timer(_GIVE_UP_S, job.terminate)
        give_up.start()
        assert job.stderr is not None
        told = (line for line in job.stderr if line.startswith("Watch "))
        whole = next((line for line in told if "of 4 of 4 ranks" in line), "")
        job.send_signal(signal.SIGTERM)
        job.stderr.read()
        give_up.cancel()
    assert "; most " in whole
    assert "rtx-4-crossed-bridges; ranks in the default order" in whole


@pytest.mark.parametrize("mpi", ["wheel-mpich"], indirect=True)
def test_elsewhere_the_job_keeps_its_streams(
    mpi: MpiToolchain, halo3d: Path, tmp_path: Path
) -> None:
    done = ran(
        [*_profile("-o", str(tmp_path / "a.prof"), "--"), *_line(mpi, halo3d, "2")],
        env=dict(mpi.env),
        timeout=_GIVE_UP_S,
        check=True,
    )
    assert done.stdout.splitlines().count(_SAID) == 4
    assert "halo3d" in done.stdout
    assert "\x1b" not in done.stderr


def test_a_machine_without_watch_or_of_several_hosts_is_refused(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["profile", "-t", "k80-16", "--", "mpirun", "-n", "2", "true"]) == 2
    assert "-t goes with --watch" in capsys.readouterr().err
    words = ["profile", "--watch", "-t", "gb200-nvl72", "--", "mpirun", "-n", "2", "true"]
    assert main(words) == 2
    assert "has 18 hosts" in capsys.readouterr().err
