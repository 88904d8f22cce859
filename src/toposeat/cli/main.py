"""`toposeat VERB ...`: parse, run one verb, turn errors into exit codes."""

from __future__ import annotations

import argparse
import gc
import io
import os
import signal
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn

from toposeat.cli.command import (
    EXIT_FAILED,
    EXIT_MISSING_PROGRAM,
    EXIT_USAGE,
    Command,
    print_error,
    tell,
)
from toposeat.cli.dropped import refuse_dropped
from toposeat.cli.settings import complete, prepare, read_settings
from toposeat.errors import (
    NOT_AS_PLANNED,
    ApplicationError,
    InputError,
    MissingProgramError,
    NotAsPlannedError,
    ToposeatError,
    UsageError,
    did_you_mean,
)
from toposeat.installed import VERSION

# Each is a module of this folder with a class of that name: `map.MapCommand`.
VERBS = (
    "discover",
    "measure",
    "profile",
    "map",
    "run",
    "compare",
    "choose",
    "ask",
    "advise",
    "tune",
    "report",
    "export",
    "doctor",
    "emulate",
    "lend",
    "borrow",
    "demo",
)
_TYPED = (*VERBS, "completion")  # which --help leaves out: the package installs what it prints

_MEMORY_HINT = "check that the files are what they should be; `ulimit -v` and cgroups set the limit"


def main(argv: Sequence[str] | None = None) -> int:
    """Run one verb.

    Returns:
        0 done, 1 failed, 2 usage, 127 program not found; the application's own code for verbs
        that run one.
    """
    words = _asked_for_help(list(sys.argv[1:] if argv is None else argv))
    traced = bool(os.environ.get("TOPOSEAT_TRACEBACK"))
    try:
        _check_verb(words)
        parser = _parser(next(iter(words), ""))
        options, launch = _split_launch(words, parser)
        refuse_dropped(options)
        args = _parse(options, parser)
        command: Command = args.command()
        if launch is not None and not command.wraps:
            raise UsageError(
                f"{command.name} does not run a command", hint=f"leave out `-- {' '.join(launch)}`"
            )
        args.launch = launch
        # OpenBLAS' threads, of no use here, wait for work in busy loops.
        if launch is None and not command.needs_line:
            os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
        return command.run(args)
    except ToposeatError as error:
        if traced:
            raise
        print_error(_with_swap(error, words))
        return exit_code(error)
    except OSError as error:
        if traced:
            raise
        name = "" if error.filename is None else f": {error.filename}"
        cause = f"the operating system refused: {error.strerror or error}{name}"
        print_error(ToposeatError(cause, hint="TOPOSEAT_TRACEBACK=1 shows where"))
        return EXIT_FAILED
    except MemoryError:
        if traced:
            raise
        print_error(ToposeatError("not enough memory for this", hint=_MEMORY_HINT))
        return EXIT_FAILED
    except KeyboardInterrupt:
        return 128 + signal.SIGINT


def _asked_for_help(words: list[str]) -> list[str]:
    """`toposeat`, `toposeat help` and `toposeat help VERB` as `--help` says it."""
    if not words:
        return ["--help"]
    return [*words[1:2], "--help"] if words[0] == "help" else words


def _with_swap(error: ToposeatError, words: list[str]) -> ToposeatError:
    if isinstance(error, UsageError | InputError):
        from toposeat.cli.meant import swapped  # noqa: PLC0415 - errors alone need it

        error.hint = swapped(words) or error.hint
    return error


def _parse(options: list[str], parser: argparse.ArgumentParser) -> argparse.Namespace:
    """Arguments, with what is set where an option is left out."""
    verb = next(iter(options), "")
    if verb not in VERBS:
        return parser.parse_args(options)
    # A job is not kept from starting by what does not concern it.
    settings, said = read_settings(os.environ, forgiving=verb in ("run", "profile"))
    tell(*said)
    prepare(verbs_of(parser)[verb], verb, settings)
    args = parser.parse_args(options)
    complete(args, verb, settings)
    return args


def entry() -> NoReturn:
    """The console script: `main` with streams that take any text, and the exit code in any case."""
    _mend_streams()
    gc.set_threshold(100_000)  # a command ends soon: to look for circles costs it 5 %
    try:
        code = main()
    except ToposeatError as error:  # with TOPOSEAT_TRACEBACK
        import traceback  # noqa: PLC0415

        traceback.print_exc()
        code = exit_code(error)
    gc.freeze()  # what is left goes with the process: looking through it takes as long as to start
    sys.exit(code)


def _mend_streams() -> None:
    """Closed streams write to /dev/null; characters that a stream cannot encode are escaped."""
    nowhere = Path(os.devnull)
    if sys.stdout is None:
        sys.stdout = nowhere.open("w", encoding="utf-8")
    if sys.stderr is None:
        sys.stderr = nowhere.open("w", encoding="utf-8")
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")


def _split_launch(
    words: list[str], parser: argparse.ArgumentParser
) -> tuple[list[str], list[str] | None]:
    """Our own words and the user's line: behind `--`, or from the first word that is none of ours.

    A word that cannot be started is left among ours, to be refused there.
    """
    dashes = words.index("--") if "--" in words else len(words)
    verb = verbs_of(parser).get(next(iter(words), ""))
    if verb is not None and verb.get_default("command").needs_line:
        free = _free_word(words[:dashes], verb)
        if free is not None and _starts_line(words[free], alone=dashes == len(words)):
            return words[:free], words[free:]
        if free is not None and dashes == len(words):
            return words[: free + 1], None
    return words[:dashes], words[dashes + 1 :] if dashes < len(words) else None


def _free_word(words: list[str], verb: argparse.ArgumentParser) -> int | None:
    """The first word behind the verb that is neither an option nor the argument of one."""
    known = verb._option_string_actions
    at = 1
    while at < len(words):
        word = words[at]
        if not word.startswith("-") or word == "-":
            return at
        name = word.partition("=")[0]
        meant = [known[name]] if name in known else []
        if not meant and name.startswith("--"):
            meant = [action for each, action in known.items() if each.startswith(name)]
        if meant and isinstance(meant[0].nargs, str):
            return None  # as many arguments as there are
        at += 1 + bool(meant and meant[0].nargs is None and "=" not in word)
    return None


def _starts_line(word: str, *, alone: bool) -> bool:
    """Whether a line may start with this word; `alone` if no `--` follows that could start one."""
    import shutil  # noqa: PLC0415 - of some verbs alone, as the next

    if shutil.which(word) is not None:
        return True
    from toposeat.launch import launcher_named  # noqa: PLC0415

    return alone and ("/" in word or ("." not in word and bool(launcher_named(word))))


def _check_verb(words: Sequence[str]) -> None:
    """Refuse a first word that is neither a verb nor an option."""
    word = next(iter(words), "")
    if word and not word.startswith("-") and word not in _TYPED:
        refuse_dropped(words)
        from toposeat.cli.meant import verb_meant  # noqa: PLC0415 - errors alone need it

        hint = verb_meant(words, VERBS) or f"one of {', '.join(VERBS)}"
        raise UsageError(f"there is no verb {word!r}", hint=hint)


def exit_code(error: ToposeatError) -> int:
    """The exit code of the process for an error."""
    if isinstance(error, ApplicationError):
        return error.exit_code or EXIT_FAILED
    if isinstance(error, MissingProgramError):
        return EXIT_MISSING_PROGRAM
    if isinstance(error, NotAsPlannedError):
        return NOT_AS_PLANNED
    return EXIT_USAGE if isinstance(error, UsageError) else EXIT_FAILED


def verbs_of(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    """The parser of each verb of a `whole_parser`."""
    actions = (a for a in parser._actions if isinstance(a, argparse._SubParsersAction))
    return dict(next(actions).choices)


def whole_parser() -> argparse.ArgumentParser:
    """The parser with every verb and all its options."""
    return _parser(None)


def _parser(chosen: str | None) -> argparse.ArgumentParser:
    """The parser with the chosen verb; where that is none of ours, with all of them, to list them.

    With None all verbs have their options. A verb's module is imported with its parser, so that no
    verb waits for those of the others.
    """
    parser = _Parser(
        prog="toposeat",
        description="Place MPI ranks on GPUs by their traffic and the connections of the GPUs.",
        epilog="First steps: toposeat demo; toposeat doctor; toposeat tune -- mpirun -n 8 ./app",
    )
    parser.add_argument("-V", "--version", action="version", version=f"toposeat {VERSION}")
    verbs = parser.add_subparsers(metavar="VERB", required=True, parser_class=_Parser)
    if chosen in ("-V", "--version"):
        return parser
    for name in [chosen] if chosen in _TYPED else VERBS:
        module = import_module(f"toposeat.cli.{name}")
        command: type[Command] = getattr(module, f"{name.title()}Command")
        text = (command.__doc__ or "").strip().splitlines()[0].rstrip(".")
        verb = verbs.add_parser(
            name, help=text, description=text + ".", usage=command.usage or None
        )
        verb.add_argument("--json", action="store_true", help="the result as JSON on stdout")
        verb.add_argument("-v", "--verbose", action="store_true", help="say more")
        verb.set_defaults(command=command)
        if chosen in (name, None):
            command().add_arguments(verb)
    return parser


class _Parser(argparse.ArgumentParser):
    """argparse, with errors in the form of all our errors."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(message, hint=f"see: {self.prog} --help")

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """As argparse does; an unknown option of a verb is refused here, with what is near."""
        if " " not in self.prog:
            return super().parse_known_args(args, namespace)
        try:
            found, unknown = super().parse_known_args(args, namespace)
        except UsageError as error:  # a misspelt option leaves out a required one
            if not error.message.startswith("the following arguments are required"):
                raise
            unknown = [word for word in args or () if word.startswith("--") and not self._has(word)]
            if not unknown:
                raise
        if unknown:
            cause = f"unrecognized arguments: {' '.join(unknown)}"
            raise UsageError(cause, hint=self._hint(unknown[0]))
        return found, unknown

    def _has(self, word: str) -> bool:
        """Whether an option is called like this, or begins so."""
        name = word.partition("=")[0]
        return any(each.startswith(name) for each in self._option_string_actions)

    def _hint(self, word: str) -> str:
        """What to do about a word that the verb does not take."""
        from toposeat.cli.meant import place_meant  # noqa: PLC0415 - errors alone need it

        command: type[Command] = self.get_default("command")
        meant = place_meant(
            word,
            self._option_string_actions,
            takes_line=command.wraps,
            needs_line=command.needs_line,
        )
        if not meant and not word.startswith("-") and command.needs_line:
            return f"no program {word!r} is found: load its module, or check the name"
        return meant or f"see: {self.prog} --help"

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        """As argparse does it, with the choice that is near."""
        try:
            super()._check_value(action, value)
        except argparse.ArgumentError as error:
            near = did_you_mean(str(value), map(str, action.choices or ()))
            if not near:
                raise
            name = "/".join(action.option_strings) or action.metavar or action.dest
            raise UsageError(f"{name}: invalid choice {value!r}", hint=near) from error
