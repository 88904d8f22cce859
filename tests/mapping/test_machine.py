"""One machine: which of its forms answers, and that the better of both searches is taken."""

import pytest

from toposeat import evaluation, mapping, pipeline, profile, topology
from toposeat.mapping import Machine
from toposeat.model.map_options import Constraints, MapOptions


@pytest.fixture
def machine(tmp_path):
    return network_of(tmp_path, 4, "hgx-h100")


def network_of(folder, per_leaf, node):
    """Two leaf switches whose uplinks carry a quarter; hosts from each in turns."""
    conf = folder / "topology.conf"
    conf.write_text(
        f"SwitchName=s1 Nodes=node[1-{per_leaf}]\n"
        f"SwitchName=s2 Nodes=node[{per_leaf + 1}-{2 * per_leaf}]\n"
        "SwitchName=top Switches=s[1-2]\n"
    )
    network = topology.read_network(f"{conf},taper=4")
    order = [f"node{at + 1 + half * per_leaf}" for at in range(per_leaf) for half in range(2)]
    return Machine.of_network(topology.allocated(network, order), topology.read_topology(node))


def mapped(machine, job, options=None):
    return pipeline.map_on_path(
        machine,
        profile.pattern_traffic(job),
        options or MapOptions(budget_s=0.5),
        pipeline.StackPath(),
    )


def test_what_the_search_over_hosts_finds_is_not_missed(machine):
    """Judged on the listed machine; the order of nodes is what a search by pairs misses."""
    job = "llm:tp=8,dp=8"
    traffic, options = profile.pattern_traffic(job), MapOptions(budget_s=0.5)
    listed, shape = machine.topology, machine.shape
    assert listed is not None
    assert shape is not None
    evaluator = evaluation.Evaluator(listed, traffic)
    default = evaluator.predicted_s(evaluator.default)
    row = mapping.map_to_shape(shape, traffic, options).device_of_rank
    assert evaluator.evaluate(row).predicted_s < 0.65 * default
    found = mapped(machine, job, options)
    assert found.placed.predicted_s < 0.75 * default
    assert found.placed.predicted_s == evaluator.evaluate(found.device_of_rank).predicted_s


def test_a_result_of_a_network_has_what_both_forms_know(machine):
    found = mapped(machine, "llm:tp=8,dp=8")
    assert found.premises is not None  # a range, by rates that are assumed
    assert {load.level for load in found.placed.levels} >= {"leaf uplinks", "nvlink in hosts"}
    assert len(found.placed.hosts_s) == len(found.hosts) == 8
    assert found.stages
    halves = {frozenset(found.hosts_by_first_rank[at : at + 4]) for at in (0, 4)}
    assert halves == {frozenset(f"node{n}" for n in r) for r in (range(1, 5), range(5, 9))}


def test_a_metric_of_pairs_is_minimised_on_a_network(machine):
    options = MapOptions(budget_s=0.2, objective="cost", metric="latency")
    found = mapped(machine, "stencil2d:8x8", options)
    assert found.metric == "latency"
    assert found.placed.cost <= found.default.cost


def test_a_pin_holds_on_a_network(machine):
    options = MapOptions(budget_s=0.2, constraints=Constraints(pins={0: 13}))
    assert mapped(machine, "stencil2d:8x8", options).device_of_rank[0] == 13


def test_size_and_what_is_asked_decide_which_form_answers(tmp_path, machine):
    assert machine.listed() is machine.topology is not None
    larger = network_of(tmp_path, 8, "hgx-h100")  # 128 devices
    assert larger.listed() is None
    assert larger.listed(MapOptions(solver="exact")) is larger.topology is not None
    assert larger.listed(wanted=True) is larger.topology
    huge = network_of(tmp_path, 32, "hgx-h100")  # 512 devices
    assert huge.topology is huge.listed(wanted=True) is None
    node = topology.read_topology("dgx-1v")
    assert Machine.of(node).listed() is node
    shape = Machine.of_shape(mapping.read_shape("hierarchy:4:2"))
    assert shape.listed(wanted=True) is None
