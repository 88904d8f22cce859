"""The progress bar is for people at a terminal, and for nobody else."""

from __future__ import annotations

import io
import sys

import pytest

from toposeat.cli.progress import progress_bar


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_nothing_without_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", stream := io.StringIO())
    with progress_bar("merging") as progress:
        for done in range(5):
            progress(done, 5)
    assert stream.getvalue() == ""


def test_a_terminal_sees_how_far_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "stderr", stream := Terminal())
    with progress_bar("merging") as progress:
        assert stream.getvalue() == ""  # the terminal is still the application's
        progress(3, 7)
    assert "merging" in stream.getvalue()
    assert "3/7" in stream.getvalue()
