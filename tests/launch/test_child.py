"""Signals around a child: sent on to it, and handlers put back whatever happened."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator

import pytest

from toposeat.errors import ApplicationError, MissingProgramError
from toposeat.launch.child import StopSignals, run_child

NUMBERS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)


def handlers() -> list[object]:
    return [signal.getsignal(number) for number in NUMBERS]


@pytest.fixture(autouse=True)
def own_handlers() -> Iterator[None]:
    """SIGHUP ignored, as under nohup; the others of our own making."""
    before = {number: signal.getsignal(number) for number in NUMBERS}
    for number in NUMBERS:
        signal.signal(number, lambda *_: None)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def test_handlers_are_put_back() -> None:
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


def test_a_signal_reaches_the_child_and_stops_what_follows() -> None:
    before = handlers()
    kill = f"import os, time; os.kill({os.getpid()}, {int(signal.SIGTERM)}); time.sleep(60)"
    with StopSignals() as stop:
        assert run_child([sys.executable, "-c", kill], os.environ) == 128 + signal.SIGTERM
        with pytest.raises(ApplicationError, match="SIGTERM") as raised:
            stop.check()
        assert raised.value.exit_code == 128 + signal.SIGTERM
    assert handlers() == before
