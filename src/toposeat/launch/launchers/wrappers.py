"""What stands in front of a command: `env`, `numactl`, `uv run`, containers, `bash -c`.

A wrapper starts the command behind its own options. It may stand before a launcher and between a
launcher and its program. Each is read by a table like those of launchers; a site's own are named in
the setting `wrappers`.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
from collections.abc import Iterable, Mapping, Sequence, Set
from functools import cache
from itertools import takewhile
from pathlib import Path

from msgspec import field

from toposeat.errors import UsageError
from toposeat.launch.child import answer_of
from toposeat.launch.launchers.launcher import (
    Launcher,
    Option,
    OptionTable,
    Words,
    arities,
    read_options,
)
from toposeat.model.files import beginning
from toposeat.model.record import Record

VARIABLE = "TOPOSEAT_WRAPPERS"  # the setting `wrappers`
_ASK_S = 120.0  # uv may install what it runs
_MOST_BYTES = 1 << 20
_SHELLS = ("sh", "bash", "dash", "zsh", "ksh")
_REST = 'exec "$0" "$@"'
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=", re.ASCII)
_END_OF_COMMAND = re.compile(r"&&|;|\n")
# What only a shell itself can do.
_OF_SHELL = arities(
    {
        0: """. : alias bg break builtin case cd command continue declare do done elif else esac
        eval exec exit export fg fi for function getopts hash if jobs let local read readonly return
        set shift source then times trap type typeset ulimit umask unalias unset until wait while"""
    }
)
_NOT_PLAIN = re.compile(r"[|&;<>()$`*?\[\]{}~#!\n]")
# What only prepares: a shell that begins so may be asked what a name means behind it.
_PREPARING = re.compile(r"\s*(module|ml|source|\.|export|cd|set|ulimit|conda|spack|[A-Za-z_]\w*=)")
_DOCKER_HINT = "start toposeat inside of it: {name} run ... IMAGE toposeat run mpirun -n 8 ./app"


class Wrapper(Record, frozen=True, kw_only=True):
    """One wrapper.

    Attributes:
        options: its options, apart by blanks, by their number of arguments.
        verbs: a word of these stands behind its own options, and options may follow it.
        operands: words between the options and the command.
        assignments: `NAME=VALUE` may follow the options.
        finds_others: behind it the name of a program may mean another file.
        clears: options that take the environment away.
        single_dash_long: `-name` is an option of several letters.
        bind: the option that shows a folder to a container, and what it is given.
        refused: cause and hint of verbs that cannot be looked through.
    """

    options: Mapping[int, str] = field(default_factory=dict)
    verbs: Words = ()
    operands: int = 0
    assignments: bool = False
    finds_others: bool = False
    clears: frozenset[str] = frozenset()
    single_dash_long: bool = False
    bind: tuple[str, str] | None = None
    refused: Mapping[str, str] = field(default_factory=dict)


_UV = {
    0: """active all-extras all-groups all-packages exact frozen gui-script h help isolated locked m
    managed-python module n native-tls no-active no-build no-cache no-config no-default-groups
    no-dev no-editable no-env-file no-index no-managed-python no-progress no-project
    no-python-downloads no-sources no-sync offline only-dev q quiet refresh reinstall s script U
    upgrade v verbose w with-all""",
    1: """allow-insecure-host C cache-dir color config-file config-setting default-index directory
    env-file exclude-newer extra f find-links group i index index-strategy keyring-provider
    link-mode no-extra no-group only-group P package p prerelease project python python-platform
    refresh-package reinstall-package resolution upgrade-package with with-editable
    with-requirements""",
}
_CONDA = {
    0: "d debug-wrapper-scripts dev h help live-stream no-capture-output q quiet s v verbose y yes",
    1: "a attach cwd e env log-level n name p prefix r rc-file root-prefix",
}
_APPTAINER = {
    0: """C c cleanenv compat contain containall d debug disable-cache e f fakeroot h help i ipc
    keep-privs nvccli no-eval no-home no-https no-init no-privs no-umask nocolor nohttps nv oci
    p pid q quiet rocm s silent sharens u unsquash userns uts v verbose w writable writable-tmpfs
    no-tmp-sandbox""",
    1: """add-caps app apply-cgroups arch authfile B bind blkio-weight blkio-weight-device config
    containlibs cpu-shares cpus cpuset-cpus cpuset-mems cwd dns docker-host drop-caps env env-file
    fusemount H home hostname memory memory-reservation memory-swap mount network network-args
    no-mount o oom-kill-disable overlay pem-path pids-limit pwd S scratch security underlay W
    workdir""",
}
_CONTAINER_RUN = "which program {name} {verb} starts stands in the image"
_DOCKER = Wrapper(
    options={0: "D", 1: "H context"},
    verbs=("exec", "run"),
    refused=dict.fromkeys(("exec", "run"), "toposeat cannot reach into containers of {name}"),
)
_APPTAINERS = Wrapper(
    options=_APPTAINER,
    verbs=("exec", "run"),
    operands=1,
    finds_others=True,
    clears=frozenset({"e", "cleanenv", "C", "containall"}),
    bind=("--bind", "{0}"),
    refused={"run": _CONTAINER_RUN},
)
_CONDAS = Wrapper(options=_CONDA, verbs=("run",), finds_others=True)
_OF_NAME: dict[str, Wrapper] = {
    "env": Wrapper(
        options={
            0: "0 null i ignore-environment v debug",
            1: "u unset C chdir S split-string a argv0",
        },
        assignments=True,
        clears=frozenset({"i", "ignore-environment", "-"}),
    ),
    "nohup": Wrapper(),
    "setsid": Wrapper(options={0: "c ctty f fork w wait"}),
    "time": Wrapper(
        options={0: "a append p portability q quiet v verbose", 1: "f format o output"}
    ),
    "nice": Wrapper(
        options={0: " ".join(map(str, range(20))), 1: "n adjustment"}, single_dash_long=True
    ),
    "ionice": Wrapper(options={0: "t ignore", 1: "c class n classdata"}),
    "chrt": Wrapper(options={0: "a b d f i o r R reset-on-fork v batch fifo rr"}, operands=1),
    "timeout": Wrapper(
        options={0: "foreground f preserve-status p v verbose", 1: "k kill-after s signal"},
        operands=1,
    ),
    "taskset": Wrapper(options={0: "a all-tasks c cpu-list"}, operands=1),
    "numactl": Wrapper(
        options={
            0: "a all b balancing l localalloc",
            1: """C cpunodebind i interleave m membind N P p physcpubind preferred preferred-many w
            weighted-interleave""",
        }
    ),
    "stdbuf": Wrapper(options={1: "e error i input o output"}),
    "uv": Wrapper(options=_UV, verbs=("run",), finds_others=True),
    "pixi": Wrapper(
        options={
            0: "as-is clean-env frozen h help locked no-install no-progress q quiet s "
            "skip-deps v verbose x executable",
            1: "color concurrent-downloads e environment m manifest-path",
        },
        verbs=("run",),
        finds_others=True,
        clears=frozenset({"clean-env"}),
    ),
    "poetry": Wrapper(
        options={
            0: "ansi n no-ansi no-cache no-interaction no-plugins q quiet v vv vvv verbose",
            1: "C directory P project",
        },
        verbs=("run",),
        finds_others=True,
        single_dash_long=True,
    ),
    "pipenv": Wrapper(
        options={0: "q quiet site-packages v verbose", 1: "python pypi-mirror"},
        verbs=("run",),
        finds_others=True,
    ),
    "conda": _CONDAS,
    "mamba": _CONDAS,
    "micromamba": _CONDAS,
    "apptainer": _APPTAINERS,
    "singularity": _APPTAINERS,
    "enroot": Wrapper(
        options={0: "r root w rw", 1: "c conf rc e env m mount"},
        verbs=("start",),
        operands=1,
        finds_others=True,
        bind=("--mount", "{0}:{0}"),
    ),
    "shifter": Wrapper(
        options={
            0: "E clearenv v verbose",
            1: "e entrypoint env env-file i image m module V volume w workdir",
        },
        finds_others=True,
        clears=frozenset({"E", "clearenv"}),
        bind=("--volume", "{0}:{0}"),
    ),
    "docker": _DOCKER,
    "podman": _DOCKER,
}
WRAPPER_NAMES = tuple(_OF_NAME)
_BINDING = ("numactl", "taskset")


class Command(Record, frozen=True, kw_only=True):
    """A command taken apart at its wrappers.

    Attributes:
        words: what does the same, in which texts of shells are words.
        before: the wrappers with their own words; empty of a command without.
        program: what they start.
        through: those of `before` behind which the name of a program may mean another file.
        seat: how many of `words` stand outside of the innermost container.
        bound_by: wrappers that bind processes to CPUs or memory.
        binds: where in `words` a container's options may stand, their name and form.
    """

    words: Words
    before: Words
    program: Words
    through: Words = ()
    seat: int = 0
    bound_by: Words = ()
    binds: tuple[tuple[int, str, str], ...] = ()

    @property
    def contained(self) -> bool:
        """Whether the program is in a container."""
        return bool(self.binds)

    def showing(self, words: Sequence[str], folders: Iterable[Path]) -> list[str]:
        """The first of the command's words, with these folders shown to every container."""
        shown, outer = list(words), _outer(folders)
        for at, option, form in reversed(self.binds):
            shown[at:at] = [f"{option}={form.format(folder)}" for folder in outer]
        return shown

    def seated(self, exec_args: Sequence[str], folders: Iterable[Path]) -> list[str]:
        """The command with toposeat-exec where it can be reached: inside of its containers."""
        own = [*exec_args, "--"] if exec_args else []
        return [*self.showing(self.words[: self.seat], folders), *own, *self.words[self.seat :]]

    def which(self, environment: Mapping[str, str], through: Words = ()) -> Path | None:
        """Where the program is on this node; None where it is nowhere, or in a container."""
        if self.contained:
            return None
        outer = (*through, *self.through)
        if not outer:
            found = shutil.which(self.program[0], path=environment.get("PATH"))
        else:
            found = name_behind(outer, self.program[0])
        return Path(found) if found and Path(found).exists() else None


def unwrapped(words: Words) -> Command:
    """What a command starts in the end."""
    before: Words = ()
    through: Words = ()
    bound_by: Words = ()
    binds: list[tuple[int, str, str]] = []
    seat, at, program = 0, 0, words
    while program:
        name = Path(program[0]).name
        if name in _SHELLS:
            plain = _plain(program)
            if plain is None:
                break
            own, program = plain
            words = (*words[:at], *own, *program)
            at += len(own)
            if _changes_names(own):
                through = (*through, *own)
            before = (*before, *own)
            continue
        if name == "env" and (spread := _spread(program)) is not None:
            words, program = (*words[:at], *spread), spread
            continue
        step = _step(name, program)
        if step is None:
            break
        if step.wrapper.bind is not None:
            binds.append((at + step.opening, *step.wrapper.bind))
            seat = at + step.length
        sets_path = step.wrapper.assignments and any(w.startswith("PATH=") for w in step.own)
        if step.wrapper.finds_others or sets_path:
            through = (*through, *step.own)
        if name in _BINDING:
            bound_by = (*bound_by, name)
        at += step.length
        before, program = (*before, *step.own), step.rest
    return Command(
        words=words,
        before=before,
        program=program,
        through=through,
        seat=seat,
        bound_by=bound_by,
        binds=tuple(binds),
    )


def own_wrappers(environment: Mapping[str, str] = os.environ) -> dict[str, Wrapper]:
    """The user's own: `NAME`, or `NAME=N` with N words between its options and the command."""
    found = {}
    for word in re.split(r"[\s,]+", environment.get(VARIABLE, "")):
        name, _, operands = word.partition("=")
        if operands and not (operands.isascii() and operands.isdigit()):
            raise UsageError(
                f"{VARIABLE}: {word!r} is no wrapper", hint="NAME, or NAME=N with N words behind it"
            )
        if name:
            found[name] = Wrapper(operands=int(operands or 0), finds_others=True)
    return found


class _Step(Record, frozen=True, kw_only=True):
    """One wrapper of a command: its number of words, what to write for them, and the rest."""

    wrapper: Wrapper
    length: int
    own: Words
    rest: Words
    opening: int  # where its options may begin


_ALONE = frozenset({"chrt", "env", "ionice", "nice", "numactl", "prlimit", "taskset"})


def _alone(name: str, words: Words) -> None:
    """Nothing stands behind it: it is the program where it says something then."""
    if name not in _ALONE:
        raise UsageError(
            f"{name} has nothing to start", hint=f"for example: {shlex.join(words)} ./app"
        )


def _step(name: str, words: Words) -> _Step | None:
    of_user = own_wrappers().get(name)
    wrapper = of_user or _OF_NAME.get(name)
    if wrapper is None:
        return None
    options, at = _options(name, wrapper, words, 1)
    opening = at
    if wrapper.verbs:
        verb = words[at] if at < len(words) else ""
        if verb not in wrapper.verbs:
            return None
        if verb in wrapper.refused:
            hint = _DOCKER_HINT if wrapper is _DOCKER else "name it: {name} exec IMAGE PROGRAM"
            raise UsageError(
                wrapper.refused[verb].format(name=name, verb=verb), hint=hint.format(name=name)
            )
        opening = at + 1
        more, at = _options(name, wrapper, words, opening)
        options += more
    elif wrapper.bind is not None:
        opening = 1
    clearing = [option.words[0] for option in options if option.name in wrapper.clears]
    if wrapper.assignments and words[at : at + 1] == ("-",):
        clearing.append("-")
    if clearing:
        raise UsageError(
            f"{name} {clearing[0]} takes away the variables by which ranks find their seats",
            hint=f"leave {clearing[0]} out; single variables are removed by: env -u NAME",
        )
    names = {option.name for option in options}
    at += wrapper.operands
    at += wrapper.operands > 0 and words[at : at + 1] == ("--",)  # timeout 9 -- ./app
    if of_user is not None and of_user.operands:  # nsys profile --output=out ./app
        _, at = _options(name, wrapper, words, at)
    while wrapper.assignments and at < len(words) and _ASSIGNMENT.match(words[at]):
        at += 1
    if at >= len(words):
        _alone(name, words)
        return None
    own, rest = words[:at], words[at:]
    if name == "uv":
        own, rest = _of_uv(own, rest, names)
    return _Step(wrapper=wrapper, length=at, own=own, rest=rest, opening=opening)


def _options(name: str, wrapper: Wrapper, words: Words, start: int) -> tuple[list[Option], int]:
    table = OptionTable(
        arity=arities(wrapper.options),
        attached=True,
        single_dash_long=wrapper.single_dash_long,
    )
    try:
        return read_options(Launcher(kind=name, table=table), words, start)
    except UsageError as error:
        raise UsageError(
            error.message, hint=f"put it in front of toposeat: {name} OPTIONS toposeat run ./app"
        ) from error


def _of_uv(own: Words, rest: Words, names: Set[str]) -> tuple[Words, Words]:
    """`uv run train.py` and `uv run -m train` start Python."""
    if names & {"m", "module"}:
        return tuple(w for w in own if w not in ("-m", "--module")), ("python", "-m", *rest)
    if names & {"s", "script"} or rest[0].endswith(".py"):
        return tuple(w for w in own if w not in ("-s", "--script")), ("python", *rest)
    return own, rest


def _spread(words: Words) -> Words | None:
    """`env -S 'A=1 ./app'` with the words of its text; None without `-S`."""
    at = next((i for i, w in enumerate(words) if w.startswith(("-S", "--split-string"))), None)
    if at is None or any(not word.startswith("-") for word in words[1:at]):
        return None
    attached = words[at].removeprefix("-S").removeprefix("--split-string").removeprefix("=")
    text, behind = (attached, at + 1) if attached else ("".join(words[at + 1 : at + 2]), at + 2)
    return (*words[:at], *shlex.split(text), *words[behind:])


def _plain(words: Words) -> tuple[Words, Words] | None:
    """`bash -c 'prepare && command'` as the shell, which does what is before it, and the command.

    None for scripts, and for texts of which the last command is not a plain one.
    """
    at = next((i for i, word in enumerate(words) if re.fullmatch("-[a-z]*c[a-z]*", word)), None)
    if at is None or not all(word.startswith("-") for word in words[1:at]) or len(words) < at + 2:
        return None
    if len(words) > at + 2:  # other texts take words of their own wherever they like
        is_ours = words[at + 1].endswith(_REST)
        return (words[: at + 2], words[at + 2 :]) if is_ours else None
    text = words[at + 1].rstrip("; \n")
    end = max((match.end() for match in _END_OF_COMMAND.finditer(text)), default=0)
    head, tail = text[:end], text[end:]
    try:
        plain = shlex.split(tail)
        shlex.split(head)
    except ValueError:  # the end is within quotes
        return None
    if not plain or _NOT_PLAIN.search(re.sub("'[^']*'", "", tail)):
        return None
    named = [*takewhile(_ASSIGNMENT.match, plain)]
    plain = plain[len(named) :]
    if plain[:1] == ["exec"]:
        plain = plain[1:]
    if not plain or plain[0] in _OF_SHELL or plain[0].startswith("-"):
        return None
    program = (*(("env", *named) if named else ()), *plain)
    return (*words[: at + 1], f"{head} {_REST}".strip()), program


def script_in(command: Command, found: Path | None) -> str:
    """The script of a shell that a command starts, which may do anything; "" if none.

    `found` is the program's file. Nobody looks into the script.
    """
    name, *behind = command.program
    if Path(name).name in _SHELLS:
        return behind[0] if behind and not behind[0].startswith("-") else name
    return name if _is_shell_script(found) else ""


def _is_shell_script(found: Path | None) -> bool:
    first = b"" if found is None else beginning(found, 128).partition(b"\n")[0]
    return first.startswith(b"#!") and Path(os.fsdecode(first).split()[-1]).name in _SHELLS


def shell_text(program: Words, found: Path | None) -> str:
    """What a shell is to do: the text behind `-c`, or the script; "" of any other program.

    `found` is the program's file.
    """
    script = found
    if Path(program[0]).name in _SHELLS:
        behind = [word for word in program[1:] if not word.startswith("-")]
        if any(re.fullmatch("-[a-z]*c[a-z]*", word) for word in program[1:2]):
            return behind[0] if behind else ""
        script = Path(behind[0]) if behind else None
    elif not _is_shell_script(found):
        return ""
    if script is None or not script.is_file():
        return ""
    return beginning(script, _MOST_BYTES).decode(errors="replace")


def _changes_names(shell: Words) -> bool:
    """Whether names may mean others behind a shell that may be asked: it does no more than that."""
    head = shell[-1].removesuffix(_REST)
    parts = [part for part in _END_OF_COMMAND.split(head) if part.strip()]
    is_login = any(word == "--login" or re.fullmatch("-[a-z]*[li][a-z]*", word) for word in shell)
    return bool(parts or is_login) and all(map(_PREPARING.match, parts))


def _outer(folders: Iterable[Path]) -> list[Path]:
    """These without those that lie in others of them."""
    own = list(dict.fromkeys(folders))
    return [each for each in own if not any(other in each.parents for other in own)]


def name_behind(through: Words, name: str) -> str:
    """The file that a name of a program means behind these wrappers; "" if none."""
    return answer_behind(through, 'command -v "$0"', name).strip()


@cache
def answer_behind(through: Words, script: str, *words: str) -> str:
    """What a shell script behind these wrappers prints; "" if it fails."""
    return answer_of([*through, "sh", "-c", script, *words], _ASK_S)
