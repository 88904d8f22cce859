"""Whether the package is within its number of lines of code, which only falls.

Run: python tools/lines.py [ROOT]

Code is what is left of `src` without blank lines, comments, docstrings and imports. A larger
package fails, and so does one that has become smaller by SLACK, whose number should follow.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

# Raised in the commit that adds lines; its body names the issue and the user whom they serve.
MOST = 48_109
SLACK = 200


def lines_of_code(source: str) -> int:
    """Lines of Python source that are neither blank, comments, docstrings nor imports."""
    code = {
        number
        for number, line in enumerate(source.splitlines(), 1)
        if line.strip() and not line.lstrip().startswith("#")
    }
    for node in ast.walk(ast.parse(source)):
        match node:
            case (
                ast.Import(end_lineno=int(last))
                | ast.ImportFrom(end_lineno=int(last))
                # A string that stands alone says something to the reader and does nothing.
                | ast.Expr(ast.Constant(str()), end_lineno=int(last))
            ):
                code.difference_update(range(node.lineno, last + 1))
    return len(code)


def count(root: Path) -> int:
    """Lines of code of the package: of files that git knows, or would take."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "--", "src/*.py"],
        cwd=root, check=True, capture_output=True, text=True,
    )  # fmt: skip
    files = [root / name for name in set(listed.stdout.splitlines())]
    return sum(lines_of_code(file.read_text("utf-8")) for file in files if file.is_file())


def main() -> int:
    has = count(Path(sys.argv[1] if len(sys.argv) > 1 else "."))
    if has > MOST:
        print(
            f"src has {has} lines of code, {has - MOST} more than MOST of tools/lines.py: delete"
            " as many, or raise the number with the issue that asks for them and whom they serve",
            file=sys.stderr,
        )
    elif MOST - has > SLACK:
        print(
            f"src has {has} lines of code, {MOST - has} fewer than MOST of tools/lines.py:"
            " lower the number",
            file=sys.stderr,
        )
    return 0 if 0 <= MOST - has <= SLACK else 1


if __name__ == "__main__":
    sys.exit(main())
