"""Whether every part of the house is within its number of lines: it only falls.

Run: python tools/lines.py [ROOT]

`tools/lines.txt` has the most lines of each package of `src`, of each native part and of the tests.
A part that is larger fails, and so does one that has become smaller by 2 % and 50 lines, whose
number should follow. Lines are those of files; ruff and clang-format hold their length.
"""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

TABLE = "tools/lines.txt"
SOURCES = ("*.py", "*.c", "*.cpp", "*.h", "*.hpp")
NOT_COUNTED = frozenset({"benchmarks", "docs", "examples", "packaging", "tools"})
SLACK_LINES, SLACK_SHARE = 50, 0.02


def part_of(file: str) -> str:
    """The part that a file belongs to."""
    folders = Path(file).parts[:-1]
    if folders[0] != "tests" and "tests" in folders:
        return "native tests"
    return "/".join(folders[: 3 if folders[0] == "src" else 1])


def count(root: Path) -> Counter[str]:
    """Lines of each part: of files that git knows, or would take."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "--", *SOURCES],
        cwd=root, check=True, capture_output=True, text=True,
    )  # fmt: skip
    lines: Counter[str] = Counter()
    for file in set(listed.stdout.splitlines()):
        if file.partition("/")[0] not in NOT_COUNTED and (root / file).is_file():
            lines[part_of(file)] += (root / file).read_bytes().count(b"\n")
    return lines


def most_lines(table: str) -> dict[str, int]:
    """The numbers of the table; reasons stand behind #."""
    rows = (line.partition("#")[0].rsplit(maxsplit=1) for line in table.splitlines())
    return {part.strip(): int(number) for part, number in filter(None, rows)}


def complaints(lines: Mapping[str, int], most: Mapping[str, int]) -> Iterator[str]:
    """What is wrong, a line each."""
    for part in sorted({*lines, *most}):
        has, may = lines.get(part, 0), most.get(part)
        if may is None:
            yield f"{part} has {has} lines and no number: give it one in {TABLE}"
        elif has > may:
            yield (
                f"{part} has {has} lines, {has - may} more than its {may}: delete as many, or raise"
                f" the number in {TABLE} with the reason and whom it serves"
            )
        elif may - has > max(SLACK_LINES, SLACK_SHARE * may) or not has:
            yield f"{part} has {has} lines, {may - has} fewer than its {may}: lower it in {TABLE}"


def main() -> int:
    root = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
    most = most_lines((root / TABLE).read_text(encoding="utf-8"))
    found = list(complaints(count(root), most))
    for line in found:
        print(line, file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
