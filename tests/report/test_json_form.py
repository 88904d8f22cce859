"""What is printed as JSON can be loaded; `test_expected` has the forms."""

import math
from dataclasses import replace

import numpy as np
import pytest

from tests.report import samples
from toposeat.model.result_file import RUN_SCHEMA, parse_mapping, parse_run
from toposeat.report import (
    document,
    json_text,
    mapping_json,
)
from toposeat.topology import read_topology, topology_document


def test_printed_mapping_can_be_loaded(tmp_path):
    tree, traffic = samples.small_tree(), samples.stencil((4,))
    result = samples.mapping(tree, traffic, (1, 0, 2, 3), proved=False)
    path = tmp_path / "mapping.json"
    path.write_text(json_text(mapping_json(result, tree, traffic)))
    assert parse_mapping(path.read_text(), path) == result


def test_printed_topology_can_be_loaded(tmp_path):
    for topology in (samples.small_tree(), samples.mesh_8(), samples.one_device()):
        path = tmp_path / f"{topology.name}.json"
        members = topology_document(topology)
        path.write_text(json_text(document(members["schema"], members)))
        assert read_topology(path) == topology


def test_printed_run_can_be_loaded(tmp_path):
    record = samples.run_record()
    path = tmp_path / "run.json"
    path.write_text(json_text(document(RUN_SCHEMA, record)))
    assert parse_run(path.read_text(), path) == record


def test_runs_of_older_versions_have_no_verdict_of_the_job(tmp_path):
    form = document(RUN_SCHEMA, samples.run_record())
    del form["verdict"]
    for seat in form["seats"]:
        del seat["used_device"]
    path = tmp_path / "run.json"
    path.write_text(json_text(form))
    assert parse_run(path.read_text(), path) == replace(samples.run_record(), verdict=None)


def test_json_text_is_exact_and_keeps_numpy_out():
    assert json_text({"a": 1, "b": [1, 2.5], "c": [], "d": {}, "e": ["ä"]}) == (
        '{\n  "a": 1,\n  "b": [1, 2.5],\n  "c": [],\n  "d": {},\n  "e": ["ä"]\n}\n'
    )
    with pytest.raises(TypeError):
        json_text({"a": np.int64(1)})
    with pytest.raises(ValueError, match="not JSON compliant"):
        json_text({"a": math.nan})
