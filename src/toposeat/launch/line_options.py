"""Reads the options of a launch line by the table of its launcher."""

from __future__ import annotations

import re
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from toposeat.errors import UsageError
from toposeat.launch import option_tables
from toposeat.launch.launchers import LauncherKind
from toposeat.launch.option_tables import OptionTable

TABLES = {
    LauncherKind.OPENMPI: option_tables.OPENMPI,
    LauncherKind.MPICH: option_tables.MPICH,
    LauncherKind.INTEL: option_tables.INTEL,
    LauncherKind.SRUN: option_tables.SRUN,
    LauncherKind.FLUX: option_tables.FLUX_RUN,
    LauncherKind.TORCHRUN: option_tables.TORCHRUN,
    LauncherKind.PALS: option_tables.PALS,
    LauncherKind.RSH: option_tables.MPIRUN_RSH,
    LauncherKind.JSRUN: option_tables.JSRUN,
    LauncherKind.IBRUN: option_tables.IBRUN,
}
_ATTACHED = re.compile(r"^-([A-Za-z])(.+)$", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Option:
    """One launcher option as given: its name without dashes, its arguments, its words in full."""

    name: str
    values: tuple[str, ...]
    words: tuple[str, ...] = field(default=(), compare=False)


def read_options(
    kind: LauncherKind, words: tuple[str, ...], start: int
) -> tuple[list[Option], int]:
    """The options from `start` on, and where the program begins."""
    table = TABLES[kind]
    options: list[Option] = []
    position = start
    while position < len(words):
        word = words[position]
        if word == "--" and table.ends_options:
            position += 1
            break
        if not word.startswith("-") or word == "-":
            break
        option, used = _read_option(kind, table, words, position)
        options.append(replace(option, words=words[position : position + used]))
        position += used
    return options, position


def value_of(options: Sequence[Option], *names: str) -> str | None:
    """The last argument of the last option that has one of these names."""
    for option in reversed(options):
        if option.name in names and option.values:
            return option.values[-1]
    return None


def _read_option(
    kind: LauncherKind, table: OptionTable, words: tuple[str, ...], position: int
) -> tuple[Option, int]:
    """The option at `position` and how many words it takes."""
    word = words[position]
    is_long = word.startswith("--")
    body = word.lstrip("-")
    name, equals, value = body.partition("=")
    if is_long or table.single_dash_long or len(body) == 1:
        if equals and table.equals and (name in table.arity or name in table.program_files):
            return Option(name, (value,)), 1
        if body in table.arity or body in table.program_files:
            return _take_values(table, words, position, body)
        if body in table.many:
            return Option(body, ()), 1
        if name in table.many:
            return Option(name, (value,)), 1
    if not is_long and table.attached:
        attached = _ATTACHED.match(word)
        if attached is not None and attached[1] in table.arity:
            return _attached_option(table, words, position, attached[1], attached[2])
    return _unknown_option(kind, words, position, body)


def _take_values(
    table: OptionTable, words: tuple[str, ...], position: int, name: str
) -> tuple[Option, int]:
    count = table.arity.get(name, 1)
    values = words[position + 1 : position + 1 + count]
    if len(values) < count:
        raise UsageError(
            f"option {words[position]} of {words[0]} needs an argument",
            hint=f"for example: {words[0]} -n 8 ./app",
        )
    return Option(name, values), 1 + count


def _attached_option(
    table: OptionTable, words: tuple[str, ...], position: int, letter: str, rest: str
) -> tuple[Option, int]:
    """`-n8`, `-lu`, or `-ln 8` as getopt reads them; flags before the last letter are dropped."""
    while table.arity[letter] == 0 and rest:
        letter, rest = rest[0], rest[1:]
        if letter not in table.arity:
            return _unknown_option(LauncherKind.NONE, words, position, letter)
    if table.arity[letter] == 0:
        return Option(letter, ()), 1
    if rest:
        return Option(letter, (rest.removeprefix("="),)), 1
    return _take_values(table, words, position, letter)


def _unknown_option(
    kind: LauncherKind, words: tuple[str, ...], position: int, body: str
) -> tuple[Option, int]:
    """Decide how many arguments an option takes that no table lists, only where there is no doubt.

    Raises:
        UsageError: there is doubt.
    """
    following = words[position + 1 : position + 3]
    runnable = [shutil.which(word) is not None for word in following]
    if "=" in body or (following and following[0].startswith("-")):
        return Option(body.partition("=")[0], ()), 1
    if runnable == [False, True]:
        return Option(body, following[:1]), 2
    if runnable[:1] == [True] and runnable != [True, True]:
        return Option(body, ()), 1
    family = "" if kind is LauncherKind.NONE else f" ({kind.value})"
    raise UsageError(
        f"unknown option {words[position]!r} of {words[0]}{family}: cannot tell where the program"
        " starts",
        hint=f"add it by hand: {words[0]} OPTIONS toposeat-exec -m PLACEMENT ./app",
    )
