"""The site of `make docs`: every page, no dead link, nothing from the network.

Its pictures come from commands that test_console runs; here they are left out.
"""

import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("sphinx", reason="Sphinx is not installed (make setup-docs)")
pytest.importorskip("furo", reason="Furo is not installed (make setup-docs)")

_DOCS = Path(__file__).resolve().parents[2] / "docs"
_PAGES = {str(page.relative_to(_DOCS).with_suffix("")) for page in _DOCS.rglob("*.md")}
_RECORDS = {page for page in _PAGES if page.startswith("adr/")}
_LINK = re.compile(r'(?:href|src)="([^"]+)"')


def build(pages, site):
    options = ["-b", "html", "-q", "-W", "--keep-going", "-D", "run_pages=0"]
    command = [sys.executable, "-m", "sphinx", *options, "-c", _DOCS, "-d", site / ".cache"]
    return subprocess.run([*command, pages, site], capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    site = tmp_path_factory.mktemp("site")
    done = build(_DOCS, site)
    assert done.returncode == 0, done.stderr
    return site


def test_navigation_lists_every_page_and_no_decision_record(site):
    start = (site / "index.html").read_text()
    navigation = start[start.index("sidebar-tree") : start.index("</aside>")]
    listed = {link.removesuffix(".html") for link in _LINK.findall(navigation)}
    assert listed - {"#"} == _PAGES - _RECORDS - {"index"}
    assert all((site / f"{page}.html").exists() for page in _PAGES)


def test_links_lead_to_files_and_nothing_is_loaded_from_elsewhere(site):
    for page in site.rglob("*.html"):
        text = page.read_text()
        for target in (link.partition("#")[0].partition("?")[0] for link in _LINK.findall(text)):
            if not target or re.match(r"https?:|data:", target):
                continue
            if "made/" in target:  # by a command of this page
                made = site / "made" / page.relative_to(site).with_suffix("")
                assert (page.parent / target).resolve().parent == made
            else:
                assert (page.parent / target).exists(), f"{page}: {target}"
        loaded = re.findall(r'<(?:script|img|link|iframe)\b[^>]*(?:src|href)="(?:https?:)?//', text)
        assert not loaded
    styles = "".join(style.read_text() for style in site.rglob("*.css"))
    assert not re.search(r"(?:url\(|@import )['\"]?(?:https?:)?//", styles)


def test_dead_links_fail(tmp_path):
    pages = tmp_path / "pages"
    pages.mkdir()
    links = "".join(f"- [a]({to})\n" for to in ("other.md", "gone.md", "other.md#none", "#lost"))
    (pages / "index.md").write_text(f"# A\n\n## Part\n{links}")
    (pages / "other.md").write_text("# B\n\n## Part\n")
    done = build(pages, tmp_path / "site")
    assert done.returncode == 1
    missed = re.findall(r"'(\w+)(?:\.md)?' \[myst\.xref_missing\]", done.stderr)
    assert missed == ["gone", "none", "lost"]
