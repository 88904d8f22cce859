"""Man page and completions: in every installation, made of the parser."""

from __future__ import annotations

import os
import shutil
import subprocess
import sysconfig
from pathlib import Path

import pytest

from toposeat.cli.completion import SHELLS, completion
from toposeat.cli.main import verbs_of, whole_parser
from toposeat.installed import VERSION

SHARE = Path(sysconfig.get_path("data"), "share")
PAGE = SHARE / "man" / "man1" / "toposeat.1"
TOOL = Path(__file__).parents[2] / "tools" / "shell_files.py"


def test_the_installation_has_what_the_shells_look_for() -> None:
    found = [path for path in SHARE.rglob("*toposeat*") if path.is_file()]
    assert sorted(path.name for path in found) == [
        "_toposeat",
        "toposeat",
        "toposeat.1",
        "toposeat.fish",
    ]
    assert all("doctor" in path.read_text() for path in found)


def test_they_are_made_without_any_package_but_shtab(tmp_path: Path) -> None:
    shtab = pytest.importorskip("shtab")
    packages = tmp_path / "packages"
    packages.mkdir()
    (packages / "shtab").symlink_to(Path(shtab.__file__).parent)
    bare = [
        shutil.which("python3", path="/usr/bin:/bin") or "",
        "-B",
        "-S",
        TOOL,
        tmp_path / "share",
    ]
    if not bare[0]:
        pytest.skip("no python3 of the system")
    environment = {"PYTHONPATH": str(packages), "COLUMNS": "300"}
    subprocess.run(bare, check=True, env=environment)
    made = tmp_path / "share" / "bash-completion" / "completions" / "toposeat"
    assert "bash" in SHELLS
    assert made.read_text() == completion("bash")
    assert max(map(len, (tmp_path / "share/man/man1/toposeat.1").read_text().splitlines())) > 300


def test_man_shows_every_verb_and_option_as_it_is() -> None:
    if shutil.which("man") is None:
        pytest.skip("no man")
    words = ["man", "--warnings", "-l", str(PAGE)]
    done = subprocess.run(
        words, capture_output=True, text=True, check=True, env={**os.environ, "MANWIDTH": "500"}
    )
    assert done.stderr == ""
    shown = done.stdout
    for name, verb in verbs_of(whole_parser()).items():
        assert f"toposeat {name}" in shown
        for action in verb._actions:
            if action.dest != "help":
                assert all(option in shown for option in action.option_strings)
    assert "./app" in shown
    assert f"toposeat {VERSION}" in shown
