"""Placements on large machines: figures against sums over the machine's own routes."""

import numpy as np
import pytest

from toposeat import mapping, profile, topology
from toposeat.errors import InputError
from toposeat.model.topology import LinkKind

CONF = "SwitchName=top Switches=l[1-2]\nSwitchName=l1 Nodes=n[1-2]\nSwitchName=l2 Nodes=n[3-4]\n"
MACHINES = (
    "conf",
    "fattree:4:2:3",
    "hierarchy:2:3:4",
    "torus2d:3x4,devices=2",
    "dragonfly:3:2:2:2",
)
LEVELS = {
    "conf": {"leaf uplinks", "host ports", "pcie in hosts", "smp in hosts", "nvlink in hosts"},
    "fattree:4:2:3": {"device uplinks", "node uplinks", "leaf uplinks"},
    "hierarchy:2:3:4": {"device uplinks", "level 1 uplinks", "level 2 uplinks"},
    "torus2d:3x4,devices=2": {"X links", "Y links", "node links", "device links"},
    "dragonfly:3:2:2:2": {"local links", "global links", "node links", "device links"},
}


def _shape(text, tmp_path):
    if text != "conf":
        return mapping.read_shape(text)
    conf = tmp_path / "topology.conf"
    conf.write_text(CONF)
    network = topology.read_network(f"{conf},taper=2")
    return mapping.shape_of_network(network, topology.read_topology("dgx-1v"))


@pytest.mark.parametrize("text", MACHINES)
def test_figures_are_sums_over_routes(text, tmp_path):
    shape = _shape(text, tmp_path)
    traffic = profile.read_traffic("random:24,degree=4,seed=3")
    slots = np.random.default_rng(5).choice(shape.slots, 24, replace=False)
    found = mapping.SlotEvaluator(shape, traffic).evaluate(slots)
    machine, table = shape.machine, traffic.mapped_table()
    loads = dict.fromkeys(range(machine.links), 0.0)
    for a, b, size in zip(table.source, table.target, table.bytes, strict=True):
        for link in machine.route(int(slots[a]), int(slots[b])):
            loads[link] += float(size)
    seconds = {link: load / machine.capacity(link) for link, load in loads.items()}
    names = {link: machine.link_name(link) for link in loads}
    one_way = {link for link in loads if not names[link].endswith("both directions")}
    assert found.hop_bytes == pytest.approx(sum(loads[link] for link in one_way))
    assert found.max_congestion_s == pytest.approx(max(seconds.values()))
    assert found.mean_congestion_s == pytest.approx(np.mean(list(seconds.values())))
    assert found.links[0].congestion_s == found.max_congestion_s
    listed = [load.congestion_s for load in found.links]
    busy = sorted((value for value in seconds.values() if value > 0), reverse=True)
    assert listed == pytest.approx(busy[: len(listed)])
    by_name = {}
    for link, name in names.items():
        by_name.setdefault(name, []).append(seconds[link])
    assert all(load.congestion_s in by_name[load.link] for load in found.links)
    assert {load.level for load in found.levels} == LEVELS[text]
    assert sum(load.links for load in found.levels) == machine.links
    assert sum(load.bytes for load in found.levels) == pytest.approx(found.hop_bytes)
    assert max(load.max_congestion_s for load in found.levels) == found.max_congestion_s
    mean = sum(load.mean_congestion_s * load.links for load in found.levels) / machine.links
    assert mean == pytest.approx(found.mean_congestion_s)


def test_levels_hold_the_links_that_their_names_say(tmp_path):
    shape = _shape("conf", tmp_path)
    links = shape.link_levels()
    for link, level in enumerate(links.level_of_link):
        name, kind = shape.machine.link_name(link), links.levels[level].kind
        assert links.levels[level].is_hop != name.endswith("both directions")
        assert (kind is LinkKind.NETWORK) == (name.startswith(("l1", "l2", "top")))
        assert (kind is LinkKind.NIC) == (" port " in name)


def test_ranks_on_one_slot_use_no_links_together(tmp_path):
    shape = _shape("torus2d:3x4,devices=2", tmp_path)
    found = mapping.SlotEvaluator(shape, profile.read_traffic("ring:3")).evaluate([5, 5, 5])
    assert (found.predicted_s, found.hop_bytes, found.links) == (0, 0, ())


def test_more_ranks_than_slots_are_refused(tmp_path):
    with pytest.raises(InputError, match="do not fit on the 24 slots"):
        mapping.SlotEvaluator(_shape("fattree:4:2:3", tmp_path), profile.read_traffic("ring:25"))
