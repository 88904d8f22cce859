from __future__ import annotations

import io

import pytest

from toposeat.report import TextStyle, text_style_for
from toposeat.report.parts import Table
from toposeat.report.text import lay_out


class Terminal(io.StringIO):
    def __init__(self, encoding: str = "utf-8", *, tty: bool = True) -> None:
        super().__init__()
        self._encoding = encoding
        self._tty = tty

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return self._encoding

    def isatty(self) -> bool:
        return self._tty


@pytest.mark.parametrize(
    ("stream", "environment", "expected"),
    [
        (Terminal(), {}, TextStyle(width=132, colour=True)),
        (Terminal(), {"NO_COLOR": "1"}, TextStyle(width=132, colour=False)),
        (Terminal(), {"NO_COLOR": ""}, TextStyle(width=132, colour=True)),
        (Terminal(), {"TERM": "dumb"}, TextStyle(width=132, colour=False)),
        (Terminal(tty=False), {}, TextStyle(width=100, colour=False)),
        (Terminal("latin-1"), {}, TextStyle(width=132, colour=True, unicode=False)),
    ],
)
def test_style_follows_the_stream(
    stream: Terminal, environment: dict[str, str], expected: TextStyle
) -> None:
    assert text_style_for(stream, environment, columns=132) == expected


def test_the_process_environment_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = lay_out([Table(("a",), [("x" * 50,)])], TextStyle(width=60))
    for name, value in (("FORCE_COLOR", "1"), ("COLUMNS", "20"), ("TERM", "dumb")):
        monkeypatch.setenv(name, value)
    assert lay_out([Table(("a",), [("x" * 50,)])], TextStyle(width=60)) == plain


def test_lines_have_no_trailing_blanks() -> None:
    text = lay_out([Table(("a", "b"), [("x", ""), ("longer", "y")])], TextStyle())
    assert text == "a       b\nx\nlonger  y\n"
