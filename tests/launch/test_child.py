"""Signals around a child: sent on to it, and handlers put back whatever happened."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.support.processes import LONGEST_S, lives
from toposeat.errors import ApplicationError, MissingProgramError
from toposeat.launch import StopSignals, answer_of, run_child

HANDLERS = Path(__file__).parent / "programs" / "handlers.c"
NUMBERS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)


def handlers():
    return [signal.getsignal(number) for number in NUMBERS]


@pytest.fixture(autouse=True)
def own_handlers():
    """SIGHUP ignored, as under nohup; the others of our own making."""
    before = {number: signal.getsignal(number) for number in NUMBERS}
    for number in NUMBERS:
        signal.signal(number, lambda *_: None)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def test_handlers_are_put_back():
    before = handlers()
    assert run_child([sys.executable, "-c", "raise SystemExit(3)"], os.environ) == 3
    assert handlers() == before
    with pytest.raises(MissingProgramError):
        run_child(["/nonexistent/program"], os.environ)
    assert handlers() == before
    with StopSignals(), StopSignals():
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
        assert signal.getsignal(signal.SIGTERM) not in before
    assert handlers() == before


def test_a_handler_of_a_preloaded_library(tmp_path):
    """Python does not know it; what cannot be put back is left to the system."""
    library = tmp_path / "handlers.so"
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", library, HANDLERS], check=True)
    program = (
        "import os, signal, sys; from toposeat.launch import run_child;"
        " assert signal.getsignal(signal.SIGTERM) is None;"
        " assert run_child([sys.executable, '-c', 'raise SystemExit(3)'], os.environ) == 3;"
        " assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL"
    )
    environment = {**os.environ, "LD_PRELOAD": str(library)}
    subprocess.run([sys.executable, "-c", program], env=environment, check=True)


def test_a_killed_tool_ends_its_child(tmp_path):
    """Even by SIGKILL; what it started gets SIGTERM, as a launcher ends its job upon it."""
    say = "import os, time; print(os.getpid(), flush=True); time.sleep(3600)"
    program = (
        "import os, sys; from toposeat.launch import run_child;"
        " run_child([sys.executable, '-c', sys.argv[1]], os.environ)"
    )
    with subprocess.Popen([sys.executable, "-c", program, say], stdout=subprocess.PIPE) as tool:
        child = int(tool.stdout.readline())
        tool.kill()
    deadline = time.monotonic() + LONGEST_S
    while lives(child) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not lives(child)


def test_a_signal_reaches_the_child_and_stops_what_follows():
    before = handlers()
    kill = f"import os, time; os.kill({os.getpid()}, {int(signal.SIGTERM)}); time.sleep(3600)"
    with StopSignals() as stop:
        assert run_child([sys.executable, "-c", kill], os.environ) == 128 + signal.SIGTERM
        with pytest.raises(ApplicationError, match="SIGTERM") as raised:
            stop.check()
        assert raised.value.exit_code == 128 + signal.SIGTERM
    assert handlers() == before


@pytest.mark.parametrize("during_start", [False, True])
def test_who_stops_waiting_for_an_answer_leaves_no_program_behind(monkeypatch, during_start):
    """Nor who stops before it is known which process was started."""
    started, interrupt = [], "" if during_start else "kill -INT $PPID;"

    class Starting(subprocess.Popen):
        def __init__(self, *words, **options):
            super().__init__(*words, **options)
            started.append(self.pid)
            if during_start:
                signal.raise_signal(signal.SIGINT)

    def stop(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(subprocess, "Popen", Starting)
    signal.signal(signal.SIGINT, stop)
    with pytest.raises(KeyboardInterrupt):
        answer_of(["sh", "-c", f"{interrupt} exec sleep 3600"], 3600)
    (pid,) = started
    deadline = time.monotonic() + LONGEST_S
    while lives(pid) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not lives(pid)
