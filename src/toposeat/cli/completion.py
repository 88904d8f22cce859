"""`toposeat completion`: what makes a shell complete verbs, options and files."""

from __future__ import annotations

import argparse
import re

from toposeat.cli.command import Command, print_json, write_result
from toposeat.errors import UnavailableError

SHELLS = ("bash", "zsh", "tcsh", "fish")
# What an option or word takes: a file; a file or the name of a machine.
_FILES = ("F", "TRAFFIC", "PLACE")
_MACHINE = "SRC"
# Where the first clause of a help text ends; a default alone says nothing of the option.
_WHOLE = re.compile(r"(?<!default)[;:] |(?<!\.)\. | \(")
_MACHINES = {
    "bash": "_toposeat_machines() { compgen -W 'NAMES' -- $1; _shtab_compgen_files $1; }",
    "zsh": "_toposeat_machines() { _alternative 'machines:machine:(NAMES)' 'files:file:_files'; }",
    "fish": "function _toposeat_machines; string split ' ' -- 'NAMES'; "
    "__fish_complete_path (commandline -ct); end",
}


class CompletionCommand(Command):
    """Print what makes a shell complete toposeat's verbs and options."""

    name = "completion"

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare this verb's options."""
        parser.add_argument("shell", metavar="SHELL", choices=SHELLS, help=", ".join(SHELLS))

    def run(self, args: argparse.Namespace) -> int:
        """Print it."""
        text = completion(args.shell)
        if args.json:
            print_json({"schema": "toposeat/completion/1", "shell": args.shell, "text": text})
        else:
            write_result(text)
        return 0


def completion(shell: str) -> str:
    """What makes this shell complete, made of the parsers of all verbs."""
    from toposeat.cli.main import verbs_of, whole_parser  # noqa: PLC0415
    from toposeat.topology import catalogue_names  # noqa: PLC0415

    try:
        import shtab  # noqa: PLC0415
    except ImportError as error:
        raise UnavailableError(
            "completions need the Python package shtab", hint="pip install shtab"
        ) from error
    parser = whole_parser()
    called = {**shtab.FILE, **dict.fromkeys(_MACHINES, "_toposeat_machines")}
    called["fish"] = "(_toposeat_machines)"
    for verb in verbs_of(parser).values():
        for action in verb._actions:
            if action.choices is None and action.metavar in (*_FILES, _MACHINE):
                completed = called if action.metavar == _MACHINE else shtab.FILE
                action.complete = completed  # type: ignore[attr-defined]
            # A shell shows one line beside each word, and a list of values says nothing beside one.
            said = _WHOLE.split(action.help or "", maxsplit=1)[0]
            action.help = "" if said in (action.choices or ()) else said
    names = " ".join(["this", *catalogue_names()])
    preamble = _MACHINES.get(shell, "").replace("NAMES", names)
    return str(shtab.complete(parser, shell=shell, preamble=preamble))
