"""Files that verbs write: their form by their name, the report page, PNG by what is installed."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from toposeat import report
from toposeat.errors import ToposeatError, UnavailableError, UsageError
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
    if form not in (None, "json", "text", "nccl"):
        raise UsageError(
            f"{path}: -o writes {what} here, not {form.upper()}",
            hint=f"write it to another file, then: toposeat report FILE -o {shell_word(path)}",
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


_ZOOM = "2"  # times the drawing's own size: sharp on screens of today
_TIMEOUT_S = 60
_PNG = b"\x89PNG\r\n\x1a\n"
_VARIABLE = re.compile(r"--([\w-]+):\s*([^;}]+)")
_USE = re.compile(r"var\(--([\w-]+)\)")
_STYLE = re.compile(r"(<style>)(.*?)(</style>)", re.DOTALL)
_ROOT = re.compile(r":root[^{]*\{([^}]*)\}")
_DARK = re.compile(
    r"@media screen and \(prefers-color-scheme: dark\) \{\s*:root[^{]*\{[^}]*\}\s*\}"
)

# Each reads SVG from stdin and writes PNG to stdout.
CONVERTERS: dict[str, tuple[str, ...]] = {
    "rsvg-convert": ("--format=png", "--zoom", _ZOOM),
    "cairosvg": ("-", "-f", "png", "-s", _ZOOM),
    "inkscape": ("--pipe", "--export-type=png", "--export-dpi=192", "--export-filename=-"),
}


def png_of_svg(svg: str) -> bytes:
    """The picture, a drawing of ours, as PNG."""
    import shutil  # noqa: PLC0415 - 8 ms: few ask for a PNG

    for name, options in CONVERTERS.items():
        program = shutil.which(name)
        if program is not None:
            return _convert([program, *options], plain_svg(svg))
    raise UnavailableError(
        f"a PNG needs a converter: none of {', '.join(CONVERTERS)} is on PATH",
        hint="install librsvg (Debian: apt install librsvg2-bin), or pip install cairosvg,"
        " or use --format svg",
    )


def _convert(command: list[str], svg: str) -> bytes:
    import subprocess  # noqa: PLC0415 - likewise

    try:
        done = subprocess.run(
            command,
            input=svg.encode("utf-8", "replace"),
            capture_output=True,
            timeout=_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ToposeatError(f"{command[0]}: {error}", hint="use --format svg") from error
    if done.returncode != 0 or not done.stdout.startswith(_PNG):
        cause = done.stderr.decode("utf-8", "replace").strip().partition("\n")[0]
        raise ToposeatError(
            f"{command[0]} made no PNG: {cause or f'exit code {done.returncode}'}",
            hint="use --format svg",
        )
    return done.stdout


def plain_svg(svg: str) -> str:
    """The drawing in light colours, without CSS variables, which no converter knows."""
    return _STYLE.sub(lambda found: found[1] + _resolved(found[2]) + found[3], svg)


def _resolved(css: str) -> str:
    css = _DARK.sub("", css)
    values: dict[str, str] = {}
    for block in _ROOT.findall(css):
        values.update({name: value.strip() for name, value in _VARIABLE.findall(block)})
    return _USE.sub(lambda use: values.get(use[1], "none"), _ROOT.sub("", css))
