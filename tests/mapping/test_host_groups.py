"""Groups of near hosts, against the routes of the machines themselves."""

import numpy as np
import pytest

from toposeat import mapping, profile, topology

CONF = """SwitchName=top Switches=pod[1-2]
SwitchName=pod1 Switches=l[1-2]
SwitchName=pod2 Switches=l[3-4]
SwitchName=l1 Nodes=n[1-2]
SwitchName=l2 Nodes=n[3-5]
SwitchName=l3 Nodes=n[6-7]
SwitchName=l4 Nodes=n[8-9]
"""
GROUPS = {  # of each machine, stage by stage
    "conf": [[2, 3, 2, 2], [5, 4]],
    "conf,rails=4": [[2, 3, 2, 2], [5, 4]],
    "fattree:4:2:3": [[2, 2, 2]],
    "fattree:2:2:2:2": [[2, 2, 2, 2], [4, 4]],
    "hierarchy:2:3:4": [[4]],
    "torus2d:3x4,devices=2": [[4, 4, 4]],
    "dragonfly:3:2:2:2": [[4, 4, 4]],
}


def _shape(text, tmp_path):
    if not text.startswith("conf"):
        return mapping.read_shape(text)
    conf = tmp_path / "topology.conf"
    conf.write_text(CONF)
    network = topology.read_network(f"{conf},taper=2{text.removeprefix('conf')}")
    return mapping.shape_of_network(network, topology.read_topology("dgx-1v"))


@pytest.mark.parametrize("text", GROUPS)
def test_uplinks_are_what_routes_between_groups_cross(text, tmp_path):
    shape = _shape(text, tmp_path)
    groups = shape.host_groups()
    assert [[len(group.hosts) for group in stage] for stage in groups.stages] == GROUPS[text]
    some = range(0, shape.slots, 3 if shape.slots > 40 else 1)
    routes = {(a, b): set(shape.machine.route(a, b)) for a in some for b in some if a != b}
    for (a, b), route in routes.items():
        here, there = a // shape.slots_per_host, b // shape.slots_per_host
        for host, way in ((here, 0), (there, 1)):
            assert bool(route & set(groups.ports[host, way::2].tolist())) == (here != there)
        for stage in groups.stages:
            out, into = (
                next(each for each in stage if host in each.hosts) for host in (here, there)
            )
            if out is into and "rails" in text:  # from rail to rail over the spine
                continue
            assert bool(route & set(out.out.tolist())) == (out is not into)
            if into.into.size:
                assert bool(route & set(into.into.tolist())) == (out is not into)


@pytest.mark.parametrize("text", ["conf", "fattree:2:2:2:2", "dragonfly:3:2:2:2"])
def test_capacities_and_loads_are_those_of_the_links(text, tmp_path):
    shape = _shape(text, tmp_path)
    ranks = shape.slots
    evaluator = mapping.SlotEvaluator(
        shape, profile.read_traffic(f"random:{ranks},degree=3,seed=2")
    )
    found = evaluator.evaluate(np.random.default_rng(1).permutation(shape.slots))
    groups, capacity = shape.host_groups(), shape.machine.capacity
    for stage, nouns, busy in zip(groups.stages, evaluator.stages, found.stages_s, strict=True):
        for links, noun, seconds in zip(stage, nouns, busy, strict=True):
            assert noun.out_bytes_per_s == pytest.approx(sum(capacity(int(k)) for k in links.out))
            assert noun.hosts_bytes_per_s == pytest.approx(
                sum(capacity(int(k)) for host in noun.hosts for k in groups.ports[host, ::2])
            )
            assert 0 < seconds <= found.max_congestion_s
    levels = {load.level: load.max_congestion_s for load in found.levels}
    last = "global links" if text.startswith("dragonfly") else "leaf uplinks"
    assert max(found.stages_s[0]) == pytest.approx(levels[last])
    ports = {"conf": "host ports", "fattree:2:2:2:2": "node uplinks"}.get(text, "node links")
    assert max(found.hosts_s) == pytest.approx(levels[ports])


def test_a_machine_of_many_hosts_has_no_groups():
    shape = mapping.read_shape("fattree:2:64:128")
    assert shape.host_groups().stages == ()
    assert (
        mapping.SlotEvaluator(shape, profile.read_traffic("ring:8")).evaluate(range(8)).hosts_s
        == ()
    )


def test_a_torus_of_a_network_is_shown_at_one_stage():
    network = topology.read_network("torus3d:4x4x4,nodes=2")
    shape = mapping.shape_of_network(network, topology.read_topology("dgx-1v"))
    ((*stage,),) = shape.host_groups().stages
    assert sorted(host for group in stage for host in group.hosts) == list(range(128))
