"""`make release` begins only where version, tag and changelog agree."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.processes import ran

ROOT = Path(__file__).parents[2]
TOOL = ROOT / "tools" / "check_version.py"
# All files that say the version, and how many there must be at least.
FILES = [
    *("pyproject.toml", "CMakeLists.txt", "core/CMakeLists.txt", "src/toposeat/installed.py"),
    *("packaging/conda/recipe.yaml", "packaging/containers/Dockerfile"),
    *("packaging/containers/toposeat.def", "CHANGELOG.md"),
    "packaging/spack_repo/toposeat/packages/py_toposeat/package.py",
]


def git(folder, *words):
    who = ("-c", "user.name=x", "-c", "user.email=x@example.org")
    subprocess.run(["git", "-C", folder, *who, *words], check=True, capture_output=True)


@pytest.fixture
def folder(tmp_path):
    """A repository of those files, released as version 0.1.0 on a day, with a tag."""
    if shutil.which("git") is None:
        pytest.skip("git is not installed")
    for name in FILES:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    text = (tmp_path / "CHANGELOG.md").read_text()
    dated = re.sub(r"^## \[.*$", "## [0.1.0] - 2026-12-01", text, count=1, flags=re.MULTILINE)
    (tmp_path / "CHANGELOG.md").write_text(dated)
    for name in FILES:  # whatever the version is today
        path = tmp_path / name
        path.write_text(path.read_text().replace(version_today(), "0.1.0"))
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-q", "-m", "release")
    git(tmp_path, "tag", "v0.1.0")
    return tmp_path


def version_today():
    found = re.search(r'^version = "(.*)"$', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    assert found is not None
    return found[1]


def said(folder, *, code=0):
    done = ran([sys.executable, TOOL, folder])
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr


def test_this_tree_agrees_with_itself():
    if not (ROOT / ".git").exists():
        pytest.skip("no repository, so that there are no tags")
    assert version_today() in said(ROOT)


def test_a_tagged_commit_is_a_release(folder):
    assert said(folder) == "release 0.1.0 of 2026-12-01\n"


def test_each_place_counts(folder):
    for name in FILES:
        path = folder / name
        text = path.read_text()
        if name != "CHANGELOG.md":
            path.write_text(text.replace("0.1.0", "0.1.1"))
            assert "0.1.1" in said(folder, code=1), name
            path.write_text(text)


def test_a_tag_of_another_version_is_refused(folder):
    git(folder, "tag", "-d", "v0.1.0")
    git(folder, "tag", "v0.2.0")
    assert "v0.2.0, the version is 0.1.0" in said(folder, code=1)


def test_a_version_is_released_once(folder):
    git(folder, "commit", "-q", "--allow-empty", "-m", "later")
    assert "v0.1.0 is the tag of another commit" in said(folder, code=1)
    git(folder, "tag", "-d", "v0.1.0")
    assert "a trial of 0.1.0" in said(folder)


def test_a_release_is_in_the_changelog_and_nothing_else_is_in_the_tree(folder):
    (folder / "more.txt").write_text("x")
    assert "more.txt" in said(folder, code=1)
    (folder / "more.txt").unlink()
    path = folder / "CHANGELOG.md"
    path.write_text(path.read_text().replace("## [0.1.0] - 2026-12-01", "## [Unreleased]"))
    assert "begins with [Unreleased]" in said(folder, code=1)
