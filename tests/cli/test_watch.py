"""`profile --watch` on a real MPI run: the view, and the job's own lines beside it."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from pathlib import Path

import pytest

from tests.support.mpi import FEW_MPI_NAMES, MpiToolchain
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
def test_a_view_on_a_terminal_and_the_jobs_lines_above_it(
    mpi: MpiToolchain, halo3d: Path, tmp_path: Path
) -> None:
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("4H", 40, 100, 0, 0))
    words = _profile("-t", "rtx-4-crossed-bridges", "-o", str(tmp_path / "a.prof"), "--")
    job = subprocess.Popen(
        [*words, *_line(mpi, halo3d, _FOR_EVER)],
        stdin=subprocess.DEVNULL,
        stdout=slave,
        stderr=slave,
        env={**mpi.env, "TERM": "xterm"},
    )
    os.close(slave)
    seen, is_stopped, give_up = b"", False, time.monotonic() + _GIVE_UP_S
    while time.monotonic() < give_up:
        if select.select([master], [], [], 0.1)[0]:
            try:
                seen += os.read(master, 1 << 16)
            except OSError:  # nobody writes to it any more
                break
        if not is_stopped and seen.count(b"link, modelled") >= 2:
            job.send_signal(signal.SIGTERM)
            is_stopped = True
    os.close(master)
    job.wait(_GIVE_UP_S)
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", seen.decode(errors="replace"))
    assert is_stopped, text
    lines = text.replace("\r", "").splitlines()
    assert lines.count(_SAID) == 4
    assert any(line.startswith("rank pair, recorded") for line in lines)
    assert any("of 4 of 4 ranks" in line for line in lines if "Watch " in line)
    assert any("rtx-4-crossed-bridges; ranks in the default order" in line for line in lines)


@pytest.mark.parametrize("mpi", ["wheel-mpich"], indirect=True)
def test_elsewhere_the_job_keeps_its_streams(
    mpi: MpiToolchain, halo3d: Path, tmp_path: Path
) -> None:
    done = subprocess.run(
        [*_profile("-o", str(tmp_path / "a.prof"), "--"), *_line(mpi, halo3d, "2")],
        capture_output=True,
        text=True,
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
