"""Programs by task, as `srun --multi-prog` reads them from a file."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from toposeat.errors import InputError
from toposeat.model.files import read_input

# Tasks, the program, and its arguments, in which srun replaces %t and %o.
_LINE = re.compile(r"\s*([\d,*-]+)\s+(\S+)(.*)", re.ASCII | re.DOTALL)


@dataclass(frozen=True, kw_only=True, slots=True)
class TaskProgram:
    """One line of the file: `0-3,6 ./app arguments`; `*` is for all tasks that no line names."""

    tasks: str
    program: str
    arguments: str = ""

    @property
    def words(self) -> tuple[str, ...]:
        """The program and its arguments."""
        return (self.program, *self.arguments.split())


def read_task_programs(path: Path) -> tuple[TaskProgram, ...]:
    """The programs of a file, in its order.

    Raises:
        InputError: it cannot be read, or a line is none of its kind.
    """
    found = []
    text = read_input(path).decode(errors="replace").replace("\\\n", " ")
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        match = _LINE.fullmatch(line)
        if match is None:
            raise InputError(
                "it does not say tasks and their program",
                path=path,
                line=number,
                hint="for example: 0-3 ./app",
            )
        found.append(TaskProgram(tasks=match[1], program=match[2], arguments=match[3].strip()))
    if not found:
        raise InputError("it names no program", path=path, hint="for example: 0-3 ./app")
    return tuple(found)


def format_task_programs(programs: Iterable[TaskProgram], in_front: Sequence[str]) -> str:
    """The text of such a file, with words in front of every program."""
    words = shlex.join(in_front)
    lines = (f"{p.tasks} {words} {p.program} {p.arguments}".rstrip() for p in programs)
    return "".join(line + "\n" for line in lines)
