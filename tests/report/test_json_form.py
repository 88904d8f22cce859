import json
import math
from dataclasses import replace

import numpy as np
import pytest

from tests.report import samples
from toposeat.installed import VERSION
from toposeat.model.placement import HostDevice, Placement, Seat
from toposeat.model.placement_file import PLACEMENT_SCHEMA
from toposeat.model.result_file import RUN_SCHEMA, parse_mapping, parse_run
from toposeat.model.traffic import MemorySpace, PairTable, Traffic, TrafficKind
from toposeat.report import (
    comparison_json,
    document,
    json_text,
    mapping_json,
    profile_json,
)
from toposeat.topology.sources import read_topology
from toposeat.topology.topology_file import TOPOLOGY_SCHEMA, topology_document

PREDICTIONS = {
    *("max_congestion_s", "mean_congestion_s", "cost", "hop_bytes", "predicted_s", "links"),
}


def strict(text):
    def refuse(word):
        raise AssertionError(f"{word} in JSON")

    return json.loads(text, parse_constant=refuse)


def test_mapping_has_what_the_design_asks_for():
    tree, traffic = samples.k80_16(), samples.stencil((2, 2, 4), weight=3)
    form = strict(
        json_text(mapping_json(samples.mapping(tree, traffic, samples.K80_PLACED), tree, traffic))
    )
    assert form["schema"] == "toposeat/mapping/3"
    assert form["version"] == VERSION
    assert form["device_of_rank"] == list(samples.K80_PLACED)
    for which in ("default", "placed"):
        assert form[which].keys() >= PREDICTIONS
        loads = form[which]["links"]
        assert all(load.keys() == {"link", "kind", "bytes", "congestion_s"} for load in loads)
        seconds = [load["congestion_s"] for load in loads]
        assert seconds == sorted(seconds, reverse=True)
    assert form["default"]["links"][0]["kind"] == "smp"
    assert form["certificate"].keys() == {
        *(
            "proved",
            "lower_bound",
            "gap",
            "objective",
            "value",
            "word",
            "reason",
            "everywhere",
            "orders_tried",
        )
    }
    assert form["certificate"]["word"] == "proved"
    assert form["solver"] == "exact"
    assert form["solve_seconds"] == 0.0123
    assert form["device_ids"][1] == "gpu2"
    assert (form["objective"], form["metric"]) == ("congestion", "bandwidth")
    assert (form["topology"], form["notes"]) == ("k80-16", [])


def test_printed_mapping_can_be_loaded(tmp_path):
    tree, traffic = samples.small_tree(), samples.stencil((4,))
    result = samples.mapping(tree, traffic, (1, 0, 2, 3), proved=False)
    path = tmp_path / "mapping.json"
    path.write_text(json_text(mapping_json(result, tree, traffic)))
    assert parse_mapping(path.read_text(), path) == result


def test_printed_topology_can_be_loaded(tmp_path):
    for topology in (samples.small_tree(), samples.mesh_8(), samples.one_device()):
        path = tmp_path / f"{topology.name}.json"
        path.write_text(json_text(document(TOPOLOGY_SCHEMA, topology_document(topology))))
        assert read_topology(path) == topology
    form = document(TOPOLOGY_SCHEMA, topology_document(samples.small_tree()))
    assert form.keys() >= {"schema", "version", "devices", "links", "nics", "routes", "report"}
    assert len(form["devices"]) == 4
    assert form["report"] == ["the link widths were not read"]


def test_printed_run_can_be_loaded(tmp_path):
    record = samples.run_record()
    path = tmp_path / "run.json"
    path.write_text(json_text(document(RUN_SCHEMA, record)))
    assert parse_run(path.read_text(), path) == record
    assert document(RUN_SCHEMA, record)["seats"][1]["verdict"] == "mismatch"
    assert document(RUN_SCHEMA, record)["verdict"] == "mismatch"


def test_runs_of_older_versions_have_no_verdict_of_the_job(tmp_path):
    form = document(RUN_SCHEMA, samples.run_record())
    del form["verdict"]
    for seat in form["seats"]:
        del seat["used_device"]
    path = tmp_path / "run.json"
    path.write_text(json_text(form))
    assert parse_run(path.read_text(), path) == replace(samples.run_record(), verdict=None)


def test_numbers_that_are_not_become_null():
    tree, traffic = samples.small_tree(), samples.stencil((4,))
    result = samples.mapping(tree, traffic, range(4))
    worse = replace(result.placed, predicted_s=math.inf, cost=math.nan)
    form = strict(json_text(mapping_json(replace(result, placed=worse), tree, traffic)))
    assert form["placed"]["predicted_s"] is None
    assert form["placed"]["cost"] is None


def test_profile_is_dense_up_to_256_ranks():
    form = strict(json_text(profile_json(samples.timed(samples.stencil((4,))))))
    device = form["traffic"]["point-to-point"]["device"]
    assert form["ranks"] == 4
    assert device["form"] == "dense"
    mib = 2**20
    assert device["bytes"] == [
        [0, mib, 0, 0],
        [mib, 0, mib, 0],
        [0, mib, 0, mib],
        [0, 0, mib, 0],
    ]
    assert device["messages"][0] == [0, 10, 0, 0]
    assert form["traffic"]["point-to-point"]["host"]["bytes"][0][3] == 4096
    assert sum(device["message_size_histogram"]) == 60
    times = form["time"]["ranks"]
    assert [t["rank"] for t in times] == [0, 1, 2, 3]
    assert (times[0]["wall_s"], times[0]["mpi_s"], times[0]["finalized"]) == (10.0, 2.2, True)
    assert form["mapped_space"] == "device"


def test_profile_is_sparse_above_256_ranks():
    table = PairTable.from_pairs([0, 256], [256, 3], [10, 20], [1, 2])
    traffic = Traffic(
        ranks=257,
        origin="test",
        tables={(TrafficKind.COLLECTIVE, MemorySpace.HOST): table},
        collective_model="ring",
    )
    form = strict(json_text(profile_json(traffic)))
    host = form["traffic"]["collective"]["host"]
    assert host["form"] == "sparse"
    assert host["bytes"] == [[0, 256, 10], [256, 3, 20]]
    assert host["messages"] == [[0, 256, 1], [256, 3, 2]]
    assert form["collective_model"] == "ring"
    nothing = {"timed": False, "mpi_share": None, "gain_share": None, "parts": [], "ranks": []}
    assert form["time"] == nothing


def test_empty_traffic():
    form = strict(json_text(profile_json(Traffic(ranks=1, origin="x", tables={}))))
    assert form["traffic"] == {}
    assert form["mapped_space"] is None


def test_placement_and_comparison():
    placement = Placement(
        seats=(Seat(rank=0, local_rank=0, index=2, cpus="0-3"),),
        devices_of_host={"*": (HostDevice(index=2),)},
        vendor="nvidia",
    )
    form = strict(json_text(document(PLACEMENT_SCHEMA, placement)))
    assert form["schema"] == "toposeat/placement/1"
    assert form["seats"][0]["index"] == 2
    assert form["seats"][0]["nic"] is None
    assert form["devices_of_host"]["*"][0]["index"] == 2
    tree, traffic = samples.small_tree(), samples.stencil((4,))
    result = samples.mapping(tree, traffic, (1, 0, 2, 3))
    rows = comparison_json([("default", result.default), ("a", result.placed)], tree.name, traffic)
    assert [row["name"] for row in rows["predicted"]] == ["default", "a"]
    assert rows["predicted"][0].keys() >= PREDICTIONS


def test_json_text_is_exact_and_keeps_numpy_out():
    assert json_text({"a": 1, "b": [1, 2.5], "c": [], "d": {}, "e": ["ä"]}) == (
        '{\n  "a": 1,\n  "b": [1, 2.5],\n  "c": [],\n  "d": {},\n  "e": ["ä"]\n}\n'
    )
    with pytest.raises(TypeError):
        json_text({"a": np.int64(1)})
    with pytest.raises(ValueError, match="not JSON compliant"):
        json_text({"a": math.nan})
