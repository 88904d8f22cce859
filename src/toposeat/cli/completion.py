"""`toposeat completion`: what makes a shell complete verbs, options and files."""

from __future__ import annotations

import argparse

from toposeat.cli.command import Command, print_json, write_result
from toposeat.errors import UnavailableError

SHELLS = ("bash", "zsh", "tcsh", "fish")
_FILES = ("F", "SRC", "TRAFFIC", "PLACE")  # what an option or word takes: a file, or a name


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

    try:
        import shtab  # noqa: PLC0415
    except ImportError as error:
        raise UnavailableError(
            "completions need the Python package shtab", hint="pip install shtab"
        ) from error
    parser = whole_parser()
    for verb in verbs_of(parser).values():
        for action in verb._actions:
            if action.choices is None and action.metavar in _FILES:
                action.complete = shtab.FILE  # type: ignore[attr-defined]
    return str(shtab.complete(parser, shell=shell))
