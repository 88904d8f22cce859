"""Which mpi4py a Python program will import, asked of real interpreters, and what follows."""

import os
import shutil
import sys
import time
from pathlib import Path

import pytest

from tests.support.mpi import find_mpi
from tests.support.processes import LONGEST_S, executable, lives, ran
from toposeat.errors import ToposeatError
from toposeat.launch import LauncherKind, LaunchLine
from toposeat.profile import choose_abi
from toposeat.profile.recording import library
from toposeat.profile.recording.library import as_python_program, find_mpi4py_module

PYTHON = Path(sys.executable)
ENV = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}


def line(*program, kind=LauncherKind.SRUN):
    words = tuple(str(word) for word in program)
    return LaunchLine(kind=kind, launcher=("launcher",), program=words, ranks=2)


def script(folder, first_line):
    return executable(folder / "app", f"{first_line}\nimport mpi4py\n")


def make_mpi4py(folder, libraries, tail=""):
    """An mpi4py with a module of this name for each library, which it only needs, as linkers do."""
    package = folder / "mpi4py"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(tail)
    (folder / "empty.c").write_text("")
    for module, soname in libraries.items():
        stand_in = folder / soname
        compile_shared(folder / "empty.c", stand_in, f"-Wl,-soname,{soname}")
        compile_shared(folder / "empty.c", package / module, "-Wl,--no-as-needed", stand_in)
        stand_in.unlink()
    return folder


def compile_shared(source, result, *options):
    words = ["gcc", "-shared", "-fPIC", "-o", str(result), str(source), *map(str, options)]
    assert os.spawnvp(os.P_WAIT, words[0], words) == 0


@pytest.mark.parametrize(
    ("words", "flags", "folder"),
    [
        (["app.py", "-E"], (), "."),
        (["-u", "-I", "sub/app.py"], ("-I",), "sub"),
        (["-W", "ignore", "-Xdev", "-sE", "sub/app.py"], ("-s", "-E"), "sub"),
        (["-X", "dev", "--check-hash-based-pycs", "never", "sub/app.py"], (), "sub"),
        (["-m", "sub.app"], (), None),
        (["-Sc", "pass", "sub/app.py"], ("-S",), None),
        (["-"], (), None),
        ([], (), None),
    ],
)
def test_arguments_of_the_interpreter(words, flags, folder):
    found = as_python_program(PYTHON, words, ENV)
    assert found is not None
    assert found.flags == flags
    assert found.folder == ("" if folder is None else str(Path(folder).resolve()))


@pytest.mark.parametrize("first_line", [f"#!{PYTHON} -s", "#!/usr/bin/env -S A=b python3 -s"])
def test_scripts_that_name_python(first_line, tmp_path):
    found = as_python_program(script(tmp_path, first_line), ["-E"], ENV)
    assert found is not None
    assert Path(found.interpreter).name.startswith("python")
    assert found.flags == ("-s",)
    assert found.folder == str(tmp_path.resolve())


@pytest.mark.parametrize(
    "first_line", ["#!/bin/sh", "#!", "no shebang", "#!/usr/bin/env", "#!/x/python3"]
)
def test_other_scripts(first_line, tmp_path):
    assert as_python_program(script(tmp_path, first_line), [], ENV) is None


def test_the_installed_mpi4py_chooses_as_in_the_ranks(mpi):
    """The wheel has a module for each family, and loads libmpi to choose."""
    pytest.importorskip("mpi4py")
    found = as_python_program(PYTHON, ["app.py"], mpi.env)
    assert found is not None
    module = find_mpi4py_module(found, {**mpi.env, "MPI4PY_MPIABI": mpi.family})
    assert isinstance(module, Path)
    assert module.name.startswith(f"MPI.{mpi.family}.")
    own = {name: value for name, value in mpi.env.items() if name != "MPI4PY_MPIABI"}
    code = (
        "import mpi4py; mpi4py.rc.initialize = False; from mpi4py import MPI; print(MPI.__file__)"
    )
    done = ran([PYTHON, "-c", code], env=own)
    if done.returncode == 0:  # else it finds no libmpi
        assert find_mpi4py_module(found, own) == Path(done.stdout.strip())


@pytest.mark.parametrize(
    ("soname", "abi"),
    [("libmpi.so.40", "ompi"), ("libmpi.so.12", "mpich"), ("libmpi_abi.so.1", "abi")],
)
def test_abi_of_the_only_module(soname, abi, tmp_path):
    """Found beside the script, as Python does; no launcher family is needed."""
    make_mpi4py(tmp_path, {"MPI.so": soname})
    app = tmp_path / "app.py"
    assert choose_abi(line(PYTHON, app), ENV) == abi
    assert choose_abi(line(PYTHON, "-u", "-W", "ignore", app), ENV) == abi
    assert choose_abi(line(script(tmp_path, f"#!{PYTHON}")), ENV) == abi
    env = {**ENV, "PYTHONPATH": str(tmp_path)}
    assert choose_abi(line(PYTHON, "-m", "app"), env) == abi
    if abi == "abi":  # any launcher may serve the standard ABI
        for kind in (LauncherKind.OPENMPI, LauncherKind.MPICH, LauncherKind.INTEL):
            assert choose_abi(line(PYTHON, app, kind=kind), ENV) == abi


def test_mpi4py_of_another_mpi_than_the_launcher(tmp_path):
    make_mpi4py(tmp_path, {"MPI.so": "libmpi.so.12"})
    with pytest.raises(ToposeatError, match=r"mpi4py for libmpi.so.12 .*Open MPI") as caught:
        choose_abi(line(PYTHON, tmp_path / "app.py", kind=LauncherKind.OPENMPI), ENV)
    assert "TOPOSEAT_MPI_ABI" in caught.value.hint
    assert "\n" not in str(caught.value)


def test_mpi4py_for_several_follows_the_launcher():
    """What is on the search path here need not be what the launcher puts there."""
    pytest.importorskip("mpi4py")
    for kind, abi, other in (
        (LauncherKind.OPENMPI, "ompi", "mpich"),
        (LauncherKind.MPICH, "mpich", "openmpi"),
    ):
        assert choose_abi(line(PYTHON, "app.py", kind=kind), ENV) == abi
        with pytest.raises(ToposeatError, match="mpi4py for libmpi"):
            choose_abi(line(PYTHON, "app.py", kind=kind), {**ENV, "MPI4PY_MPIABI": other})


def test_no_mpi4py(tmp_path):
    with pytest.raises(ToposeatError, match="will use: it has no mpi4py, and") as caught:
        choose_abi(line(PYTHON, "-S", tmp_path / "app.py"), ENV)
    assert "TOPOSEAT_MPI_ABI" in caught.value.hint
    assert choose_abi(line(PYTHON, "-S", "app.py", kind=LauncherKind.MPICH), ENV) == "mpich"


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        (
            "print('toposeat: mpi4py.MPI is /x'); raise OSError('broken\\nhere')",
            "cannot be found: here",
        ),
        ("raise RuntimeError('cannot load MPI library')", "finds no MPI library"),
        ("import os; os._exit(0)", "did not say where its mpi4py is"),
        ("import os; os.kill(os.getpid(), 9)", "did not say where its mpi4py is"),
        ("", "No module named 'mpi4py.MPI'|has no mpi4py.MPI"),
    ],
)
def test_damaged_mpi4py(code, reason, tmp_path):
    make_mpi4py(tmp_path, {}, code)
    with pytest.raises(ToposeatError, match=reason) as caught:
        choose_abi(line(PYTHON, tmp_path / "app.py"), ENV)
    assert "\n" not in str(caught.value)


def test_an_interpreter_that_does_not_answer(tmp_path, monkeypatch):
    """Nor does what it has started keep toposeat waiting."""
    monkeypatch.setattr(library, "_TIMEOUT_S", 0.5)
    slow = executable(tmp_path / "python3", "#!/bin/sh\nsleep 3600 &\necho $! > pid\nwait\n")
    monkeypatch.chdir(tmp_path)
    begin = time.monotonic()
    with pytest.raises(ToposeatError, match="did not say where its mpi4py is"):
        choose_abi(line(slow, "app.py"), ENV)
    assert time.monotonic() - begin < LONGEST_S
    pid = int((tmp_path / "pid").read_text())
    while lives(pid) and time.monotonic() - begin < LONGEST_S:  # killed, but not yet gone
        time.sleep(0.01)
    assert not lives(pid)


def test_the_standard_abi_through_a_real_mpi4py():
    variable = "TOPOSEAT_TEST_MPI4PY_WHEEL_MPICH_ABI"
    mpi = find_mpi("wheel-mpich")
    if isinstance(mpi, str) or variable not in os.environ or shutil.which("gcc") is None:
        pytest.skip(f"needs MPICH's wheel and an mpi4py compiled for mpi_abi in {variable}")
    env = {**mpi.env, "PYTHONPATH": os.environ[variable]}
    assert choose_abi(line(PYTHON, "app.py", kind=LauncherKind.MPICH), env) == "abi"
