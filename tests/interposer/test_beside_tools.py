"""A tool that wraps MPI sees what it sees bare, and the record is as of the job without it."""

import os
import sys
from pathlib import Path

import pytest

from tests.support.interposed import PROGRAMS, compile_c, library, run_ranks
from tests.support.mpi import ALL_MPI_NAMES, FEW_MPI_NAMES
from tests.support.raw_records import records_of_ranks
from toposeat.installed import native_path
from toposeat.launch import parse_launch_line
from toposeat.model.traffic import TrafficKind
from toposeat.profile import choose_library, read_records

pytestmark = [pytest.mark.mpi, pytest.mark.each_abi]

RANKS = 2
# What the tool says of the program, on all ranks: ten messages of each, and its marks.
SEES = "tool: inits 2 sends 20 allreduces 2 grids 2 marks 20 of 280"
KINDS = {"plain": (), "starts by threads": ("-DBY_THREAD",), "splits": ("-DSPLITS",)}
PLACES = ("linked", "inside", "before", "behind")
EXAMPLES = Path(__file__).parents[2] / "examples"
NOTHING = Path("/dev/null")  # a preload that changes nothing: ld.so says so, and goes on


def built(mpi, place, build_dir, kind="plain", app="beside_app.c"):
    """The program with the tool, and what has to be preloaded beside the interposer."""
    source, options = PROGRAMS / "beside.c", KINDS[kind]
    if place == "inside":
        return compile_c(mpi, PROGRAMS / app, build_dir, *options, str(source)), []
    tool = compile_c(mpi, source, build_dir, *options, "-shared", "-fPIC")
    if place == "linked":
        link = ["-Wl,--no-as-needed", str(tool)]
        return compile_c(mpi, PROGRAMS / app, build_dir, *link), []
    return compile_c(mpi, PROGRAMS / app, build_dir), [tool]


def preloaded(place, tools, *own):
    listed = [*tools, *own] if place == "before" else [*own, *tools]
    return Path(os.pathsep.join(map(str, listed))) if listed else NOTHING


def said(done):
    assert done.returncode == 0, done.stderr
    tool = [line for line in done.stderr.splitlines() if line.startswith("tool: ")]
    assert "toposeat" not in done.stderr
    return tool, done.stdout


def run(mpi, place, build_dir, records, own, **how):
    program, tools = built(mpi, place, build_dir, **how)
    return said(run_ranks(mpi, RANKS, [program], records, preload=preloaded(place, tools, *own)))


def seen(folder):
    traffic = read_records(folder)
    table = traffic.table(kind=TrafficKind.POINT_TO_POINT)
    events = sorted((e.operation, e.bytes, e.calls) for e in traffic.collectives)
    return table.dense_messages(RANKS).tolist(), table.dense_bytes(RANKS).tolist(), events


@pytest.mark.parametrize("mpi", ALL_MPI_NAMES, indirect=True)
@pytest.mark.parametrize("place", PLACES)
def test_the_tool_sees_all_and_so_does_the_record(mpi, place, build_dir, tmp_path):
    bare = run(mpi, place, build_dir, tmp_path / "bare", [])
    assert bare == ([SEES], "sum 2\n")
    assert run(mpi, place, build_dir, tmp_path / "r", [library(mpi)]) == bare
    messages, sent, events = seen(tmp_path / "r")
    hers = place in ("inside", "before")  # in front: the recorder does not see MPI_Finalize begin
    assert messages == [[0, 11], [10, 0]] if hers else [[0, 10], [10, 0]]
    assert sent == [[0, 10024 if hers else 10000], [10000, 0]]
    assert ("allreduce", 4, 1) in events
    assert (("allreduce", 24, 1) in events) == hers


@pytest.mark.parametrize("mpi", FEW_MPI_NAMES, indirect=True)
@pytest.mark.parametrize("place", ["linked", "behind"])
def test_what_it_hands_on_is_recorded(mpi, place, build_dir, tmp_path):
    bare = run(mpi, place, build_dir, tmp_path / "bare", [], kind="splits")
    assert run(mpi, place, build_dir, tmp_path / "r", [library(mpi)], kind="splits") == bare
    messages, sent, _ = seen(tmp_path / "r")
    assert messages == [[0, 20], [20, 0]]
    assert sent == [[0, 10000], [10000, 0]]


@pytest.mark.parametrize("mpi", FEW_MPI_NAMES, indirect=True)
@pytest.mark.parametrize("place", ["linked", "inside"])
def test_a_tool_that_starts_mpi_another_way(mpi, place, build_dir, tmp_path):
    how = {"kind": "starts by threads"}
    bare = run(mpi, place, build_dir, tmp_path / "bare", [], **how)
    assert run(mpi, place, build_dir, tmp_path / "r", [library(mpi)], **how) == bare
    assert seen(tmp_path / "r")[1][1] == [10000, 0]
    assert all(record.info.finalized for record in records_of_ranks(tmp_path / "r", RANKS))


@pytest.mark.parametrize("mpi", FEW_MPI_NAMES, indirect=True)
@pytest.mark.parametrize("place", ["linked", "before"])
def test_marks_are_for_both(mpi, place, build_dir, tmp_path):
    """The tool keeps MPI_Pcontrol to itself, and gets every argument."""
    program, tools = built(mpi, place, build_dir)
    words = ["env", "TOPOSEAT_PROFILE_PHASES=pcontrol", program]
    preload = preloaded(place, tools, library(mpi))
    assert said(run_ranks(mpi, RANKS, words, tmp_path, preload=preload))[0] == [SEES]
    labels = {0, 1, 2} if place == "linked" else {0}  # in front, it passes nothing on
    for record in records_of_ranks(tmp_path, RANKS):
        assert {phase.label for phase in record.phases} == labels


@pytest.mark.parametrize("mpi", ["debian-openmpi", "debian-mpich"], indirect=True)
@pytest.mark.parametrize("app", ["ring_mpif.f90", "halo_f08.f90"])
@pytest.mark.parametrize("place", ["linked", "before"])
def test_fortran(mpi, app, place, build_dir, tmp_path):
    app = {"halo_f08.f90": EXAMPLES / "halo_f08" / "halo_f08.f90"}.get(app, app)
    tool = compile_c(mpi, PROGRAMS / "beside.c", build_dir, "-shared", "-fPIC")
    link = ["-Wl,--no-as-needed", str(tool)] if place == "linked" else []
    program = [compile_c(mpi, PROGRAMS / app, build_dir, *link)]
    tools = [] if place == "linked" else [tool]
    alone = [compile_c(mpi, PROGRAMS / app, build_dir)]
    said(run_ranks(mpi, RANKS, alone, tmp_path / "alone"))
    bare = run_ranks(mpi, RANKS, program, tmp_path / "bare", preload=preloaded(place, tools))
    own = preloaded(place, tools, library(mpi))
    both = run_ranks(mpi, RANKS, program, tmp_path / "both", preload=own)
    assert said(both) == said(bare)
    if place == "linked":
        assert seen(tmp_path / "both") == seen(tmp_path / "alone")


MPI4PY = """
import numpy
from mpi4py import MPI
comm, data = MPI.COMM_WORLD, numpy.zeros(1000, "b")
if comm.rank == 0:
    comm.Send(data, 1)
else:
    comm.Recv(data, 0)
comm.Allreduce(numpy.ones(1), numpy.ones(1))
comm.Create_cart([2], reorder=True).Free()
if comm.rank == 0:
    print("done", flush=True)
"""


@pytest.mark.parametrize("mpi", FEW_MPI_NAMES, indirect=True)
@pytest.mark.parametrize("place", ["before", "behind"])
def test_mpi4py(mpi, place, build_dir, tmp_path):
    pytest.importorskip("mpi4py")
    tool = compile_c(mpi, PROGRAMS / "beside.c", build_dir, "-shared", "-fPIC")
    script = tmp_path / "script.py"
    script.write_text(MPI4PY)
    line = [sys.executable, script]
    bare = run_ranks(mpi, RANKS, line, tmp_path / "bare", preload=preloaded(place, [tool]))
    own = preloaded(place, [tool], library(mpi))
    both = run_ranks(mpi, RANKS, line, tmp_path / "both", preload=own)
    assert said(both) == said(bare)
    assert said(both)[0][0].startswith("tool: inits 2")
    table = read_records(tmp_path / "both").table(kind=TrafficKind.POINT_TO_POINT)
    assert table.dense_bytes(RANKS)[0, 1] == 1000 + 24 * (place == "before")


@pytest.mark.parametrize("mpi", FEW_MPI_NAMES, indirect=True)
def test_a_module_that_brings_its_tool_and_its_mpi(mpi, build_dir, tmp_path):
    """Neither is in the global scope: what the module calls is found from the module."""
    tool = compile_c(mpi, PROGRAMS / "beside.c", build_dir, "-shared", "-fPIC")
    link = ["-shared", "-fPIC", "-Dmain=module", "-Wl,--no-as-needed", str(tool)]
    module = compile_c(mpi, PROGRAMS / "beside_app.c", build_dir, *link)
    words = f"import ctypes; ctypes.CDLL({str(module)!r}).module(0, None)"
    line = [sys.executable, "-c", words]
    bare = said(run_ranks(mpi, RANKS, line, tmp_path / "bare", preload=NOTHING))
    assert bare == ([SEES], "sum 2\n")
    assert said(run_ranks(mpi, RANKS, line, tmp_path / "r")) == bare
    assert seen(tmp_path / "r")[:2] == ([[0, 10], [10, 0]], [[0, 10000], [10000, 0]])


@pytest.mark.parametrize("mpi", FEW_MPI_NAMES, indirect=True)
def test_beside_what_reorders_and_what_watches(mpi, build_dir, tmp_path):
    """All of ours at once, in every order."""
    program, _ = built(mpi, "linked", build_dir)
    tool = compile_c(mpi, PROGRAMS / "beside.c", build_dir, "-shared", "-fPIC")
    plain = compile_c(mpi, PROGRAMS / "beside_app.c", build_dir)
    own = (*map(native_path, ("lib/libtoposeat_reorder.so", "lib/libtoposeat_probe.so")),)
    for number, (words, order) in enumerate(
        (
            (program, (*own, library(mpi))),
            (program, (library(mpi), *own)),
            (plain, (own[1], tool, library(mpi), own[0])),
            (plain, (library(mpi), own[0], tool, own[1])),
        )
    ):
        folder = tmp_path / str(number)
        done = run_ranks(mpi, RANKS, [words], folder, preload=preloaded("", [], *order))
        assert said(done) == ([SEES], "sum 2\n")
        assert seen(folder)[0] == [[0, 11 if number == 2 else 10], [10, 0]]  # 2: in front


@pytest.mark.parametrize("mpi", ALL_MPI_NAMES, indirect=True)
def test_a_tool_inside_is_no_static_mpi(mpi, build_dir):
    program, _ = built(mpi, "inside", build_dir)
    launched = parse_launch_line([str(mpi.mpirun), *mpi.run_flags, "-n", "2", str(program)])
    assert choose_library(launched, mpi.env) == library(mpi)
