"""Hints that reach a program name keywords and functions, never options of the command line."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import toposeat
from toposeat.library.hints import in_python

_ROOT = Path(toposeat.__file__).parent
_OWN = {
    word
    for file in (_ROOT / "cli").rglob("*.py")
    for word in re.findall(r'"(--[a-z][a-z-]+)"', file.read_text())
}
# Of `toposeat`'s own verbs and of vendors: lines for a shell.
_SHELL = re.compile(
    r"in a shell: toposeat .*"
    r"|(mpirun|nvbandwidth|amd-smi|rocm-smi|nvidia-smi|ibnetdiscover|lstopo|lspci|hwloc\S*|kubectl|apt)"
    r"[^;,()]*(\(or --json\))?"
)
# The rest of these packages writes files for other programs, or runs only below a verb.
_REACHED = [
    *("model", "evaluation", "mapping", "pipeline/placing.py", "topology", "profile/importers"),
    *("profile/pattern", "profile/sources.py"),
]
_NOT_REACHED = {"measure", "health", "live", "nccl_file.py", "guest.py"}


def words_of(node: ast.expr) -> str:
    """The text of a literal, with X for what is put in."""
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.JoinedStr(values=parts):
            return "".join(words_of(p) if isinstance(p, ast.Constant) else "X" for p in parts)
        case ast.BinOp(left=left, right=right):
            return words_of(left) + words_of(right)
    return ""


def hints() -> Iterator[str]:
    """Every literal that is a hint: after `hint=`, or kept under a name with HINT."""
    for name in _REACHED:
        path = _ROOT / name
        for file in [path] if path.is_file() else sorted(path.rglob("*.py")):
            if _NOT_REACHED & {*file.relative_to(_ROOT).parts}:
                continue
            for node in ast.walk(ast.parse(file.read_text())):
                if isinstance(node, ast.keyword) and node.arg == "hint":
                    yield words_of(node.value)
                if isinstance(node, ast.Assign) and "HINT" in ast.unparse(node.targets[0]):
                    yield words_of(node.value)


def test_no_hint_has_an_option_of_the_command() -> None:
    found = {hint for hint in hints() if hint}
    assert len(found) > 150
    wrong = []
    for hint in found:
        words = _SHELL.sub("", in_python(hint))
        options = {*re.findall(r"(?<![\w-])(--[a-z][a-z-]+)", words)} & _OWN
        if options or re.search(r"(?<![\w-])-[tof]\b", words):
            wrong.append((hint, in_python(hint)))
    assert not wrong


COMMANDS = """\
use --solver auto or search | use solver="auto" or "search"
add -f to overwrite it, or give another name | overwrite=True overwrites it, or give another name
see it: toposeat map TRAFFIC -t a.conf --node SRC | see it: toposeat.read_topology(a.conf, node=SRC)
save it: rocm-smi --showtopo > FILE | save it: rocm-smi --showtopo > FILE
make one: toposeat profile -o F -- ... | make one: in a shell: toposeat profile -o F -- ...
"""


@pytest.mark.parametrize("line", COMMANDS.splitlines())
def test_words_of_the_command_become_pythons(line: str) -> None:
    hint, expected = line.split(" | ")
    assert in_python(hint) == expected


def test_a_traceback_shows_the_hint_once() -> None:
    with pytest.raises(toposeat.ToposeatError) as raised:
        toposeat.map_traffic("dgx-1v", "stencil2d:4x4")
    assert raised.value.message == "16 ranks do not fit on the 8 devices of 'dgx-1v'"
    assert "Constraints(slots=2)" in raised.value.hint
    assert raised.value.__notes__ == [f"hint: {raised.value.hint}"]
