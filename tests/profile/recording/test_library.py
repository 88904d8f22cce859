"""Which library is preloaded, told from real programs of every MPI on the machine."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.interposed import (
    PROGRAMS,
    compile_c,
    compile_with_static_mpi,
    library,
)
from tests.support.mpi import find_mpi
from tests.support.processes import executable
from toposeat.errors import InputError, MissingProgramError, ToposeatError
from toposeat.launch import LauncherKind, LaunchLine
from toposeat.profile import choose_abi, choose_library

pytestmark = pytest.mark.each_abi

OWN = Path(__file__).parent / "programs"
ABI_OF_FAMILY = {"openmpi": "ompi", "mpich": "mpich"}


def line(program, kind=LauncherKind.SRUN):
    return LaunchLine(kind=kind, launcher=("launcher",), program=(str(program),), ranks=2)


def test_c_programs_tell_themselves(mpi, halo3d):
    abi = ABI_OF_FAMILY[mpi.family]
    assert choose_abi(line(halo3d), mpi.env) == abi
    assert choose_library(line(halo3d), mpi.env) == library(mpi)


def test_programs_by_the_standard_abi(examples_dir, build_dir):
    mpi = find_mpi("wheel-mpich-abi")
    if isinstance(mpi, str):
        pytest.skip(mpi)
    program = compile_c(mpi, examples_dir / "halo3d" / "halo3d.c", build_dir)
    assert choose_abi(line(program), mpi.env) == "abi"
    assert choose_library(line(program), mpi.env).name == "libtoposeat_abi.so"


@pytest.mark.parametrize("mpi", ["debian-openmpi", "debian-mpich"], indirect=True)
def test_fortran_programs_too(mpi, build_dir):
    """Open MPI's Fortran bindings are libraries of their own, whose names look like libmpi's."""
    program = compile_c(mpi, PROGRAMS / "ring_mpi.f90", build_dir)
    assert choose_abi(line(program), mpi.env) == ABI_OF_FAMILY[mpi.family]


def test_mpi_behind_another_library(mpi, examples_dir, build_dir, tmp_path):
    inner, outer, env = tmp_path / "libinner.so", tmp_path / "outer", dict(mpi.env)
    shared = [mpi.mpicc, "-shared", "-fPIC", "-o", inner, OWN / "inner.c"]
    subprocess.run(shared, env=env, check=True)
    # Undefined symbols of libmpi's own dependencies are not this program's business.
    link = ["-Wl,-rpath,$ORIGIN", "-Wl,--allow-shlib-undefined"]
    subprocess.run(["gcc", "-o", outer, OWN / "outer.c", inner, *link], check=True)
    assert choose_abi(line(outer), env) == ABI_OF_FAMILY[mpi.family]


@pytest.mark.parametrize(
    ("kind", "abi"),
    [
        (LauncherKind.OPENMPI, "ompi"),
        (LauncherKind.MPICH, "mpich"),
        (LauncherKind.INTEL, "mpich"),
    ],
)
def test_scripts_follow_the_launcher(kind, abi, tmp_path):
    script = executable(tmp_path / "job.sh", "#!/bin/sh\nexec true\n")
    assert choose_abi(line(script, kind)) == abi
    assert choose_abi(line(sys.executable, kind)) == abi


def test_scripts_without_mpirun_follow_the_one_on_path(mpi, tmp_path):
    script = executable(tmp_path / "job.sh", "#!/bin/sh\nmpirun -n 2 ./app\n")
    (tmp_path / "mpirun").symlink_to(mpi.mpirun)
    env = {**mpi.env, "PATH": f"{tmp_path}{os.pathsep}{mpi.env['PATH']}"}
    for kind in (LauncherKind.NONE, LauncherKind.SRUN):
        assert choose_abi(line(script, kind), env) == ABI_OF_FAMILY[mpi.family]


def test_a_script_s_library_shows_what_the_launcher_s_mpi_has(mpi, tmp_path):
    script = executable(tmp_path / "job.sh", "#!/bin/sh\nexec ./app\n")
    kind = LauncherKind.OPENMPI if mpi.family == "openmpi" else LauncherKind.MPICH
    launched = LaunchLine(kind=kind, launcher=(str(mpi.mpirun),), program=(str(script),), ranks=2)
    assert choose_library(launched, mpi.env) == library(mpi)


@pytest.mark.parametrize("abi", ["ompi", "mpich"])
def test_an_mpi_that_nobody_sees_is_taken_for_an_old_one(abi, tmp_path):
    env = {"PATH": str(tmp_path), "TOPOSEAT_MPI_ABI": abi}
    elsewhere = ["/nowhere/app", "apptainer exec image.sif ./app"]
    for words in elsewhere:
        program = tuple(words.split())
        launched = LaunchLine(kind=LauncherKind.SRUN, launcher=("srun",), program=program, ranks=2)
        assert choose_library(launched, env).name == f"libtoposeat_{abi}.so"


def test_nothing_tells(tmp_path):
    env = {"PATH": str(tmp_path)}  # no mpirun there
    with pytest.raises(ToposeatError, match="cannot tell which MPI") as caught:
        choose_abi(line("/bin/true"), env)
    assert "TOPOSEAT_MPI_ABI" in caught.value.hint
    env["TOPOSEAT_MPI_ABI"] = "mpich"
    assert choose_abi(line("/bin/true"), env) == "mpich"
    with pytest.raises(InputError, match="TOPOSEAT_MPI_ABI"):
        choose_abi(line("/bin/true"), {**env, "TOPOSEAT_MPI_ABI": "lam"})


def test_the_mpirun_on_path_is_none_of_python_s_nor_of_a_container_s(tmp_path):
    executable(tmp_path / "mpirun", "#!/bin/sh\necho 'mpirun (Open MPI) 5.0.11'\n")
    env = {"PATH": str(tmp_path)}
    assert choose_abi(line("/bin/true"), env) == "ompi"
    for words in ("/usr/bin/python3", "apptainer exec image.sif ./app"):
        program, kind = tuple(words.split()), LauncherKind.SRUN
        launched = LaunchLine(kind=kind, launcher=("srun",), program=program, ranks=2)
        with pytest.raises(ToposeatError, match="cannot tell which MPI"):
            choose_abi(launched, env)


def test_static_mpi_is_refused(tmp_path):
    program = tmp_path / "static"
    subprocess.run(["gcc", "-o", program, OWN / "static.c"], check=True)
    with pytest.raises(ToposeatError, match="static is linked statically with MPI"):
        choose_abi(line(program, LauncherKind.MPICH))


@pytest.mark.mpi
@pytest.mark.parametrize("mpi", ["debian-mpich"], indirect=True)
@pytest.mark.parametrize("stripped", [False, True])
def test_a_real_static_mpi(mpi, build_dir, stripped):
    options = ["-s"] if stripped else []
    program = compile_with_static_mpi(mpi, OWN / "minimal.c", build_dir, *options)
    if stripped:  # no symbol is left to judge by: the end of the run tells
        assert choose_abi(line(program, LauncherKind.MPICH), mpi.env) == "mpich"
        return
    with pytest.raises(ToposeatError, match="minimal-static is linked statically with MPI"):
        choose_library(line(program, LauncherKind.MPICH), mpi.env)


def test_bytes_in_its_data_do_not_make_a_program_one_of_mpi(tmp_path):
    source, program = OWN / "list.c", tmp_path / "list"
    subprocess.run(["gcc", "-o", program, source], check=True)
    assert choose_abi(line(program, LauncherKind.MPICH)) == "mpich"
    subprocess.run(["gcc", "-static", "-o", program, source], check=True)
    with pytest.raises(ToposeatError, match="list is linked statically: nothing") as caught:
        choose_abi(line(program, LauncherKind.MPICH))
    assert "TOPOSEAT_WRAPPERS=list" in caught.value.hint


def test_missing_program():
    with pytest.raises(MissingProgramError, match="no-such-program"):
        choose_abi(line("no-such-program", LauncherKind.MPICH))


def test_a_script_of_torchrun_is_a_program_of_its_interpreter(tmp_path):
    """No executable bit, no line that names Python; the interpreter without mpi4py is the cause."""
    torchrun = executable(tmp_path / "torchrun", f"#!{sys.executable}\n")
    script = tmp_path / "train.py"
    script.write_text("")
    (tmp_path / "mpi4py.py").write_text("raise ImportError(\"No module named 'mpi4py'\")\n")
    started = LaunchLine(
        kind=LauncherKind.TORCHRUN, launcher=(str(torchrun),), program=(str(script),), ranks=1
    )
    with pytest.raises(ToposeatError, match=r"which MPI train\.py will use: it has no mpi4py"):
        choose_abi(started, {"PATH": "/no/such/folder"})
