"""The page of findings lists exactly the codes that the source yields."""

from __future__ import annotations

import re
from pathlib import Path

from toposeat.topology.health.findings import rows

_ROOT = Path(__file__).resolve().parents[2]
_SOURCES = ("topology/health/*.py", "topology/live/peer_paths.py", "cli/doctor*.py")


def test_every_code_is_documented() -> None:
    files = [p for s in _SOURCES for p in (_ROOT / "src" / "toposeat").glob(s)]
    text = "\n".join(path.read_text() for path in files)
    used = {row.split()[0] for row in rows()} | set(re.findall(r'code="([a-z-]+)"', text))
    used |= set(re.findall(r'_finding\(\s*Severity\.\w+,\s*"([a-z-]+)"', text))
    used |= set(re.findall(r'code = "([a-z-]+)" if .* else "([a-z-]+)"', text)[0])
    page = (_ROOT / "docs" / "reference" / "doctor.md").read_text()
    cells = [line.split("|")[1] for line in page.splitlines() if line.startswith("| `")]
    assert {code for row in cells for code in re.findall(r"`([a-z-]+)`", row)} == used
