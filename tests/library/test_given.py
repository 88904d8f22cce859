"""Names, paths, arrays and lists where a noun goes; anything else is refused in Python's words."""

import json
from pathlib import Path

import numpy as np
import pytest

import toposeat
from toposeat.cli.main import main

CELLS = [[0, 5_000_000, 0, 7], [5_000_000, 0, 3, 0], [0, 3, 0, 9_000_000], [7, 0, 9_000_000, 0]]
EDGES = [(i, j, size) for i, row in enumerate(CELLS) for j, size in enumerate(row) if size]


@pytest.mark.parametrize(
    "given", [CELLS, np.array(CELLS), np.array(CELLS, float), EDGES, tuple(EDGES)]
)
def test_numbers_are_the_traffic_of_their_file(given, tmp_path):
    file = tmp_path / "cells.csv"
    file.write_text("\n".join(",".join(map(str, row)) for row in CELLS))
    expected = toposeat.read_traffic(file).table()
    assert toposeat.read_traffic(given).table() == expected
    machine = toposeat.read_topology("dgx-1v")
    by_numbers = toposeat.evaluate("dgx-1v", given, range(4))
    assert by_numbers == toposeat.evaluate(machine, str(file), [0, 1, 2, 3])


def test_edges_have_as_many_ranks_as_said():
    assert toposeat.read_traffic([(0, 1, 1e6), (0, 1, 5, 3)], ranks=6).ranks == 6
    table = toposeat.read_traffic([(0, 1, 10), (0, 1, 5, 3)]).table()
    assert (table.bytes.tolist(), table.messages.tolist()) == ([15], [4])


def test_everything_that_is_a_placement_has_one_evaluation(tmp_path):
    result = toposeat.map_traffic("k80-16", "stencil2d:4x4")
    placement = toposeat.placement_of(result, "k80-16", "stencil2d:4x4")
    toposeat.save_placement(placement, tmp_path / "a.place")
    row = list(result.device_of_rank)
    for given in (
        *(placement, result, result.placed, row, np.array(row), iter(row), dict(enumerate(row))),
        *(tmp_path / "a.place", str(tmp_path / "a.place")),
    ):
        assert toposeat.evaluate("k80-16", "stencil2d:4x4", given) == result.placed
    assert placement.metadata["topology"] == "k80-16"
    assert placement.metadata["traffic"] == "stencil2d:4x4"


def test_rates_are_a_matrix_and_make_a_machine():
    """Referee: the clock of the flow model, for one large message alone."""
    machine = toposeat.read_topology("dgx-1v")
    rates = machine.rates()
    assert rates.shape == (8, 8)
    size = 1 << 34
    for i, j in ((0, 1), (0, 3), (0, 7), (5, 2)):
        alone = toposeat.evaluate(machine, [(0, 1, size)], [i, j]).predicted_s
        assert size / alone == pytest.approx(rates[i, j], rel=1e-3)
    rates[3, 3] = np.nan
    again = toposeat.read_topology(rates)
    off = ~np.eye(8, dtype=bool)
    assert again.rates()[off] == pytest.approx(rates[off])


def test_several_files_are_one_machine(tmp_path):
    toposeat.save_topology(toposeat.read_topology("dgx-1v"), tmp_path / "a.json")
    assert toposeat.read_topology([tmp_path / "a.json"]).rates().shape == (8, 8)


def test_a_network_is_mapped_onto_as_by_the_command(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("t.conf").write_text(
        "SwitchName=top Switches=a,b\nSwitchName=a Nodes=n[1-2]\nSwitchName=b Nodes=n[3-4]\n"
    )
    words = {"node": "hgx-h100", "hosts": "n[1,3,2,4]"}
    machine = toposeat.read_topology("t.conf,taper=4", **words)
    result = toposeat.map_traffic(machine, "llm:tp=8,dp=4")
    line = ["map", "llm:tp=8,dp=4", "-t", "t.conf,taper=4", "-o", "command.place", "--json"]
    assert main([*line, "--node", words["node"], "--hosts", words["hosts"]]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["device_of_rank"] == list(result.device_of_rank)
    assert not result.kept_default
    assert toposeat.evaluate(machine, "llm:tp=8,dp=4", result).predicted_s == pytest.approx(
        result.placed.predicted_s
    )
    placement = toposeat.placement_of(result, machine, "llm:tp=8,dp=4")
    command = toposeat.load_placement("command.place")
    assert placement.seats == command.seats
    keys = ("source", "node", "hosts", "traffic")
    assert [placement.metadata[key] for key in keys] == [command.metadata[key] for key in keys]


def test_a_network_is_all_its_hosts():
    machine = toposeat.read_topology("torus2d:2x2", node="hgx-h100", hosts=["node3", "node0"])
    assert machine.hosts == ("node3", "node0")
    assert len(machine.devices) == 16
    with pytest.raises(toposeat.UsageError, match="too many devices to list"):
        toposeat.read_topology("torus3d:4x4x4", node="hgx-h100")


MACHINE = toposeat.read_topology("dgx-1v")
TRAFFIC = toposeat.read_traffic("ring:8")
RESULT = toposeat.map_traffic(MACHINE, TRAFFIC)
PLACEMENT = toposeat.placement_of(RESULT, MACHINE, TRAFFIC)
PUBLIC = {name: getattr(toposeat, name) for name in toposeat.__all__}
# Call, words of the cause, words of the hint.
WRONG = Path(__file__).with_name("wrong.txt").read_text(encoding="utf-8").splitlines()


@pytest.mark.parametrize("line", WRONG)
def test_what_is_wrong_is_said_in_pythons_words(line):
    call, cause, hint = line.split(" | ")
    with pytest.raises(toposeat.ToposeatError) as raised:
        eval(call, {**PUBLIC, **globals()})
    assert cause in raised.value.message
    assert hint in raised.value.hint


def test_a_graph_is_traffic():
    networkx = pytest.importorskip("networkx")
    ring = networkx.cycle_graph(5)
    networkx.set_edge_attributes(ring, 1000, "weight")
    ring.add_node(5)  # a rank that is silent
    one_way = networkx.DiGraph([(0, 1, {"weight": 7}), (1, 2, {"weight": 8})])
    for graph in (ring, one_way):
        sent = networkx.to_numpy_array(graph, nodelist=sorted(graph))
        read, expected = toposeat.read_traffic(graph), toposeat.read_traffic(sent)
        assert read.ranks == expected.ranks == len(graph)
        for column in ("source", "target", "bytes"):
            one, other = (getattr(each.mapped_table(), column) for each in (read, expected))
            assert one.tolist() == other.tolist()
    with pytest.raises(toposeat.ToposeatError, match="no weight"):
        toposeat.read_traffic(networkx.path_graph(3))
    with pytest.raises(toposeat.ToposeatError, match="not the ranks"):
        toposeat.read_traffic(networkx.Graph([("a", "b", {"weight": 1})]))
