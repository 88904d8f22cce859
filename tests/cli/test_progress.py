"""The progress bar is for people at a terminal, and for nobody else."""

import io
import sys
import threading
import time

import pytest

from tests.support.processes import LONGEST_S
from toposeat.cli.progress import progress_bar, search_bar


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_nothing_without_a_terminal(monkeypatch):
    monkeypatch.setattr(sys, "stderr", stream := io.StringIO())
    with progress_bar("merging") as progress:
        for done in range(5):
            progress(done, 5)
    assert stream.getvalue() == ""


def test_a_terminal_sees_how_far_it_is(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "stderr", stream := Terminal())
    with progress_bar("merging") as progress:
        assert stream.getvalue() == ""  # the terminal is still the application's
        progress(3, 7)
    assert "merging" in stream.getvalue()
    assert "3/7" in stream.getvalue()


def test_a_bar_that_is_full_gives_the_terminal_back(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "stderr", stream := Terminal())
    with progress_bar("merging") as progress:
        progress(3, 7)
        progress(7, 7)
        full = stream.getvalue()
        stream.write("the application again")
    assert stream.getvalue() == full + "the application again"


def test_a_long_search_says_how_long_it_may_take(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "stderr", stream := Terminal())
    before = set(threading.enumerate())
    with search_bar("placing 8 ranks", 600, after_s=0):
        give_up = time.monotonic() + LONGEST_S
        while "0/600" not in stream.getvalue() and time.monotonic() < give_up:
            time.sleep(0.01)
    assert "placing 8 ranks, seconds" in stream.getvalue()
    assert "0/600" in stream.getvalue()
    # Threads that earlier tests left behind may end meanwhile; none may be new. One that draws ends
    # with its next look.
    give_up = time.monotonic() + LONGEST_S
    while not set(threading.enumerate()) <= before and time.monotonic() < give_up:
        time.sleep(0.01)
    assert set(threading.enumerate()) <= before


@pytest.mark.parametrize(("most_s", "stream"), [(1, Terminal()), (600, Terminal()), (600, None)])
def test_a_short_search_or_no_terminal_draws_nothing(monkeypatch, most_s, stream):
    seen = stream or io.StringIO()
    monkeypatch.setattr(sys, "stderr", seen)
    with search_bar("placing", most_s):
        pass
    assert seen.getvalue() == ""
