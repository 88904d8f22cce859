"""The site of `make docs`, by Sphinx: these pages as they are, with what their commands draw.

- index.md is the navigation too: the links below each of its headings are one part of it.
- Where a page shows a command that writes a picture or a page (`x.svg`, `x.html`), the commands of
  that page are run, and the site shows below the command what it wrote.
- Decision records can be read, but neither navigation nor search lists them.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from html import escape
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from sphinx.errors import SphinxError

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.docs.console import FENCE, run_page, steps_of
from tests.support.mpi import find_mpi

project = "toposeat"
html_title = "toposeat"
extensions = ["myst_parser"]
myst_heading_anchors = 4
highlight_language = "text"
html_theme = "furo"
html_copy_source = False
html_show_sphinx = False
html_show_copyright = False
html_theme_options = {"source_view_link": ""}

_HEADING = re.compile(r"^## (.+)$", re.MULTILINE)
_LINK = re.compile(r"\]\(([\w/-]+)\.md\)")
_SHOWN = {
    ".svg": '\n\n<p><a href="{0}"><img src="{0}" alt="{1}"></a></p>',
    ".html": '\n\n<p><a href="{0}">Open this page</a></p>'
    '<iframe src="{0}" title="{1}" loading="lazy" style="width: 100%; height: 34rem"></iframe>',
}
_WRITTEN = re.compile(r"(?:-o|--html) (\S+\.(?:svg|html))")


def _written(command: str) -> list[str]:
    return _WRITTEN.findall(command) if command.startswith("toposeat ") else []


def run_commands(app: Any) -> None:
    """Run the pages that write something to be shown; keep what they write in the site."""
    if not app.config.run_pages:
        return
    mpi = find_mpi("wheel-mpich")
    for page in sorted(Path(app.srcdir).rglob("*.md")):
        names = [name for step in steps_of(page) for name in _written(step.command)]
        if not names:
            continue
        into = Path(app.outdir) / "made" / page.relative_to(app.srcdir).with_suffix("")
        into.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory() as scratch:
            try:
                run_page(page, Path(scratch), os.environ if isinstance(mpi, str) else mpi.env)
            except AssertionError as problem:
                raise SphinxError(str(problem)) from problem
            for name in names:
                shutil.copy(Path(scratch) / name, into / name)


def change_source(_app: Any, name: str, source: list[str]) -> None:
    """Add navigation, pictures and what keeps decision records apart."""
    if name == "index":
        source[0] += _navigation(source[0])
    if name.startswith("adr/"):
        source[0] = f"---\norphan: true\nnosearch: true\n---\n{source[0]}"
    source[0] = FENCE.sub(lambda block: block[0] + _shown(name, block[1]), source[0])


def _navigation(index: str) -> str:
    """A tree of pages for each heading; a page belongs to the first that links to it."""
    parts, listed = [], set()
    _, *sections = _HEADING.split(index)
    for heading, text in zip(sections[::2], sections[1::2], strict=True):
        pages = [page for page in dict.fromkeys(_LINK.findall(text)) if page not in listed]
        listed |= set(pages)
        if pages:
            parts += ["", "```{toctree}", ":hidden:", f":caption: {heading}", *pages, "```", ""]
    return "\n".join(parts)


def _shown(name: str, block: str) -> str:
    """What the commands of a block wrote."""
    to_top = "../" * name.count("/")
    lines = []
    for command in re.findall(r"^\$ (.+)$", block, re.MULTILINE):
        for file in _written(command):
            what = f"what {escape(command)} wrote"
            lines.append(_SHOWN[Path(file).suffix].format(f"{to_top}made/{name}/{file}", what))
    return "".join(lines)


def setup(app: Any) -> None:
    """Called by Sphinx."""
    app.add_config_value("run_pages", True, "env", bool)
    app.connect("builder-inited", run_commands)
    app.connect("source-read", change_source)
