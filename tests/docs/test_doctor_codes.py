"""The page of findings lists exactly the codes that doctor has rows for."""

import re
from pathlib import Path

_ROOT = Path(__file__).resolve().parents[2]


def test_every_code_is_documented():
    page = (_ROOT / "docs" / "reference" / "doctor.md").read_text()
    cells = [line.split("|")[1] for line in page.splitlines() if line.startswith("| `")]
    documented = {code for row in cells for code in re.findall(r"`([a-z-]+)`", row)}
    table = (_ROOT / "src/toposeat/topology/health/findings.tsv").read_text("utf-8")
    assert documented == {row.split()[0] for row in table.splitlines()[1:]}
