"""`$ toposeat ...` blocks of the documentation: found, run, compared.

A block is fenced as ```console. A line `$ COMMAND` runs in a shell in the page's own scratch
folder; a line `> ...` continues it. The lines that follow are the expected output: `...` stands
for any text, blanks count as one. A command must succeed unless its line ends in `# exit N`.
"""

import io
import os
import re
import shlex
import shutil
import subprocess
import sys
from contextlib import chdir, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

from toposeat.cli.main import main

_ROOT = Path(__file__).resolve().parents[2]
FENCE = re.compile(r"^```console\n(.*?)^```", re.DOTALL | re.MULTILINE)
_EXIT = re.compile(r"\s+# exit (\d+)$")
# One command of toposeat that starts no other, in which a shell would have nothing to do.
_ALONE = re.compile(r"toposeat (?!emulate|demo)(?:(?! -- )[\w ./:,=+@%^\[\]-])+")


@dataclass(frozen=True)
class Step:
    """One command of a page, and what should be seen."""

    page: Path
    line: int
    command: str
    exit_code: int
    expected: str


def steps_of(page):
    """All commands of a page, in order."""
    text = page.read_text()
    return [
        step
        for block in FENCE.finditer(text)
        for step in _steps_of_block(page, text.count("\n", 0, block.start(1)) + 1, block[1])
    ]


def _steps_of_block(page, first_line, block):
    found = []
    for number, line in enumerate(block.splitlines(), first_line):
        if line.startswith("$ "):
            found.append((number, [line[2:]], []))
        elif (line == ">" or line.startswith("> ")) and found and not found[-1][2]:
            found[-1][1].append(line[2:])
        elif found:
            found[-1][2].append(line)
        else:
            raise ValueError(f"{page}:{number}: output before any command")
    return [_step(page, *each) for each in found]


def _step(page, line, command, expected):
    text = "\n".join(command)
    exit_code = _EXIT.search(text)
    return Step(
        page,
        line,
        _EXIT.sub("", text),
        int(exit_code[1]) if exit_code else 0,
        "\n".join(expected),
    )


def run_page(page, folder, base=os.environ):
    """Run all commands of a page in an empty folder, with the examples beside them."""
    environment = dict(base) | {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{base['PATH']}",
        "TOPOSEAT_CACHE_DIR": str(folder / "cache"),
        "XDG_CONFIG_HOME": str(folder / "config"),
        "NO_COLOR": "1",
        "COLUMNS": "100",
    }
    shutil.copytree(_ROOT / "examples", folder / "examples")
    for step in steps_of(page):
        run_step(step, folder, environment)


def run_step(step, folder, environment):
    """Run one command; AssertionError with both texts if it does not do what the page says."""
    alone = _ALONE.fullmatch(step.command)
    code, said = (_called if alone else _started)(step.command, folder, environment)
    where = f"{step.page}:{step.line}: $ {step.command}"
    assert code == step.exit_code, f"{where}\nexit code {code}, expected {step.exit_code}\n{said}"
    if step.expected.strip() and not _matches(step.expected, said):
        raise AssertionError(f"{where}\nexpected:\n{step.expected}\ngot:\n{said}")


def _called(command, folder, environment):
    """Exit code and text of what this process does itself: starting one takes longer."""
    wanted = io.BytesIO()
    said = io.TextIOWrapper(wanted, encoding="utf-8", write_through=True)
    with (
        mock.patch.dict(os.environ, environment, clear=True),
        chdir(folder),
        redirect_stdout(said),
        redirect_stderr(said),
    ):
        code = main(shlex.split(command)[1:])
    return code, wanted.getvalue().decode()


def _started(command, folder, environment):
    """Exit code and text of a shell with this command."""
    done = subprocess.run(
        ["bash", "-c", command],
        cwd=folder,
        env=dict(environment),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=120,
        check=False,
    )
    return done.returncode, done.stdout


def _matches(expected, actual):
    """Whether the texts are equal but for white space and what `...` stands for.

    The parts between are looked for one after the other, each at its first place: a regular
    expression with as many wildcards may take hours to find that there is no match.
    """
    first, *others = (" ".join(part.split()) for part in expected.split("..."))
    text = " ".join(actual.split())
    if not others:
        return text == first
    *between, last = others
    if not text.startswith(first):
        return False
    at = len(first)
    for part in between:
        found = text.find(part, at)
        if found < 0:
            return False
        at = found + len(part)
    return text.endswith(last) and len(text) - len(last) >= at
