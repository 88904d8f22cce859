"""The page of the traffic patterns: what each sends, its options, and its matrix of bytes."""

from __future__ import annotations

import io
from contextlib import redirect_stdout

from toposeat.cli.main import main
from toposeat.profile import PATTERNS
from toposeat.profile.pattern.patterns import DEFAULT_BYTES

_INTRODUCTION = f"""# Traffic patterns

A pattern is the traffic of a job that nobody has recorded yet, written in one line. It stands
wherever a verb takes traffic: `toposeat map stencil2d:4x4 -t k80-16`. What stands in brackets may
be left out.

In grids the first dimension varies slowest. All bytes are between GPU buffers. `bytes` is the size
of a message ({DEFAULT_BYTES // 2**20} MiB): 65536, 64KiB or 1MB; K, M and G alone are binary.
`messages` is how often each is sent (once). `toposeat compare` [runs](../how-to/compare.md) some of
these, and a few collectives, as a program."""


def patterns_page() -> str:
    """The whole page."""
    parts = [_INTRODUCTION]
    for name, kind in PATTERNS.items():
        example = kind.form.partition("[")[0].replace(":N", ":16")
        command = f"report --traffic {example}"
        parts += [
            f"\n## {name}\n\n`{kind.form}`\n\n{kind.meaning}\n",
            f"```console\n$ toposeat {command}\n...\n{_matrix_of(command)}\n...",
            f"$ toposeat {command} -o {name}.svg\nWrote {name}.svg\n```",
        ]
    return "\n".join(parts) + "\n"


def _matrix_of(command: str) -> str:
    """The paragraph of a command's output that shows who sends to whom."""
    output = io.BytesIO()
    with redirect_stdout(io.TextIOWrapper(output, encoding="utf-8")) as stream:
        main(command.split())
        stream.flush()
    paragraphs = output.getvalue().decode().split("\n\n")
    return next(each for each in paragraphs if "row = sender" in each)
