"""Every Python session of the documentation (fenced as pycon) runs and shows what the page says."""

import doctest
import re
from pathlib import Path

import pytest

import toposeat

_ROOT = Path(__file__).resolve().parents[2]
_FENCE = re.compile(r"^```pycon\n(.*?)^```", re.DOTALL | re.MULTILINE)
_PAGES = sorted([_ROOT / "README.md", *(_ROOT / "docs").rglob("*.md")])
SESSIONS = {
    str(page.relative_to(_ROOT)): "\n".join(_FENCE.findall(page.read_text())) for page in _PAGES
}
WITH_SESSIONS = [name for name, text in SESSIONS.items() if text]
_FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE | doctest.IGNORE_EXCEPTION_DETAIL


@pytest.mark.parametrize("page", WITH_SESSIONS)
def test_a_session_runs(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    session = doctest.DocTestParser().get_doctest(SESSIONS[page], {}, page, page, 0)
    said = []
    runner = doctest.DocTestRunner(optionflags=_FLAGS)
    outcome = runner.run(session, out=said.append)
    assert outcome.attempted > 3
    assert not outcome.failed, "".join(said)


def test_the_page_names_the_whole_interface():
    text = (_ROOT / "docs/reference/python.md").read_text()
    assert all(f"`{name}" in text for name in toposeat.__all__)
