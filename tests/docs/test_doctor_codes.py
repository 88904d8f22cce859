"""The page of findings lists exactly the codes that doctor has rows for."""

import re
from pathlib import Path

from toposeat.topology.health.findings import rows

_ROOT = Path(__file__).resolve().parents[2]


def test_every_code_is_documented():
    page = (_ROOT / "docs" / "reference" / "doctor.md").read_text()
    cells = [line.split("|")[1] for line in page.splitlines() if line.startswith("| `")]
    documented = {code for row in cells for code in re.findall(r"`([a-z-]+)`", row)}
    assert documented == {row.split()[0] for row in rows()}
