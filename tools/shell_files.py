"""The man page and the completions, made of the parser where the package is installed.

Usage: shell_files.py FOLDER, which then holds what `share` of an installation gets. Python's own
library, shtab and msgspec suffice: nothing of toposeat needs to be compiled or installed.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path

_ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(_ROOT / "src"))

from toposeat.cli.completion import completion  # noqa: E402
from toposeat.cli.main import verbs_of, whole_parser  # noqa: E402
from toposeat.installed import VERSION  # noqa: E402

_COMPLETIONS = {
    "bash": "bash-completion/completions/toposeat",
    "zsh": "zsh/site-functions/_toposeat",
    "fish": "fish/vendor_completions.d/toposeat.fish",
}
_WIDTH = 10_000  # of help: `man` folds it


def write_shell_files(folder: Path) -> None:
    """One file per shell, and the man page."""
    texts = {name: completion(shell) for shell, name in _COMPLETIONS.items()}
    texts["man/man1/toposeat.1"] = "\n".join(man_page()) + "\n"
    for name, text in texts.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def man_page() -> Iterator[str]:
    """Lines of roff: what the parser says, then packaging/manual.txt."""
    os.environ["COLUMNS"] = "78"  # of lines of usage, as they stand in the page
    parser = whole_parser()
    yield f'.TH TOPOSEAT 1 "" "toposeat {VERSION}" "toposeat manual"'
    yield ".SH NAME\ntoposeat \\- choose which MPI rank uses which GPU"
    yield ".SH SYNOPSIS\n.B toposeat\nVERB ..."
    yield f".SH DESCRIPTION\n{_roff(parser.description)}\n.SH VERBS"
    for verb in verbs_of(parser).values():
        formatter = argparse.HelpFormatter(verb.prog, width=_WIDTH)
        yield f".SS {_roff(verb.prog)}\n{_roff(verb.description)}\n.PP"
        yield f".nf\n{_roff(verb.format_usage().strip())}\n.fi"
        for action in verb._actions:
            if action.help is argparse.SUPPRESS or action.dest == "help":
                continue
            yield f".TP\n.B {_roff(formatter._format_action_invocation(action))}"
            yield _roff(" ".join(formatter._expand_help(action).split()) if action.help else "")
    yield (_ROOT / "packaging" / "manual.txt").read_text().rstrip()


def _roff(text: str | None) -> str:
    """The text as it is: no character of it is roff's, nor a line a request."""
    plain = (text or "").replace("\\", "\\e").replace("-", "\\-")
    return re.sub(r"^(?=[.'])", r"\\&", plain, flags=re.MULTILINE)


if __name__ == "__main__":
    write_shell_files(Path(sys.argv[1]))
