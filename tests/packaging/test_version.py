"""`make release` begins only where version, tag and changelog agree."""

import re
import shutil
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

from tests.support.processes import ran
from toposeat.installed import VERSION, native_path

ROOT = Path(__file__).parents[2]
TOOL = ROOT / "tools" / "check_version.py"
SOURCE = "src/toposeat/installed.py"
FILES = [SOURCE, "CHANGELOG.md"]
# Made of the source by tools/generate_reference.py, for those that cannot read it.
WRITTEN = {
    "core/cmake/version.cmake",
    "packaging/conda/recipe.yaml",
    "packaging/spack_repo/toposeat/packages/py_toposeat/package.py",
}


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
        path.write_text(path.read_text().replace(VERSION, "0.1.0"))
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-q", "-m", "release")
    git(tmp_path, "tag", "v0.1.0")
    return tmp_path


def said(folder, *, code=0):
    done = ran([sys.executable, TOOL, folder])
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr


def test_this_tree_agrees_with_itself():
    if not (ROOT / ".git").exists():
        pytest.skip("no repository, so that there are no tags")
    assert VERSION in said(ROOT)


def test_a_tagged_commit_is_a_release(folder):
    assert said(folder) == "release 0.1.0 of 2026-12-01\n"


def test_the_version_is_written_in_one_place():
    if not (ROOT / ".git").exists():
        pytest.skip("no repository, so that nobody knows which files are its own")
    of_a_version = rf"(?i)(version\W{{1,5}}|toposeat-){re.escape(VERSION)}\b"
    tracked = ran(["git", "-C", ROOT, "ls-files"], check=True).stdout.splitlines()
    elsewhere = {"CHANGELOG.md", "tests", "docs", ".github"}  # tags, samples, outputs
    found = {
        name
        for name in tracked
        if name.partition("/")[0] not in elsewhere
        and re.search(of_a_version, (ROOT / name).read_text(errors="replace"))
    }
    assert found == {SOURCE, *WRITTEN}


def test_what_is_built_has_the_version_of_the_source():
    done = ran([native_path("bin/toposeat-clproxy"), "--version"])
    assert done.stdout.split() == ["toposeat-clproxy", VERSION]
    assert metadata.version("toposeat") == VERSION


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
