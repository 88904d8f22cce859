"""Reads a launch line: which launcher it is of, its options, the programs, number of ranks."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path

from toposeat.errors import InputError, MissingProgramError, UsageError, did_you_mean, nearest
from toposeat.launch.launchers import LAUNCHERS
from toposeat.launch.launchers.launcher import (
    FurtherProgram,
    Launcher,
    LauncherKind,
    LaunchLine,
    Option,
    TaskProgram,
    python_module,
    read_options,
    version_answer,
)
from toposeat.launch.launchers.wrappers import (
    WRAPPER_NAMES,
    Command,
    answer_behind,
    name_behind,
    own_wrappers,
    script_in,
    unwrapped,
)
from toposeat.model.files import read_input

TASK_FILE = "programs.conf"
# Tasks, the program, and its arguments, in which srun replaces %t and %o.
_TASK_LINE = re.compile(r"\s*([\d,*-]+)\s+(\S+)(.*)", re.ASCII | re.DOTALL)
_AMBIGUOUS_NAMES = ("mpirun", "mpiexec", "mpiexec.hydra", "oshrun", "shmemrun")
_BATCH = ("sbatch", "qsub", "bsub")
_ELSEWHERE = ("salloc", "qrsh", "ssh", "screen", "tmux", "sudo", "su")
_UNSUPPORTED_NAMES = (
    *("jsrun", "lrun", "aprun", "mpiexec.gforker", "horovodrun", "mpirun_rsh", "ibrun"),
)


def identify_launcher(program: str) -> str:
    """The kind of launcher that `program` names, `NONE` if it is no known launcher.

    `mpirun` and `mpiexec` belong to several families: the file behind the name decides
    (`mpirun` -> `orterun` under Debian), else what it answers to `--version`.

    Raises:
        MissingProgramError: `program` is an ambiguous launcher name and does not exist.
        UsageError: it is a launcher, but one that toposeat cannot take apart.
    """
    kinds = {name: each.kind for each in LAUNCHERS.values() for name in each.names}
    name = Path(program).name
    if name in kinds:
        return kinds[name]
    if name in _UNSUPPORTED_NAMES:
        raise UsageError(
            f"toposeat cannot read launch lines of {name}",
            hint=f"add it by hand: {name} OPTIONS toposeat-exec -m PLACEMENT ./app",
        )
    if name not in _AMBIGUOUS_NAMES:
        near = did_you_mean(name, (*kinds, *_AMBIGUOUS_NAMES, *WRAPPER_NAMES))
        if near and shutil.which(program) is None:
            raise MissingProgramError(f"program {program!r} not found", hint=near)
        return LauncherKind.NONE
    path = shutil.which(program)
    if path is None:
        raise MissingProgramError(
            f"launcher {program!r} not found", hint="load the MPI module or give its full path"
        )
    real = Path(path).resolve()
    if real.name in kinds:
        return kinds[real.name]
    if "pals" in real.parts:  # /opt/cray/pals/1.3/bin/mpiexec
        return LauncherKind.PALS
    return _identify_by_version(path)


def kind_of_version(answer: str) -> str | None:
    """The launcher that a `--version` answer names, None if it is not known."""
    return next(
        (
            each.kind
            for each in LAUNCHERS.values()
            if each.answer and re.search(each.answer, answer, re.IGNORECASE | re.DOTALL)
        ),
        None,
    )


def _identify_by_version(path: str) -> str:
    try:
        answer = version_answer(path)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise UsageError(
            f"cannot find out which MPI {path} belongs to: {error}",
            hint="add it by hand: mpirun OPTIONS toposeat-exec -m PLACEMENT ./app",
        ) from error
    kind = kind_of_version(answer)
    if kind is not None:
        return kind
    first_line = answer.strip().splitlines()[0] if answer.strip() else "nothing"
    raise UsageError(
        f"cannot find out which MPI {path} belongs to; '--version' answers {first_line!r}",
        hint="add it by hand: mpirun OPTIONS toposeat-exec -m PLACEMENT ./app",
    )


def parse_launch_line(
    argv: Sequence[str], *, identify: Callable[[str], str] = identify_launcher
) -> LaunchLine:
    """Find launcher, program and number of ranks in `argv`, wrappers of the launcher before it.

    A command that starts no launcher is a program that is started directly: one rank. `identify`
    tells the launcher's kind from its first word.
    """
    if not argv:
        raise UsageError("no command to run", hint="for example: mpirun -n 8 ./app")
    own = unwrapped(tuple(argv))
    words = own.program
    module = python_module(words)
    known = (each.kind for each in LAUNCHERS.values() if module in each.modules)
    kind = next(known, None)
    if kind is None and own.through:
        kind, words = _kind_behind(own, identify)
    kind = kind or identify(words[0])
    if kind == LauncherKind.NONE:
        _refuse_elsewhere(words)
        return LaunchLine(kind=kind, launcher=(), program=own.words, ranks=1)
    line = _parse(LAUNCHERS[kind], words, LAUNCHERS[kind].start(words))
    inner = _job_below(line)
    if inner is not None:
        return replace(inner, before=(*own.before, *line.launcher, *inner.before))
    return replace(line, before=own.before, through=own.through)


def _refuse_elsewhere(words: Sequence[str]) -> None:
    """Refuse what is no program: an option, and what starts a line elsewhere or later."""
    name = Path(words[0]).name
    if name.startswith("-"):
        raise UsageError(
            f"the line begins with the option {words[0]}",
            hint=f"name its launcher: mpirun {shlex.join(words)}",
        )
    at = launcher_within(words[1:])
    if name in _BATCH:
        raise UsageError(
            f"{name} starts the line later, in a job of its own",
            hint="say it in the job's script: toposeat run -p PLACE mpirun -n 8 ./app",
        )
    if name in _ELSEWHERE and at is not None:
        line = shlex.join([*words[: at + 1], "toposeat", "run", *words[at + 1 :]])
        raise UsageError(
            f"{name} starts the line where toposeat knows neither its nodes nor its end",
            hint=f"put it in front of toposeat: {line}",
        )


def _kind_behind(
    own: Command, identify: Callable[[str], str]
) -> tuple[str | None, tuple[str, ...]]:
    """The kind of a program behind wrappers that decide what its name means, and its words.

    The launcher is said by its path where this node has that file; a container is asked.
    """
    name, *rest = own.program
    if Path(name).name not in _launcher_names():
        return LauncherKind.NONE, own.program
    found = name_behind(own.through, name)
    if found and not own.contained and Path(found).exists():
        return identify(found), (found, *rest)
    if found and Path(name).name in _AMBIGUOUS_NAMES:
        return kind_of_version(answer_behind(own.through, '"$0" --version 2>&1', name)), own.program
    if not found and Path(name).name in _AMBIGUOUS_NAMES:
        raise MissingProgramError(
            f"launcher {name!r} not found behind {' '.join(own.before[:2])}",
            hint="check its name, or start the wrapper behind the launcher: mpirun -n 8"
            f" {' '.join(own.before[:2])} ... ./app",
        )
    return None, own.program


def _launcher_names() -> tuple[str, ...]:
    own = (name for each in LAUNCHERS.values() for name in each.names)
    return (*own, *_AMBIGUOUS_NAMES, *_UNSUPPORTED_NAMES)


def launcher_named(word: str, *, nearly: bool = True) -> str:
    """The launcher or wrapper that a word names, or nearly names; "" if none."""
    names = (*_launcher_names(), *WRAPPER_NAMES, *own_wrappers())
    return word if word in names else nearest(word, names) if nearly else ""


def launcher_within(words: Sequence[str]) -> int | None:
    """Where a command that starts with no launcher names one; None if nowhere."""
    names = _launcher_names()
    return next((at for at, word in enumerate(words) if Path(word).name in names), None)


def launcher_in_text(text: str) -> str:
    """The launcher that a shell's text starts, other than torchrun, whose ranks find their seats.

    "" where there is none, or where the text names toposeat itself.
    """
    own = {*_launcher_names(), *_UNSUPPORTED_NAMES} - {"torchrun"}
    names = "|".join(map(re.escape, sorted(own, key=len, reverse=True)))
    found = re.search(rf"(?m)(?:^|[;&|(]|\b(?:exec|time|nohup|then|do))[ \t]*({names})[ \t]", text)
    return found[1] if found and "toposeat" not in text else ""


def script_of(line: LaunchLine, environment: Mapping[str, str]) -> str:
    """The script that a launcher starts in place of the program; "" if none."""
    commands = map(unwrapped, line.programs if line.launcher else ())
    scripts = (script_in(each, each.which(environment, line.through)) for each in commands)
    return next(filter(None, scripts), "")


def _job_below(line: LaunchLine) -> LaunchLine | None:
    """The job that one task of srun starts by a launcher of its own; None where it starts none."""
    if line.kind != LauncherKind.SRUN or line.tasks or torchrun_below(line) is not None:
        return None
    if Path(unwrapped(line.program).program[0]).name not in _launcher_names():
        return None
    inner = parse_launch_line(line.program)
    if inner.kind == LauncherKind.NONE:
        return None
    if line.ranks != 1:
        raise UsageError(
            f"{line.launcher[0]} starts {inner.launcher[0]} in each of its tasks, and that starts a"
            " job each time",
            hint=f"leave {line.launcher[0]} out, or give it one task: srun -N 1 -n 1"
            f" {inner.launcher[0]} ...",
        )
    return inner


def check_ready(line: LaunchLine, environment: Mapping[str, str]) -> None:
    """Refuse a line that its launcher cannot start on this node, as far as that is known."""
    if line.family.ready is not None:
        line.family.ready(line, environment)


def torchrun_below(line: LaunchLine) -> LaunchLine | None:
    """The line of torchrun that srun starts on each node; None where it starts something else."""
    if line.kind != LauncherKind.SRUN or line.tasks:
        return None
    modules = LAUNCHERS[LauncherKind.TORCHRUN].modules
    program = unwrapped(line.program).program
    is_torchrun = Path(program[0]).name == "torchrun" or python_module(program) in modules
    return parse_launch_line(line.program) if is_torchrun else None


def hand_on(
    line: LaunchLine, names: Sequence[str], environment: Mapping[str, str]
) -> tuple[LaunchLine, dict[str, str]]:
    """The line with which variables of this process reach the ranks, and what else to set for that.

    A launch line is public: other users of a node can read it. So a secret is put into the
    launcher's environment, and the line says its name where it says any, never its value. Most
    launchers hand on everything unless the user says otherwise; what the user says is extended, not
    overruled.
    """
    forward = line.family.forward
    return (line, {}) if forward is None or not names else forward(line, names, environment)


def wrap_with_exec(
    line: LaunchLine,
    exec_args: Sequence[str],
    task_file: str = TASK_FILE,
    folders: Iterable[Path] = (),
) -> list[str]:
    """The command of `line` with toposeat-exec put in front of every program.

    `exec_args` are its path and options, without the closing `--`; () for none. `wrapped_tasks`
    will lie in `task_file`. Containers are shown `folders`, so that toposeat-exec and its files are
    found there.
    """
    folders = list(folders)
    if line.family.mounts is not None:
        line = line.family.mounts(line, folders)
    before = unwrapped((*line.before, "true")).showing(line.before, folders)
    if line.tasks:
        return [*before, *line.launcher, task_file, *line.program[1:]]
    launcher, own = line.launcher, line.program
    if line.family.wrap is not None and exec_args:
        launcher, own = tuple(line.family.wrap(line)), (*line.interpreter, *own)
    behind = (
        [*each.launcher, *unwrapped(each.program).seated(exec_args, folders)]
        for each in line.further
    )
    first = unwrapped(own).seated(exec_args, folders)
    return [*before, *launcher, *first, *chain.from_iterable(behind)]


def wrapped_tasks(line: LaunchLine, exec_args: Sequence[str]) -> str | None:
    """The file of programs by task with toposeat-exec in front of each; None if there is none."""
    for each in line.tasks:
        if unwrapped(each.words).contained:
            raise UsageError(
                f"the program of tasks {each.tasks} is in a container, which a file of programs"
                " cannot be given folders for",
                hint=f"start one program by srun, without --multi-prog: srun {each.program} ...",
            )
    words = shlex.join([*exec_args, "--"])
    lines = (f"{each.tasks} {words} {each.program} {each.arguments}" for each in line.tasks)
    return "".join(f"{text.rstrip()}\n" for text in lines) or None


def _parse(family: Launcher, words: tuple[str, ...], start: int) -> LaunchLine:
    table = family.table
    options, position = read_options(family, words, start)
    if family.operands is not None:
        options += family.operands(words[position:], options)
        position = start + sum(len(option.words) for option in options)
    file = next((option for option in options if option.name in table.program_files), None)
    if file is not None:
        kept = (word for option in options if option is not file for word in option.words)
        behind = _programs_of_file(words[0], file, words[position:])
        return _parse(family, (*words[:start], *kept, *behind), start)
    program, *others = _at_colons(words[position:]) if table.colon else [words[position:]]
    if not program:
        raise UsageError(
            f"no program after {words[0]} and its options",
            hint=f"for example: {words[0]} -n 8 ./app",
        )
    _refuse_many_programs(family, options, program)
    by_task = any(option.name in table.by_task for option in options)
    further = tuple(_further(family, words[0], each) for each in others)
    counts = [_ranks(family, options), *(each.ranks for each in further)]
    return LaunchLine(
        kind=family.kind,
        launcher=words[:position],
        program=program,
        ranks=None if None in counts else sum(filter(None, counts)),
        options=tuple(options),
        further=further,
        tasks=_task_programs(Path(program[0])) if by_task else (),
    )


def _at_colons(words: tuple[str, ...]) -> list[tuple[str, ...]]:
    ends = [at for at, word in enumerate(words) if word == ":"]
    return [
        words[a:b] for a, b in zip([0, *(e + 1 for e in ends)], [*ends, len(words)], strict=True)
    ]


def _further(family: Launcher, launcher: str, words: tuple[str, ...]) -> FurtherProgram:
    """What stands behind a colon."""
    options, position = read_options(family, (launcher, *words), 1)
    program = words[position - 1 :]
    if not program:
        raise UsageError(
            f"no program behind ':' in the line of {launcher}",
            hint=f"for example: {launcher} -n 2 ./a : -n 2 ./b",
        )
    _refuse_many_programs(family, options, program)
    return FurtherProgram(
        launcher=(":", *words[: position - 1]),
        program=program,
        ranks=_ranks(family, options),
        options=tuple(options),
    )


def _programs_of_file(launcher: str, option: Option, program: tuple[str, ...]) -> list[str]:
    """The words of a file that has a program with its options in each line, joined by colons."""
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


def _refuse_many_programs(
    family: Launcher, options: Sequence[Option], program: tuple[str, ...]
) -> None:
    for option in options:
        if option.name in family.table.many:
            raise UsageError(
                f"option {option.name} {family.table.many[option.name]}, which is not supported",
                hint="start one program per launch line",
            )
    if ":" in program and not family.colon_is_a_word:
        cause, hint = family.no_colon
        raise UsageError(cause.format(kind=family.kind), hint=hint)


def _ranks(family: Launcher, options: Sequence[Option]) -> int | None:
    for option in reversed(options):
        if option.name in family.table.ranks and option.values:
            return _rank_count(option)
    return None if family.count is None else family.count(options)


def _rank_count(option: Option) -> int:
    text = option.values[-1]
    if not text.isascii() or not text.isdigit() or not 0 < int(text) < 1 << 31:
        raise UsageError(
            f"the number of ranks must be a positive integer, not {text!r}",
            hint="for example: -n 8",
        )
    return int(text)


def _task_programs(path: Path) -> tuple[TaskProgram, ...]:
    """The programs by task that `srun --multi-prog` reads from a file, in its order."""
    found = []
    text = read_input(path).decode(errors="replace").replace("\\\n", " ")
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        match = _TASK_LINE.fullmatch(line)
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
