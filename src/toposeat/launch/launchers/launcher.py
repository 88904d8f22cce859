"""What a launcher is, and a launch line taken apart by what is known of its launcher.

Each family of launchers has a file beside this one, which says how its line is read, how the host
of every rank is said in its words, what it hands on, and what `export` writes for it.
"""

from __future__ import annotations

import dataclasses
import re
import shutil
import subprocess
from collections.abc import Callable, Collection, Mapping, Sequence
from enum import StrEnum
from functools import cache
from pathlib import Path

from msgspec import field
from msgspec.structs import replace

from toposeat.errors import UsageError
from toposeat.launch.launchers.seats import Allocation, HostWords, RankHosts
from toposeat.model.record import Record

_ATTACHED = re.compile(r"^-([A-Za-z])(.+)$", re.DOTALL)
_VERSION = re.compile(r"(?<![\d.])(\d{1,4}\.\d{1,3}(?:\.\d{1,3})?)")
_VERSION_TIMEOUT_S = 20.0
Words = tuple[str, ...]
PLACING: Words = ("SLURM_HOSTFILE", "SLURM_DISTRIBUTION", "SLURM_NTASKS_PER_NODE")


class LauncherKind(StrEnum):
    """The launchers that other code asks for by name."""

    OPENMPI = "openmpi"
    MPICH = "mpich"
    INTEL = "intel"
    SRUN = "srun"
    FLUX = "flux"
    TORCHRUN = "torchrun"
    PALS = "pals"
    SSH = "ssh"
    NONE = "none"  # the program is started directly


class OptionTable(Record, frozen=True, kw_only=True):
    """The grammar of one launcher's command line.

    Names are without leading dashes. An option that is not here is not guessed at.

    Attributes:
        arity: number of separate arguments by option name.
        ranks: options whose argument is the number of ranks.
        cpus: options whose argument is the number of CPUs of a rank, out of those of its host.
        binding: options that bind processes to CPUs.
        binding_parameters: first arguments, of options with two, that do.
        hosts: options that name hosts, apart by commas.
        host_files: options that name a file of hosts.
        reach: other options by which ranks may be on other hosts.
        nodes: options whose argument is the number of hosts.
        per_host: options whose argument is the number of ranks of every host.
        ordering: other options that say which rank goes to which host.
        dealing: those of them whose argument is compared with the plan's own.
        many: options that make the line start more than one program, with what they do.
        devices: options by which it gives every rank GPUs of its own choice.
        by_task: options that make the program a file of programs by task.
        output: options that send what ranks write elsewhere than to the launcher's own output.
        colon: `:` stands between programs, each with options of its own in front.
        program_files: options whose argument is a file with such a program in each line.
        attached: one-letter options may carry their value (`-n8`).
        single_dash_long: `-mca` means `--mca`.
        ends_options: `--` ends the launcher's options.
        equals: `--name=value` is accepted.
    """

    arity: Mapping[str, int]
    ranks: frozenset[str] = frozenset()
    cpus: frozenset[str] = frozenset()
    binding: frozenset[str] = frozenset()
    binding_parameters: frozenset[str] = frozenset()
    hosts: frozenset[str] = frozenset()
    host_files: frozenset[str] = frozenset()
    reach: frozenset[str] = frozenset()
    nodes: frozenset[str] = frozenset()
    per_host: frozenset[str] = frozenset()
    ordering: frozenset[str] = frozenset()
    dealing: frozenset[str] = frozenset()
    many: Mapping[str, str] = field(default_factory=dict)
    devices: frozenset[str] = frozenset()
    by_task: frozenset[str] = frozenset()
    output: frozenset[str] = frozenset()
    colon: bool = False
    program_files: frozenset[str] = frozenset()
    attached: bool = False
    single_dash_long: bool = True
    ends_options: bool = True
    equals: bool = True


def arities(groups: Mapping[int, str]) -> dict[str, int]:
    """Names, apart by blanks, by their number of arguments."""
    return {name: count for count, names in groups.items() for name in names.split()}


@dataclasses.dataclass(frozen=True, slots=True)
class Option:
    """One launcher option as given: its name without dashes, its arguments, its words in full."""

    name: str
    values: tuple[str, ...]
    words: tuple[str, ...] = dataclasses.field(default=(), compare=False)


class FurtherProgram(Record, frozen=True, kw_only=True):
    """A program after the first one, with the `:` and the options in front of it."""

    launcher: tuple[str, ...]
    program: tuple[str, ...]
    ranks: int | None
    options: tuple[Option, ...] = ()


class TaskProgram(Record, frozen=True, kw_only=True):
    """A line of a file for `srun --multi-prog`: `0-3,6 ./app arguments`.

    `*` is for all tasks that no line names.
    """

    tasks: str
    program: str
    arguments: str = ""

    @property
    def words(self) -> tuple[str, ...]:
        """The program and its arguments."""
        return (self.program, *self.arguments.split())


class LaunchLine(Record, frozen=True, kw_only=True):
    """A command taken apart.

    `before + launcher + program`, and further programs behind it, is the command as it was given;
    programs of a file are written out, but those of srun: there `program` is the file, `tasks` its
    lines. `before` are wrappers of the launcher, `through` those of them behind which the name of
    a program may mean another file.
    `ranks` is of all programs, None where the line leaves the number to the launcher (host files,
    `-N`). For torchrun it counts all nodes. `options` are the user's for the whole line and the
    first program, `added` the words in front of them that are not.
    """

    kind: str
    launcher: Words
    program: Words
    ranks: int | None
    options: tuple[Option, ...] = ()
    added: Words = ()
    further: tuple[FurtherProgram, ...] = ()
    tasks: tuple[TaskProgram, ...] = ()
    before: Words = ()
    through: Words = ()

    @property
    def family(self) -> Launcher:
        """What is known of its launcher."""
        return LAUNCHERS[self.kind]

    @property
    def table(self) -> OptionTable:
        """What is known of the launcher's options; no options for a program without a launcher."""
        return self.family.table

    @property
    def programs(self) -> tuple[Words, ...]:
        """Every program with its arguments."""
        if self.tasks:
            return tuple(each.words for each in self.tasks)
        return (self.program, *(each.program for each in self.further))

    @property
    def interpreter(self) -> Words:
        """What the launcher itself puts in front of the program, as torchrun does Python."""
        return () if self.family.interpreter is None else self.family.interpreter(self)

    @property
    def program_ranks(self) -> tuple[range, ...] | None:
        """The ranks of every program; None if the line does not say."""
        if self.ranks is None:
            return None
        counts = [each.ranks or 0 for each in self.further]
        ends = [self.ranks - sum(counts[at:]) for at in range(len(counts) + 1)]
        return tuple(map(range, (0, *ends), ends))

    def value(self, names: Collection[str]) -> str | None:
        """The last argument of the last option that has one of these names."""
        return value_of(self.options, *names)

    def has(self, names: Collection[str]) -> bool:
        """Whether an option has one of these names."""
        return any(option.name in names for option in self.options)

    def words_of(self, names: str, but: Callable[[Option], bool] = lambda _: False) -> list[str]:
        """Options of these names, apart by blanks, as written: srun takes some only with a "="."""
        kept = (each for each in self.options if each.name in names.split() and not but(each))
        return [word for option in kept for word in option.words]

    def changed(self, added: Sequence[str], without: Collection[str] = ()) -> LaunchLine:
        """The line with more options in front of its own, and without those of these names."""
        if not self.launcher:
            return self
        start = self.family.start(self.launcher)
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
        at = self.family.start(self.launcher) + len(self.added) + before
        behind = self.launcher[at + len(option.words) :]
        new, _ = read_options(self.family, (self.launcher[0], *words), 1)
        return replace(
            self,
            launcher=(*self.launcher[:at], *words, *behind),
            options=(*self.options[:position], *new, *self.options[position + 1 :]),
        )

    @property
    def argv(self) -> Words:
        """The command as it was given."""
        behind = (word for each in self.further for word in (*each.launcher, *each.program))
        return (*self.before, *self.launcher, *self.program, *behind)

    @property
    def binding_options(self) -> Words:
        """Options with which the user binds processes already, as written by name."""
        names = []
        for option in self.options:
            if option.name in self.table.binding:
                names.append(option.name)
            elif len(option.values) == 2 and option.values[0] in self.table.binding_parameters:
                names.append(f"{option.name} {option.values[0]}")
        return tuple(names)


class Launch(Record, frozen=True, kw_only=True):
    """A line and what is around it: hosts, variables, where files will lie, CPUs of ranks."""

    line: LaunchLine
    allocation: Allocation | None
    environment: Mapping[str, str]
    folder: str = ""
    cpus: Sequence[str | None] = ()

    def order_in_job(self, hosts: Collection[str]) -> Words:
        """These hosts as the scheduler's job has them; () outside a job."""
        if self.allocation is None or not self.allocation.in_job:
            return ()
        return tuple(host for host in self.allocation.hosts if host in hosts)


def python_module(words: Words) -> str:
    """The module that a command starts as `python -m MODULE`; "" for other commands."""
    starts = len(words) >= 3 and Path(words[0]).name.startswith("python") and words[1] == "-m"
    return words[2] if starts else ""


def _behind_the_name(words: Words) -> int:
    """Index of the first word that may be an option."""
    return 3 if python_module(words) else 1


def _no_words(launch: Launch, plan: RankHosts) -> HostWords:
    """For programs without a launcher."""
    del launch
    raise UsageError(
        f"the plan has {len(plan.hosts)} hosts, and the line has no launcher",
        hint=f"start it by one, such as srun -n {plan.ranks}",
    )


class Launcher(Record, frozen=True, kw_only=True):
    """One launcher: facts, and functions where facts do not say it.

    Attributes:
        kind: its name in messages.
        names: of its programs.
        answer: a regular expression for what its `mpirun` answers to `--version`, in any case.
        modules: of Python that are it, behind `python -m`.
        table: its options.
        start: index of the first word that may be an option.
        operands: what it takes between options and program, as options.
        count: the number of ranks, where no option of `table.ranks` says it.
        no_colon: cause and hint where a `:` stands between programs that it cannot start.
        colon_is_a_word: `:` is no more than an argument of the program.
        words: options and files that start every rank on its host.
        no_binding: options that switch its own CPU binding off.
        bound_by: variables that switch it on.
        forward: the line and variables by which names reach the ranks.
        per_node: options that start one process on every node, given the hosts that are known, and
            whether the process shall see what the job would; None where there are none.
        placing: variables that say where a job's ranks go, which one process per node goes without.
        in_order: options that keep the ranks of a host in order.
        wrap: the launcher's words with which it starts any program, where they are others.
        interpreter: what it puts in front of the program itself.
        ready: raises UsageError where a line cannot be started on this node.
        mounts: the line with which containers of its own see folders.
        ending: options that end the job when a rank ends that others wait for.
        on_one_host: options that keep a job on one host.
        any_host: a line without hosts may start on any: what it is called here says nothing.
        starts_here: it starts processes of its own node alone.
        stays_here: so it does unless its line, a job or one of the variables `host_variables` tells
            of others.
        job_files: variables of schedulers that name a file of the job's hosts, which it reads.
        slurm_places: the variable that says how many ranks a node of a Slurm job takes.
        named_by: the variable by which it calls a node, where that may be another than its host's.
        job_ranks: the variable of a job that says how many ranks a line starts which does not say.
        worlds: what decides whether the ranks are of one world, if more than its version does.
        singletons: what to do where the program's MPI does not know it, and each of its tasks is a
            world of one rank.
        limits_slots: its line says how many ranks a host takes.
        oversubscribes: whether it may start more ranks on a host than it has places there.
        shares_files: whether processes on other nodes read what is written for it.
        local_rank: the variable to be taken for the local rank, where others may be there too.
    """

    kind: str
    names: Words = ()
    answer: str = ""
    modules: Words = ()
    table: OptionTable = OptionTable(arity={})
    start: Callable[[Words], int] = _behind_the_name
    operands: Callable[[Words, Sequence[Option]], list[Option]] | None = None
    count: Callable[[Sequence[Option]], int | None] | None = None
    no_colon: tuple[str, str] = (
        "the line starts several programs (':'), which is not supported for {kind}",
        "start one program per launch line, or put toposeat-exec in front of each by hand",
    )
    colon_is_a_word: bool = False
    words: Callable[[Launch, RankHosts], HostWords] = _no_words
    no_binding: Words = ()
    bound_by: Words = ()
    forward: (
        Callable[[LaunchLine, Sequence[str], Mapping[str, str]], tuple[LaunchLine, dict[str, str]]]
        | None
    ) = None
    per_node: Callable[[Launch, bool], list[str] | None] | None = None
    placing: Words = (*PLACING, "SLURM_TASKS_PER_NODE")
    in_order: Callable[[LaunchLine], Words] | None = None
    wrap: Callable[[LaunchLine], list[str]] | None = None
    ready: Callable[[LaunchLine, Mapping[str, str]], None] | None = None
    mounts: Callable[[LaunchLine, Sequence[Path]], LaunchLine] | None = None
    interpreter: Callable[[LaunchLine], Words] | None = None
    ending: Words = ()
    on_one_host: Words = ()
    any_host: bool = False
    starts_here: bool = False
    stays_here: bool = False
    host_variables: Words = ()
    job_files: Words = ()
    slurm_places: str = "SLURM_TASKS_PER_NODE"
    named_by: str = ""
    job_ranks: str = ""
    worlds: Callable[[LaunchLine, Mapping[str, str]], Words] | None = None
    singletons: str = "start it by the launcher of the program's own MPI"
    limits_slots: bool = False
    oversubscribes: Callable[[LaunchLine, Mapping[str, str]], bool] | None = None
    shares_files: Callable[[LaunchLine, Mapping[str, str]], bool] | None = None
    local_rank: str = ""


# By kind; filled by the package with the launchers of all files.
LAUNCHERS: dict[str, Launcher] = {
    LauncherKind.NONE: Launcher(kind=LauncherKind.NONE, starts_here=True)
}


def read_options(family: Launcher, words: Words, start: int) -> tuple[list[Option], int]:
    """The options from `start` on, and where the program begins.

    Raises:
        UsageError: an option of which it cannot be told how many arguments it takes.
    """
    table = family.table
    options: list[Option] = []
    position = start
    while position < len(words):
        word = words[position]
        if word == "--" and table.ends_options:
            position += 1
            break
        if not word.startswith("-") or word == "-":
            break
        option, used = _read_option(family, words, position)
        options.append(dataclasses.replace(option, words=words[position : position + used]))
        position += used
    return options, position


def value_of(options: Sequence[Option], *names: str) -> str | None:
    """The last argument of the last option that has one of these names."""
    for option in reversed(options):
        if option.name in names and option.values:
            return option.values[-1]
    return None


def _read_option(family: Launcher, words: Words, position: int) -> tuple[Option, int]:
    """The option at `position` and how many words it takes."""
    table = family.table
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
    return _unknown_option(f" ({family.kind})", words, position, body)


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
            return _unknown_option("", words, position, letter)
    if table.arity[letter] == 0:
        return Option(letter, ()), 1
    if rest:
        return Option(letter, (rest.removeprefix("="),)), 1
    return _take_values(table, words, position, letter)


def _unknown_option(
    family: str, words: tuple[str, ...], position: int, body: str
) -> tuple[Option, int]:
    """An option that no table lists, where there is no doubt how many arguments it takes."""
    following = words[position + 1 : position + 3]
    runnable = [shutil.which(word) is not None for word in following]
    if "=" in body or (following and following[0].startswith("-")):
        return Option(body.partition("=")[0], ()), 1
    if runnable == [False, True]:
        return Option(body, following[:1]), 2
    if runnable[:1] == [True] and runnable != [True, True]:
        return Option(body, ()), 1
    raise UsageError(
        f"unknown option {words[position]!r} of {words[0]}{family}: cannot tell where the program"
        " starts",
        hint=f"add it by hand: {words[0]} OPTIONS toposeat-exec -m PLACEMENT ./app",
    )


def version_answer(path: str | Path) -> str:
    """What a launcher answers to `--version`, on either stream.

    Raises:
        OSError: it cannot be started.
        subprocess.TimeoutExpired: it does not answer.
    """
    return _version_answer_as_installed(str(path), Path(path).stat().st_mtime_ns)


@cache
def _version_answer_as_installed(path: str, installed: int) -> str:
    """Asked once per file and time of change: a verb takes its launch line apart several times."""
    del installed
    return subprocess.run(
        [path, "--version"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=_VERSION_TIMEOUT_S,
        check=False,
    ).stdout.decode(errors="replace")


def version_of(program: str) -> tuple[int, ...]:
    """The numbers of the first version in what a launcher answers to `--version`; () if none."""
    path = shutil.which(program)
    try:
        found = _VERSION.search(version_answer(path)) if path else None
    except (OSError, subprocess.TimeoutExpired):
        return ()
    return tuple(int(part) for part in found[1].split(".")) if found else ()


def product(*texts: str | None) -> int | None:
    """The product of decimal numbers, None if one of them is anything else."""
    product = 1
    for text in texts:
        if text is None or not (text.isascii() and text.isdigit()):
            return None
        product *= int(text)
    return product or None
