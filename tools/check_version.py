"""Version, tag and changelog say the same, or nothing is released: `make release`.

Usage: check_version.py [FOLDER]
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

_HEADING = re.compile(r"^## \[([^\]]+)\](?: - (\d{4}-\d{2}-\d{2}))?$", re.MULTILINE)


class VersionError(Exception):
    """What contradicts what."""


def check_version(root: Path) -> tuple[str, str]:
    """The version, and whether this is its release or a trial.

    Raises:
        VersionError: the version is not the tag's or the changelog's, or another commit's already.
    """
    text = (root / "src" / "toposeat" / "installed.py").read_text()
    written = re.search(r'^VERSION = "(.+)"$', text, re.MULTILINE)
    if written is None:
        raise VersionError("src/toposeat/installed.py has no line `VERSION = ...`")
    version = written[1]
    headings = _HEADING.findall((root / "CHANGELOG.md").read_text())
    if not headings:
        raise VersionError("CHANGELOG.md has no heading `## [Unreleased]` or `## [X] - DATE`")
    return version, _remark(root, version, headings)


def _remark(root: Path, version: str, headings: list[tuple[str, str]]) -> str:
    here = _git(root, "tag", "--points-at", "HEAD", "--list", "v*").split()
    if not here:
        if _git(root, "tag", "--list", f"v{version}").strip():
            raise VersionError(f"v{version} is the tag of another commit: raise the version")
        return f"a trial of {version}: this commit has no tag v{version}"
    if here != [f"v{version}"]:
        raise VersionError(f"the tag of this commit is {', '.join(here)}, the version is {version}")
    name, day = headings[0]
    if name != version or not day:
        raise VersionError(f"CHANGELOG.md begins with [{name}], not with [{version}] and its day")
    if changed := _git(root, "status", "--porcelain").strip():
        raise VersionError(f"files differ from the tagged commit: {changed}")
    return f"release {version} of {day}"


def _git(root: Path, *words: str) -> str:
    done = subprocess.run(
        ["git", "-C", str(root), *words], capture_output=True, text=True, check=True
    )
    return done.stdout


def main() -> int:
    """Say what contradicts what."""
    root = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).resolve().parents[1]
    try:
        print(check_version(root)[1])
    except VersionError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
