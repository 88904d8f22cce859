import os
import re
import sys
from pathlib import Path

from tests.support.processes import ran

_ROOT = Path(__file__).resolve().parents[2]


def test_generated_pages_follow_the_code():
    quick = [] if os.environ.get("TOPOSEAT_TEST_RANDOM") else ["--quick"]
    done = ran([sys.executable, "tools/generate_reference.py", "--check", *quick], cwd=_ROOT)
    assert done.returncode == 0, f"{done.stdout}{done.stderr}run tools/generate_reference.py"


def test_records_that_are_named_exist():
    find = ["git", "grep", "-ohE", "(docs/adr/|ADR |[Rr]ecord )[0-9]{4}"]
    found = ran(find, cwd=_ROOT, check=True)
    records = {path.name[:4] for path in (_ROOT / "docs" / "adr").glob("[0-9]*.md")}
    assert {name[-4:] for name in found.stdout.splitlines()} <= records


def test_pages_stay_few_and_narrow():
    """Prose is read in a terminal as well; tables, commands and generated pages are as they are."""
    pages = [page for page in (_ROOT / "docs").rglob("*.md") if page.parent.name != "adr"]
    assert len(pages) <= 45
    for page in [*pages, _ROOT / "README.md", _ROOT / "CONTRIBUTING.md"]:
        text = page.read_text(encoding="utf-8")
        if text.startswith("<!-- made by"):
            continue
        outside = re.sub(r"^ *```.*?^ *```$", "", text, flags=re.MULTILINE | re.DOTALL)
        prose = [each for each in outside.splitlines() if not each.startswith(("|", "    "))]
        assert max(map(len, prose)) <= 120, page


def test_records_stay_few_and_short():
    """As docs/adr/README.md says: people read them before they change what they are about."""
    records = sorted((_ROOT / "docs" / "adr").glob("[0-9]*.md"))
    assert len(records) <= 25
    for record in records:
        lines = record.read_text(encoding="utf-8").splitlines()
        assert len(lines) <= 60, record
        assert max(map(len, lines)) <= 120, record
