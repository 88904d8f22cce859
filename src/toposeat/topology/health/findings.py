"""What a finding says: how bad it is, the sentence, and what to do, a row of `findings.tsv` each.

A row `CODE STATE` is for a state of the same finding that is worse, or needs another answer.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

from toposeat.model.health import Finding, Severity


@cache
def rows() -> dict[str, tuple[Severity, str, str]]:
    """How bad each is, its sentence, and what to do."""
    _, *lines = Path(__file__).with_name("findings.tsv").read_text("utf-8").splitlines()
    cells = (line.removesuffix("\t-").split("\t") for line in lines)
    return {row: (Severity(bad), detail, "".join(hint)) for row, bad, detail, *hint in cells}


def finding(row: str, subject: str = "", **values: object) -> Finding:
    """The finding of a row, with its values in the sentence and in what to do."""
    severity, detail, hint = rows()[row]
    return Finding(
        severity=severity,
        code=row.split(maxsplit=1)[0],
        subject=subject,
        detail=detail.format(**values),
        hint=hint.format(**values),
    )
