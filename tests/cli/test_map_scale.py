"""`toposeat map -t SHAPE`: text, JSON, placement file, and what a shape cannot take."""

from __future__ import annotations

import json

import pytest

from toposeat.cli.main import main
from toposeat.model.placement_file import load_placement

TRAFFIC = "stencil2d:8x16"
SHAPE = "hierarchy:4:8:8,costs=1:10:100"


def test_text_shows_before_and_after(capsys):
    assert main(["map", TRAFFIC, "-t", SHAPE, "--objective", "cost"]) == 0
    out = capsys.readouterr().out
    assert "256 slots" in out
    assert "worst link congestion" in out
    assert "8x16 process grid" in out


def test_json_is_sparse_and_its_seats_are_distinct(capsys):
    assert main(["map", TRAFFIC, "-t", SHAPE, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["schema"] == "toposeat/scale/1"
    assert len(set(document["device_of_rank"])) == document["ranks"] == 128
    assert document["placed"]["predicted_s"] <= document["default"]["predicted_s"]
    assert document["certificate"]["word"] == "heuristic"
    assert "links" not in document["placed"]


def test_the_placement_file_names_host_and_device(tmp_path, capsys):
    target = tmp_path / "job.place"
    command = ["map", TRAFFIC, "-t", SHAPE, "--objective", "cost", "-o", str(target)]
    assert main(command) == 0
    assert f"Wrote {target}" in capsys.readouterr().err
    placement = load_placement(target)
    assert placement.ranks == 128
    assert {seat.host for seat in placement.seats} <= {f"node{n}" for n in range(8)}
    assert max(seat.index for seat in placement.seats) < 32
    assert main(command) == 2  # never overwritten without -f


@pytest.mark.parametrize(
    ("options", "cause"),
    [
        (["--pin", "0=1"], "--pin needs a topology with devices"),
        (["--devices", "0-3"], "--devices needs a topology with devices"),
        (["--html", "page.html"], "--html needs a topology with devices"),
        (["--metric", "latency"], "--metric needs a topology with devices"),
        (["--solver", "exact"], "solver 'exact' does not map onto the shape of a machine"),
    ],
)
def test_what_a_shape_cannot_take(options, cause, capsys):
    assert main(["map", TRAFFIC, "-t", SHAPE, *options]) == 2
    captured = capsys.readouterr()
    assert cause in captured.err
    assert "hint:" in captured.err
    assert captured.out == ""


def test_ranks_that_do_not_fit(capsys):
    assert main(["map", TRAFFIC, "-t", "hierarchy:4:8"]) == 1
    assert "128 ranks do not fit on the 32 slots" in capsys.readouterr().err
