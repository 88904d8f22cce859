"""Two users without privileges, and the programs that both can start."""

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from importlib.metadata import files, requires
from pathlib import Path

import pytest

import toposeat
from tests.support.processes import ran

VICTIM, STRANGER = 1001, 1002
_TIMEOUT_S = 300


def _run(user, words, **options):
    return ran(
        words,
        user=user,
        group=user,
        extra_groups=[],
        stdin=subprocess.DEVNULL,
        timeout=_TIMEOUT_S,
        **options,
    )


@pytest.fixture(scope="session")
def open_folder():
    """A folder of root's that all may read; pytest's own are closed to other users."""
    if os.geteuid() != 0:
        pytest.skip("only root runs programs as two other users")
    folder = Path(tempfile.mkdtemp(prefix="toposeat-neighbour-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture(scope="session")
def installed(open_folder):
    """The words that start toposeat for any user, and the environment that they need."""
    said = ""
    for python, more in _installations(open_folder):
        words = [python, "-c", "from toposeat.cli.main import entry; entry()"]
        variables = {"PATH": "/usr/bin:/bin", **more}
        try:
            done = _run(VICTIM, [*words, "--version"], env=variables, cwd="/")
        except OSError as error:
            said = str(error)
            continue
        if done.returncode == 0:
            return words, variables
        said = done.stderr.strip().splitlines()[-1]
    pytest.skip(f"user {VICTIM} cannot run Python here: {said}")


def _installations(folder):
    """This one, and where others may not enter it, a copy for the interpreter of the system."""
    yield sys.executable, {}
    yield os.path.realpath(sys.executable), _copy(folder)


def _copy(folder):
    """This package and what it needs, where every user can read it."""
    target = folder / "packages"
    for each in toposeat.__path__:
        shutil.copytree(each, target / "toposeat", dirs_exist_ok=True)
    site = Path(sysconfig.get_path("purelib"))
    for name in _needed("toposeat"):
        for file in files(name) or ():
            if ".." not in file.parts:
                (target / file).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(site / file, target / file)
    for path in (target, *target.rglob("*")):
        path.chmod(path.stat().st_mode | (0o555 if path.is_dir() else 0o444))
    return {"PYTHONPATH": str(target)}


def _needed(name):
    """The packages that a package needs, and those that these need."""
    lines = [line for line in requires(name) or () if ";" not in line]
    names = {match[0] for match in map(re.compile(r"[A-Za-z0-9._-]+").match, lines) if match}
    return names.union(*map(_needed, names))


@pytest.fixture
def as_user(installed):
    """Runs words as a user without privileges, in an environment of nothing else."""
    start, variables = installed

    def run(user, *words, environment=None, **options):
        line = [str(word) for word in words]
        line = [*start, *line[1:]] if line[0] == "toposeat" else line
        env = {"HOME": "/nonexistent", **variables, **(environment or {})}
        return _run(user, line, env=env, **{"cwd": "/", **options})

    return run


@pytest.fixture
def scratch(open_folder):
    """A folder that all may write to, sticky as /tmp is, and the victim's own in it."""
    folder = Path(tempfile.mkdtemp(prefix="scratch-", dir=open_folder))
    folder.chmod(0o1777)
    (folder / "job").mkdir(mode=0o755)
    os.chown(folder / "job", VICTIM, VICTIM)
    yield folder
    shutil.rmtree(folder)
