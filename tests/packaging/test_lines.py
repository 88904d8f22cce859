"""The package's lines of code only fall: what tools/lines.py says, and what it takes for code."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.processes import ran

TOOL = Path(__file__).parents[2] / "tools" / "lines.py"
CODE = '''"""A module.

Of two paragraphs.
"""

# a comment
from pathlib import (
    Path,
)

LINES = """not a
docstring"""


def call(  # four lines of code
    one: int,
) -> int:
    """What it gives."""
    return one
'''


@pytest.fixture
def house(tmp_path):
    """A checkout with 6 lines of code, a file that git ignores, and the tool."""
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    files = {
        "src/toposeat/door.py": CODE,
        "src/toposeat/build/made.py": CODE,
        "tests/test_door.py": CODE,
        ".gitignore": "build\n",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


@pytest.mark.parametrize(
    ("most", "said"),
    [
        (6, ""),
        (206, ""),
        (5, "src has 6 lines of code, 1 more than MOST"),
        (207, "src has 6 lines of code, 201 fewer than MOST"),
    ],
)
def test_the_number_is_kept_from_both_sides(house, most, said):
    code = "import sys; sys.path.insert(0, sys.argv.pop(1)); import lines; lines.MOST = int("
    words = [sys.executable, "-c", f"{code}sys.argv.pop(1)); sys.exit(lines.main())"]
    done = ran([*words, TOOL.parent, str(most), house])
    assert (done.returncode, done.stdout) == (1 if said else 0, "")
    assert done.stderr.startswith(said)
