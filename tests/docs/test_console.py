"""Every `$` line of the documentation runs and shows what the page says."""

import os
import re
import shutil
from ctypes.util import find_library
from pathlib import Path

import pytest

from tests.docs.console import Step, _matches, run_page, steps_of
from tests.support.mpi import find_mpi

_ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([_ROOT / "README.md", *(_ROOT / "docs").rglob("*.md")])
RUNNABLE = [page for page in PAGES if page.exists() and steps_of(page)]


def case_of(page):
    ranks = any("mpirun" in step.command for step in steps_of(page))
    marks = [pytest.mark.mpi] if ranks else []
    return pytest.param(page, id=str(page.relative_to(_ROOT)), marks=marks)


@pytest.mark.parametrize("page", [case_of(page) for page in RUNNABLE])
def test_page_runs(page, tmp_path):
    mpi = find_mpi("wheel-mpich")
    steps = steps_of(page)
    if isinstance(mpi, str) and any("mpirun" in step.command for step in steps):
        pytest.skip(mpi)
    lends = any("toposeat lend" in step.command for step in steps)
    if lends and (find_library("pocl") is None or shutil.which("clinfo") is None):
        pytest.skip("no PoCL or no clinfo (Debian: pocl-opencl-icd clinfo)")
    run_page(page, tmp_path, os.environ if isinstance(mpi, str) else mpi.env)


def test_pages_with_commands_are_found():
    assert any(page.name == "README.md" for page in RUNNABLE)
    assert any(page.parent.name == "tutorial" for page in RUNNABLE)


def test_ellipsis_matches_any_text_and_nothing_else_does():
    assert _matches("a ... d", "a b\nc d\n")
    assert _matches("a  b", "a b")
    assert not _matches("a b", "a b c")
    assert not _matches("a ... d", "a b c")
    assert _matches("...\nb\n...", "a b c")
    assert not _matches("a b ... b c", "a b c")  # nothing is matched twice
    assert not _matches("\n...\nx\n" * 12 + "y", "x\n" * 5000)  # at once


def test_steps_know_continuations_and_exit_codes(tmp_path):
    page = tmp_path / "p.md"
    page.write_text("x\n```console\n$ echo a \\\n> b  # exit 3\nout\n```\n")
    assert steps_of(page) == [Step(page, 3, "echo a \\\nb", 3, "out")]


def test_every_page_is_in_the_index():
    docs = _ROOT / "docs"
    for_users, for_contributors = docs / "index.md", _ROOT / "CONTRIBUTING.md"
    assert "adr/" not in for_users.read_text()
    indexes = [for_users, for_contributors, docs / "adr" / "README.md"]
    listed = {
        (index.parent / link).resolve()
        for index in indexes
        for link in re.findall(r"\(([^()#\s]+\.md)\)", index.read_text())
    }
    pages = {page for page in PAGES if page.is_relative_to(docs)}
    assert pages - listed - {docs / "index.md"} == set()


def test_tutorials_write_files_of_their_own():
    """So they can be followed one after the other in one folder."""
    written = [
        (name, page.name)
        for page in sorted((_ROOT / "docs" / "tutorial").glob("*.md"))
        for name in {
            name
            for step in steps_of(page)
            for name in re.findall(r"(?:-o|--html|cat >) ([\w./-]+)", step.command)
        }
    ]
    assert len(written) > 8
    assert len({name for name, _ in written}) == len(written), sorted(written)


def test_the_glossary_has_only_words_that_a_page_uses():
    glossary = _ROOT / "docs" / "reference" / "glossary.md"
    pages = [page for page in PAGES if page != glossary and page.parent.name != "adr"]
    text = " ".join(page.read_text() for page in pages).lower()
    rows = re.findall(r"^\| (?!term \|)([^|]*[a-zA-Z][^|]*) \|", glossary.read_text(), re.MULTILINE)
    terms = [re.sub(r" \(.*\)", "", term).lower() for row in rows for term in row.split(", ")]
    assert len(terms) > 100
    unused = [term for term in terms if not re.search(rf"\b{re.escape(term)}", text)]
    assert unused == []
