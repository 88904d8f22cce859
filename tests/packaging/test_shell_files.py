"""Man page, completions, and `toposeat-exec` on PATH: in every installation, of one source."""

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from tests.support.processes import ran
from toposeat.cli.main import main, verbs_of, whole_parser
from toposeat.installed import VERSION, native_path

SHARE = Path(sysconfig.get_path("data"), "share")
PAGE = SHARE / "man" / "man1" / "toposeat.1"
TOOL = Path(__file__).parents[2] / "tools" / "shell_files.py"
STARTER = Path(sysconfig.get_path("scripts"), "toposeat-exec")


def test_the_installation_has_what_the_shells_look_for():
    found = [path for path in SHARE.rglob("*toposeat*") if path.is_file()]
    assert sorted(path.name for path in found) == [
        "_toposeat",
        "toposeat",
        "toposeat.1",
        "toposeat.fish",
    ]
    assert all("doctor" in path.read_text() for path in found)


def test_they_are_made_with_what_builds_alone(tmp_path, capsys):
    packages = tmp_path / "packages"
    packages.mkdir()
    for name in ("shtab", "msgspec"):
        module = pytest.importorskip(name)
        (packages / name).symlink_to(Path(module.__file__).parent)
    bare = [sys.executable, "-B", "-S", TOOL, tmp_path / "share"]
    environment = {"PYTHONPATH": str(packages), "COLUMNS": "300"}
    subprocess.run(bare, check=True, env=environment)
    made = tmp_path / "share" / "bash-completion" / "completions" / "toposeat"
    assert main(["completion", "bash"]) == 0
    assert made.read_text() == capsys.readouterr().out
    assert max(map(len, (tmp_path / "share/man/man1/toposeat.1").read_text().splitlines())) > 300


def test_man_shows_every_verb_and_option_as_it_is():
    if shutil.which("man") is None:
        pytest.skip("no man")
    words = ["man", "--warnings", "-l", str(PAGE)]
    done = ran(words, check=True, env={**os.environ, "MANWIDTH": "500"})
    assert done.stderr == ""
    shown = done.stdout
    for name, verb in verbs_of(whole_parser()).items():
        assert f"toposeat {name}" in shown
        for action in verb._actions:
            if action.dest != "help":
                assert all(option in shown for option in action.option_strings)
    assert "./app" in shown
    assert f"toposeat {VERSION}" in shown


@pytest.mark.parametrize(
    "packages",
    [
        "lib/python3.11/site-packages",
        "lib64/python3.14/site-packages",
        "lib/python3.11/dist-packages",
        ".",
    ],
)
def test_the_program_on_path_finds_the_probe_of_its_installation(packages, tmp_path):
    """As in a venv, where RPM keeps libraries, of Debian, and of `pip install --target`."""
    home = tmp_path / "a[1]*"
    probe = home / packages / "toposeat" / "_native" / "lib" / "libtoposeat_probe.so"
    probe.parent.mkdir(parents=True)
    probe.symlink_to(native_path("lib/libtoposeat_probe.so"))
    starter = home / "bin" / "toposeat-exec"
    starter.parent.mkdir(exist_ok=True)
    shutil.copy(STARTER, starter)
    (tmp_path / "linked").symlink_to(starter)
    for each in (starter, tmp_path / "linked"):
        done = ran([each, "--report", tmp_path, "--", "sh", "-c", "echo $LD_PRELOAD"], check=True)
        assert Path(done.stdout.partition(":")[0].strip()).samefile(probe), done.stdout


def test_a_program_without_its_package_starts_the_rank_all_the_same(tmp_path):
    shutil.copy(STARTER, tmp_path / "toposeat-exec")
    done = ran([tmp_path / "toposeat-exec", "--report", tmp_path, "--", "sh", "-c", "exit 7"])
    assert done.returncode == 7
