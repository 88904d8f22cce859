"""Files that verbs write: their form by their name, and the report page."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from toposeat import report
from toposeat.errors import UsageError
from toposeat.model.files import check_writable
from toposeat.model.shell_words import shell_word

if TYPE_CHECKING:
    from toposeat.report import Section

_OF_ENDING = {
    ".pdf": "pdf",
    ".jpg": "jpeg",
    ".jpeg": "jpeg",
    ".gif": "gif",
    ".webp": "webp",
    ".json": "json",
    ".svg": "svg",
    ".png": "png",
    ".html": "html",
    ".htm": "html",
    ".csv": "csv",
    ".npy": "npy",
    ".txt": "text",
    ".xml": "nccl",
}


def output_form(path: Path | None, stated: str | None, forms: Sequence[str]) -> str | None:
    """The form that the name of a file (`-o`) says, else the one that `--format` says, if any.

    `forms` are those that the verb writes.
    """
    named = None if path is None else _OF_ENDING.get(path.suffix.lower())
    if named is None:
        return stated
    if named not in forms:
        raise UsageError(
            f"{path}: this verb writes no {named.upper()}",
            hint=f"it writes {', '.join(forms)}",
        )
    if stated is not None and stated != named:
        raise UsageError(
            f"--format says {stated}, and {path} is {named} by its name",
            hint="leave --format out, or name the file otherwise",
        )
    return named


def refuse_other_forms(path: Path | None, what: str) -> None:
    """Refuse a picture's or a page's name for a file that is none."""
    form = None if path is None else _OF_ENDING.get(path.suffix.lower())
    if path is not None and form not in (None, "json", "text", "nccl"):
        shown = path if form in ("svg", "html") else path.with_suffix(".svg")
        raise UsageError(
            f"{path}: -o writes {what} here, not {form.upper()}",
            hint=f"write it to another file, then: toposeat report FILE -o {shell_word(shown)}",
        )


def check_output(path: Path | None, what: str, *, overwrite: bool) -> None:
    """Refuse what `-o` cannot write before long work."""
    refuse_other_forms(path, what)
    if path is not None:
        check_writable(path, overwrite=overwrite)


def page_file(name: str) -> Path:
    """Type for argparse: the file of a report page."""
    path = Path(name)
    output_form(path, None, ("html",))
    return path


def page_text(
    sections: Sequence[Section], *, title: str, subtitle: str = "", commands: Sequence[str] = ()
) -> str:
    """The HTML of `sections`, stamped with this host and the present time (UTC)."""
    now = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime())
    return report.html_page(
        sections,
        title=title,
        subtitle=subtitle,
        created=f"{now} on {os.uname().nodename}",
        commands=commands,
    )


def today() -> str:
    """The day (UTC), for drawings."""
    return time.strftime("%Y-%m-%d", time.gmtime())
