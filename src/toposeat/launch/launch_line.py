"""Takes a launch line apart: launcher, its options, the program after them, number of ranks."""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path

from toposeat.errors import InputError, UsageError
from toposeat.launch import option_tables
from toposeat.launch.launchers import LauncherKind, identify_launcher
from toposeat.launch.line_options import TABLES, Option, read_options, value_of
from toposeat.launch.option_tables import OptionTable
from toposeat.launch.task_programs import TaskProgram, format_task_programs, read_task_programs
from toposeat.model.input_file import beginning, read_input

TASK_FILE = "programs.conf"


@dataclass(frozen=True, kw_only=True, slots=True)
class FurtherProgram:
    """A program after the first one, with the `:` and the options in front of it."""

    launcher: tuple[str, ...]
    program: tuple[str, ...]
    ranks: int | None
    options: tuple[Option, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class LaunchLine:
    """A command taken apart.

    `launcher + program`, and further programs behind it, is the command as it was given; programs
    of a file are written out, but those of srun: there `program` is the file, `tasks` its lines.
    `ranks` is of all programs, None where the line leaves the number to the launcher (host files,
    `-N`). For torchrun it counts all nodes. `options` are the user's for the whole line and the
    first program, `added` the words in front of them that are not.
    """

    kind: LauncherKind
    launcher: tuple[str, ...]
    program: tuple[str, ...]
    ranks: int | None
    options: tuple[Option, ...] = ()
    added: tuple[str, ...] = ()
    further: tuple[FurtherProgram, ...] = ()
    tasks: tuple[TaskProgram, ...] = ()

    @property
    def programs(self) -> tuple[tuple[str, ...], ...]:
        """Every program with its arguments."""
        if self.tasks:
            return tuple(each.words for each in self.tasks)
        return (self.program, *(each.program for each in self.further))

    @property
    def interpreter(self) -> tuple[str, ...]:
        """What torchrun puts in front of the program: Python with options; empty elsewhere."""
        if self.kind is not LauncherKind.TORCHRUN or self.has(("no-python", "no_python")):
            return ()
        module = ("-m",) if self.has(("m", "module")) else ()
        return (_torchrun_python(self.launcher), "-u", *module)

    @property
    def program_ranks(self) -> tuple[range, ...] | None:
        """The ranks of every program; None if the line does not say."""
        if self.ranks is None:
            return None
        counts = [each.ranks or 0 for each in self.further]
        ends = [self.ranks - sum(counts[at:]) for at in range(len(counts) + 1)]
        return tuple(map(range, (0, *ends), ends))

    @property
    def table(self) -> OptionTable | None:
        """What is known of the launcher's options; None for a program without a launcher."""
        return TABLES.get(self.kind)

    def value(self, names: Collection[str]) -> str | None:
        """The last argument of the last option that has one of these names."""
        return value_of(self.options, *names)

    def has(self, names: Collection[str]) -> bool:
        """Whether an option has one of these names."""
        return any(option.name in names for option in self.options)

    def changed(self, added: Sequence[str], without: Collection[str] = ()) -> LaunchLine:
        """The line with more options in front of its own, and without those of these names."""
        if not self.launcher:
            return self
        start = _options_start(self.kind, self.launcher)
        own = start + len(self.added)
        end = self.launcher[own + sum(len(option.words) for option in self.options) :]
        kept = tuple(option for option in self.options if option.name not in without)
        added = (*added, *self.added)
        words = (word for option in kept for word in option.words)
        launcher = (*self.launcher[:start], *added, *words, *end)
        return replace(self, launcher=launcher, options=kept, added=added)

    def exchanged(self, option: Option, words: Sequence[str]) -> LaunchLine:
        """The line with other words in place of one of its options."""
        position = self.options.index(option)
        before = sum(len(each.words) for each in self.options[:position])
        at = _options_start(self.kind, self.launcher) + len(self.added) + before
        behind = self.launcher[at + len(option.words) :]
        new, _ = read_options(self.kind, (self.launcher[0], *words), 1)
        return replace(
            self,
            launcher=(*self.launcher[:at], *words, *behind),
            options=(*self.options[:position], *new, *self.options[position + 1 :]),
        )

    @property
    def argv(self) -> tuple[str, ...]:
        """The command as it was given."""
        behind = (word for each in self.further for word in (*each.launcher, *each.program))
        return (*self.launcher, *self.program, *behind)

    @property
    def binding_options(self) -> tuple[str, ...]:
        """Options with which the user binds processes already, as written by name."""
        table = self.table
        if table is None:
            return ()
        names = []
        for option in self.options:
            if option.name in table.binding:
                names.append(option.name)
            elif self.kind is LauncherKind.OPENMPI and _binds_by_mca(option):
                names.append(f"{option.name} {option.values[0]}")
        return tuple(names)


def parse_launch_line(
    argv: Sequence[str], *, identify: Callable[[str], LauncherKind] = identify_launcher
) -> LaunchLine:
    """Find launcher, program and number of ranks in `argv`.

    A command whose first word is no launcher is a program that is started directly: one rank.

    Args:
        argv: the command, e.g. `["mpirun", "-n", "8", "./app", "arg"]`.
        identify: tells the launcher's family from its first word; replaceable for tests.

    Raises:
        UsageError: no program, several programs that this launcher says in other words than `:`,
            or an option that is not known.
        InputError: a file of programs cannot be read.
        MissingProgramError: `mpirun` or `mpiexec` is asked for and does not exist.
    """
    if not argv:
        raise UsageError("no command to run", hint="write it after '--': -- mpirun -n 8 ./app")
    words = tuple(argv)
    kind = LauncherKind.TORCHRUN if is_torch_module(words) else identify(words[0])
    if kind is LauncherKind.NONE:
        return LaunchLine(kind=kind, launcher=(), program=words, ranks=1)
    return _parse(kind, words, _options_start(kind, words))


def wrap_with_exec(
    line: LaunchLine, exec_args: Sequence[str], task_file: str = TASK_FILE
) -> list[str]:
    """The command of `line` with toposeat-exec put in front of every program.

    Args:
        line: the command, taken apart.
        exec_args: path of toposeat-exec and its options, without the closing `--`.
        task_file: where `wrapped_tasks` will lie.
    """
    if line.tasks:
        return [*line.launcher, task_file, *line.program[1:]]
    if line.kind is not LauncherKind.TORCHRUN:
        behind = ([*e.launcher, *exec_args, "--", *e.program] for e in line.further)
        return [*line.launcher, *exec_args, "--", *line.program, *chain.from_iterable(behind)]
    launcher, program = _torchrun_without_python(line)
    return [*launcher, "--no_python", *exec_args, "--", *program]


def wrapped_tasks(line: LaunchLine, exec_args: Sequence[str]) -> str | None:
    """The file of programs by task with toposeat-exec in front of each; None if there is none."""
    return format_task_programs(line.tasks, [*exec_args, "--"]) if line.tasks else None


def is_torch_module(words: tuple[str, ...]) -> bool:
    """Whether a command is torchrun by the name of its module."""
    return (
        len(words) >= 3
        and Path(words[0]).name.startswith("python")
        and words[1] == "-m"
        and words[2] in ("torch.distributed.run", "torch.distributed.launch")
    )


def _options_start(kind: LauncherKind, words: tuple[str, ...]) -> int:
    """Index of the first word that may be an option: after `flux run`, `python -m torch...`.

    Raises:
        UsageError: a flux command that does not start the ranks itself.
    """
    if is_torch_module(words):
        return 3
    if kind is not LauncherKind.FLUX:
        return 1
    if words[1:2] == ("run",):
        return 2
    if words[1:3] == ("mini", "run"):
        return 3
    raise UsageError(
        f"'{' '.join(words[:2])}' does not start ranks itself",
        hint="use flux run, inside the allocation",
    )


def _parse(kind: LauncherKind, words: tuple[str, ...], start: int) -> LaunchLine:
    table = TABLES[kind]
    options, position = read_options(kind, words, start)
    if kind is LauncherKind.RSH:
        options += _rsh_words(words[position:], options)
        position = start + sum(len(option.words) for option in options)
    file = next((option for option in options if option.name in table.program_files), None)
    if file is not None:
        kept = (word for option in options if option is not file for word in option.words)
        behind = _programs_of_file(words[0], file, words[position:])
        return _parse(kind, (*words[:start], *kept, *behind), start)
    program, *others = _at_colons(words[position:]) if table.colon else [words[position:]]
    if not program:
        raise UsageError(
            f"no program after {words[0]} and its options",
            hint=f"for example: {words[0]} -n 8 ./app",
        )
    _refuse_many_programs(kind, table, options, program)
    by_task = kind is LauncherKind.SRUN and any(o.name == "multi-prog" for o in options)
    further = tuple(_further(kind, words[0], each) for each in others)
    counts = [_ranks(kind, table, options), *(each.ranks for each in further)]
    return LaunchLine(
        kind=kind,
        launcher=words[:position],
        program=program,
        ranks=None if None in counts else sum(filter(None, counts)),
        options=tuple(options),
        further=further,
        tasks=read_task_programs(Path(program[0])) if by_task else (),
    )


def _at_colons(words: tuple[str, ...]) -> list[tuple[str, ...]]:
    ends = [at for at, word in enumerate(words) if word == ":"]
    return [
        words[a:b] for a, b in zip([0, *(e + 1 for e in ends)], [*ends, len(words)], strict=True)
    ]


def _further(kind: LauncherKind, launcher: str, words: tuple[str, ...]) -> FurtherProgram:
    """What stands behind a colon."""
    options, position = read_options(kind, (launcher, *words), 1)
    program = words[position - 1 :]
    if not program:
        raise UsageError(
            f"no program behind ':' in the line of {launcher}",
            hint=f"for example: {launcher} -n 2 ./a : -n 2 ./b",
        )
    _refuse_many_programs(kind, TABLES[kind], options, program)
    return FurtherProgram(
        launcher=(":", *words[: position - 1]),
        program=program,
        ranks=_ranks(kind, TABLES[kind], options),
        options=tuple(options),
    )


def _programs_of_file(launcher: str, option: Option, program: tuple[str, ...]) -> list[str]:
    """The words of a file that has a program with its options in each line, joined by colons.

    Raises:
        InputError: it cannot be read.
        UsageError: there is a program in the line as well, or none in the file.
    """
    name = option.values[-1]
    if program:
        raise UsageError(
            f"{launcher} starts the programs of {name}, and the line names {program[0]} as well",
            hint=f"leave {program[0]} or the file out",
        )
    path = Path(name)
    words: list[str] = []
    for number, text in enumerate(read_input(path).decode(errors="replace").splitlines(), 1):
        try:
            own = shlex.split(text, comments=True)
        except ValueError as error:
            raise InputError(str(error), path=path, line=number, hint="close the quote") from error
        if own and own[-1] == ":":
            own.pop()
        words += [":", *own] if words and own else own
    if not words:
        raise InputError("it names no program", path=path, hint="write one in each line: -n 2 ./a")
    return words


def _rsh_words(words: tuple[str, ...], options: Sequence[Option]) -> list[Option]:
    """What mpirun_rsh takes between options and program: a host per rank, NAME=VALUE."""
    found = []
    count = value_of(options, *option_tables.MPIRUN_RSH.ranks)
    files = option_tables.MPIRUN_RSH.host_files
    if count is not None and count.isdigit() and value_of(options, *files) is None:
        hosts = words[: int(count)]
        found.append(Option("hosts", (",".join(hosts),), hosts))
        words = words[len(hosts) :]
    for word in words:
        if "=" not in word or "/" in word.partition("=")[0]:
            break
        found.append(Option(word.partition("=")[0], (word.partition("=")[2],), (word,)))
    return found


def _refuse_many_programs(
    kind: LauncherKind, table: OptionTable, options: Sequence[Option], program: tuple[str, ...]
) -> None:
    for option in options:
        if option.name in table.many:
            raise UsageError(
                f"option {option.name} {table.many[option.name]}, which is not supported",
                hint="start one program per launch line",
            )
    if kind is LauncherKind.SRUN and ":" in program:
        raise UsageError(
            "srun gives every program of a line with ':' nodes of its own, so that no plan can have"
            " their ranks side by side",
            hint="name them in a file with a line like '0-3 ./a' for each: srun -n N --multi-prog"
            " FILE",
        )
    if kind is not LauncherKind.TORCHRUN and ":" in program:
        raise UsageError(
            f"the line starts several programs (':'), which is not supported for {kind.value}",
            hint="start one program per launch line, or put toposeat-exec in front of each by hand",
        )


def _ranks(kind: LauncherKind, table: OptionTable, options: Sequence[Option]) -> int | None:
    if kind is LauncherKind.TORCHRUN:
        return _torchrun_ranks(options)
    for option in reversed(options):
        if option.name in table.ranks and option.values:
            return _rank_count(option)
    if kind is LauncherKind.SRUN:
        return _srun_ranks(options)
    return None


def _rank_count(option: Option) -> int:
    text = option.values[-1]
    if not text.isascii() or not text.isdigit() or not 0 < int(text) < 1 << 31:
        raise UsageError(
            f"the number of ranks must be a positive integer, not {text!r}",
            hint="for example: -n 8",
        )
    return int(text)


def _product(*texts: str | None) -> int | None:
    """The product of decimal numbers, None if one of them is anything else."""
    product = 1
    for text in texts:
        if text is None or not (text.isascii() and text.isdigit()):
            return None
        product *= int(text)
    return product or None


def _srun_ranks(options: Sequence[Option]) -> int | None:
    return _product(value_of(options, "N", "nodes"), value_of(options, "ntasks-per-node"))


def _torchrun_ranks(options: Sequence[Option]) -> int | None:
    per_node = value_of(options, "nproc-per-node", "nproc_per_node")
    nodes = value_of(options, "nnodes")
    return _product(per_node if per_node is not None else "1", nodes if nodes is not None else "1")


def _binds_by_mca(option: Option) -> bool:
    """Whether an Open MPI `--mca name value` sets a binding policy."""
    return option.name.endswith("mca") and option.values[:1] in (
        ("hwloc_base_binding_policy",),
        ("hwloc_default_binding_policy",),
        ("rmaps_base_mapping_policy",),
    )


def _torchrun_without_python(line: LaunchLine) -> tuple[list[str], list[str]]:
    """The launcher without `-m`/`--no-python`, and the program with its interpreter in front."""
    flags = ("-m", "--module", "--no-python", "--no_python")
    launcher = [
        word
        for index, word in enumerate(line.launcher)
        if word not in flags or _is_own_m(line, index)
    ]
    if launcher[-1] == "--":
        launcher.pop()
    return launcher, [*line.interpreter, *line.program]


def _is_own_m(line: LaunchLine, index: int) -> bool:
    """Whether the word is the `-m` of `python -m torch.distributed.run`."""
    return index == 1 and is_torch_module(line.launcher[:3])


def _torchrun_python(launcher: Sequence[str]) -> str:
    """The interpreter torchrun itself would use: its own."""
    if Path(launcher[0]).name.startswith("python"):
        return launcher[0]
    script = shutil.which(launcher[0])
    if script is not None:
        first = beginning(script, 512).partition(b"\n")[0].decode(errors="replace").strip()
        if first.startswith("#!") and " " not in first:
            return first[2:]
    return "python3"
