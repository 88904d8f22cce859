"""Which form a file has: its name says so."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from toposeat.errors import UsageError
from toposeat.model.shell_words import shell_word

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
    """The form that the name of a file says, else the one that `--format` says.

    Args:
        path: of `-o`.
        stated: by `--format`; None: nothing.
        forms: that the verb writes.

    Returns:
        None where neither says one.

    Raises:
        UsageError: name and option contradict each other, or the verb does not write that form.
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
    """Refuse a picture's or a page's name for a file that is none.

    Raises:
        UsageError: saying how to draw it.
    """
    form = None if path is None else _OF_ENDING.get(path.suffix.lower())
    if form not in (None, "json", "text", "nccl"):
        raise UsageError(
            f"{path}: -o writes {what} here, not {form.upper()}",
            hint=f"write it to another file, then: toposeat report FILE -o {shell_word(path)}",
        )


def page_file(name: str) -> Path:
    """Type for argparse: the file of a report page.

    Raises:
        UsageError: its name says another form.
    """
    path = Path(name)
    output_form(path, None, ("html",))
    return path
