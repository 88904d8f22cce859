"""Jobs whose ranks MPI reorders: with a placement, without one, and recorded."""

from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.interposed import compile_c
from tests.support.mpi import FEW_MPI_NAMES
from toposeat.cli.main import main
from toposeat.launch import reordering, run_placed, run_reordered
from toposeat.model.placement_file import save_placement
from toposeat.model.traffic import TrafficKind
from toposeat.profile import Recording, profile_run

EXCHANGE = Path(__file__).resolve().parents[1] / "cluster" / "programs" / "exchange.c"
NODES = "0,1,0,1"
NEW_RANK = [0, 2, 1, 3]  # a row of four: its halves on a node each
SAID = "MPI_Cart_create 4, 4 ranks on 2 nodes: 2 of 6 neighbour links between nodes, 6 in the order"


@pytest.fixture
def job(mpi, build_dir):
    """A line of four ranks that exchange 1000 bytes with their neighbours in a row."""
    program = compile_c(mpi, EXCHANGE, build_dir)
    pretended = replace(mpi, env={**mpi.env, "TOPOSEAT_REORDER_NODES": NODES})
    line = [str(mpi.mpirun), *mpi.run_flags, "-n", "4", str(program), "1000", "1", "grid", "4"]
    return pretended, line


def _new_rank(text):
    """The new rank of each old one, as the program prints them."""
    return [int(line.split()[1]) for line in text.splitlines() if line[:1].isdigit()]


@pytest.mark.parametrize("mpi", FEW_MPI_NAMES, indirect=True)
def test_a_placed_job_is_reordered_and_its_seats_are_the_same(job, place, capfd):
    mpi, line = job
    placed = place(4)
    plain = run_placed(line, *placed, environment=mpi.env)
    assert _new_rank(capfd.readouterr().out) == [0, 1, 2, 3]
    record = run_placed(line, *placed, environment=mpi.env, reorder="1")
    captured = capfd.readouterr()
    assert _new_rank(captured.out) == NEW_RANK
    assert SAID in captured.err
    assert [replace(seat, pid=None) for seat in record.seats] == [
        replace(seat, pid=None) for seat in plain.seats
    ]
    assert len(record.seats) == 4


@pytest.mark.parametrize("mpi", FEW_MPI_NAMES, indirect=True)
def test_within_a_node_ranks_go_by_link(job, place, capfd):
    """Ranks 0 to 3 have devices 3 to 0; 0 and 2 are near each other, and 1 and 3."""
    mpi, line = job
    environment = {key: value for key, value in mpi.env.items() if "REORDER" not in key}
    placement, path = place(4)
    placement = replace(placement, metadata={"costs": "500;100,500;500,100,500"})
    save_placement(placement, path, overwrite=True)
    run_placed(line, placement, path, environment=environment, reorder="1")
    captured = capfd.readouterr()
    new_rank = _new_rank(captured.out)
    device = {new: 3 - old for old, new in enumerate(new_rank)}
    near = [{device[role], device[role + 1]} in ({0, 2}, {1, 3}) for role in range(3)]
    assert near == [True, False, True]
    assert "4 ranks on 1 node: 6 neighbour links cost 53 % less by link" in captured.err


@pytest.mark.parametrize("mpi", FEW_MPI_NAMES, indirect=True)
@pytest.mark.parametrize("asked", ["option", "variable"])
def test_without_a_placement_nothing_else_is_changed(job, asked, tmp_path, monkeypatch, capfd):
    mpi, line = job
    for name, value in mpi.env.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("TOPOSEAT_CACHE_DIR", str(tmp_path))
    options = ["--reorder"]
    if asked == "variable":
        monkeypatch.setenv("TOPOSEAT_REORDER", "quiet")
        options = []
    assert main(["run", *options, "--", *line]) == 0
    captured = capfd.readouterr()
    assert _new_rank(captured.out) == NEW_RANK
    assert (SAID in captured.err) == (asked == "option")
    assert "No placement: ranks are where the launcher put them" in captured.err


@pytest.mark.parametrize("mpi", FEW_MPI_NAMES, indirect=True)
def test_a_profile_records_the_permutation_and_nothing_of_the_reordering(job):
    mpi, line = job
    traffic, code = profile_run(line, environment=mpi.env, recording=Recording(reorder="1"))
    assert code == 0
    old_rank = [NEW_RANK.index(rank) for rank in range(4)]
    assert old_rank in [list(each.ranks) for each in traffic.communicators]
    assert traffic.metadata["reorder"] == "1"
    table = traffic.table(kind=TrafficKind.POINT_TO_POINT)
    sent = set(zip(table.source.tolist(), table.target.tolist(), strict=True))
    row = [(old_rank[i], old_rank[i + 1]) for i in range(3)]
    assert sent == {*row, *((b, a) for a, b in row)}
    assert table.bytes.tolist() == [1000] * 6
    assert {each.operation for each in traffic.collectives} == {"gather"}  # the program's own


def test_the_variable_asks_as_the_option_does():
    assert reordering(False, {}) == ""
    assert reordering(False, {"TOPOSEAT_REORDER": "0"}) == ""
    assert reordering(True, {"TOPOSEAT_REORDER": "0"}) == "1"
    assert reordering(True, {}) == "1"
    assert reordering(True, {"TOPOSEAT_REORDER": "quiet"}) == "quiet"
    assert reordering(False, {"TOPOSEAT_REORDER": "1"}) == "1"


def test_the_record_has_the_environment_of_the_job():
    variables = {"OMP_NUM_THREADS": "3", "OTHER": "1"}
    record = run_reordered(["./app"], "1", dry_run=True, environment=variables)
    assert record.environment == {"OMP_NUM_THREADS": "3"}


def test_a_dry_run_shows_the_library(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("TOPOSEAT_CACHE_DIR", str(tmp_path))
    assert main(["run", "--reorder", "--dry-run", "--", "./app"]) == 0
    shown = capsys.readouterr().out
    assert "libtoposeat_reorder.so -E TOPOSEAT_REORDER=1 -- ./app" in shown
    assert "--placement" not in shown
