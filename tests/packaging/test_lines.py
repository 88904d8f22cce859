"""The number of lines of each part only falls: what tools/lines.py says, and of which files."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.processes import ran

TOOL = Path(__file__).parents[2] / "tools" / "lines.py"
FILES = {
    "src/toposeat/door.py": 10,
    "src/toposeat/cli/map.py": 300,
    "src/toposeat/cli/deep/er.py": 700,
    "core/src/flow.cpp": 400,
    "core/tests/test_flow.cpp": 90,
    "tests/cli/test_map.py": 5000,
    "tools/lines.py": 70,  # not counted
    "docs/page.md": 900,  # nor are other kinds of files
}
TABLE = """# a reason
src/toposeat      10
src/toposeat/cli  1000  # a verb for who has no GPU
core              400
native tests      90
tests             5000
"""


@pytest.fixture
def house(tmp_path: Path) -> Path:
    """A checkout with FILES, TABLE and a file that git ignores."""
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    for name, lines in {**FILES, "core/build/made.cpp": 77}.items():
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("x\n" * lines)
    (tmp_path / ".gitignore").write_text("build\n")
    (tmp_path / "tools/lines.txt").write_text(TABLE)
    return tmp_path


def said(house: Path) -> list[str]:
    """What the tool says of a checkout; nothing where it passes."""
    done = ran([sys.executable, TOOL, house])
    assert (done.returncode, done.stdout) == (1 if done.stderr else 0, "")
    return done.stderr.splitlines()


def test_a_house_within_its_numbers_passes(house: Path) -> None:
    assert said(house) == []


def test_a_line_more_is_told_with_the_place_of_the_number(house: Path) -> None:
    (house / "src/toposeat/cli/new.py").write_text("x\n")
    assert said(house) == [
        "src/toposeat/cli has 1001 lines, 1 more than its 1000: delete as many, or raise the number"
        " in tools/lines.txt with the reason and whom it serves"
    ]


def test_a_number_follows_what_was_deleted(house: Path) -> None:
    few, many = house / "core/src/flow.cpp", house / "tests/cli/test_map.py"
    few.write_text("x\n" * 350)
    many.write_text("x\n" * 4900)
    assert said(house) == []  # 50 lines, and 2 %
    few.write_text("x\n" * 349)
    many.write_text("x\n" * 4899)
    assert said(house) == [
        "core has 349 lines, 51 fewer than its 400: lower it in tools/lines.txt",
        "tests has 4899 lines, 101 fewer than its 5000: lower it in tools/lines.txt",
    ]


def test_every_part_has_a_number_and_every_number_a_part(house: Path) -> None:
    (house / "virtual").mkdir()
    (house / "virtual/icd.c").write_text("x\n" * 8)
    (house / "core/tests/test_flow.cpp").unlink()
    assert said(house) == [
        "native tests has 0 lines, 90 fewer than its 90: lower it in tools/lines.txt",
        "virtual has 8 lines and no number: give it one in tools/lines.txt",
    ]
