"""Why a placement of a large job: moves and bottlenecks against the machine's own routes."""

from __future__ import annotations

import json
from collections import Counter

import numpy as np
import pytest

from tests.mapping.test_slot_evaluation import MACHINES, _shape
from toposeat import mapping, profile, report
from toposeat.mapping.explain_slots import explain_slots
from toposeat.mapping.slot_evaluation import SlotEvaluator
from toposeat.model.map_options import MapOptions
from toposeat.model.result_file import parse_mapping

TRAFFIC = "random:24,degree=4,seed=3"


@pytest.mark.parametrize("text", MACHINES)
def test_moves_and_bottlenecks_are_those_of_the_routes(text, tmp_path):
    shape, traffic = _shape(text, tmp_path), profile.read_traffic(TRAFFIC)
    machine, table = shape.machine, traffic.mapped_table()
    default = np.arange(24, dtype=np.uint32)
    placed = np.random.default_rng(5).choice(shape.slots, 24, replace=False).astype(np.uint32)
    found = explain_slots(
        shape, traffic, *map(SlotEvaluator(shape, traffic).evaluate, (default, placed))
    )
    links = shape.link_levels()
    level = [links.levels[each] for each in links.level_of_link]

    def routes(slots):
        return [
            machine.route(int(slots[a]), int(slots[b]))
            for a, b in zip(table.source, table.target, strict=True)
        ]

    def names(route):
        return frozenset(level[link].name for link in route if level[link].is_hop)

    moved = Counter()
    for size, old, new in zip(table.bytes.tolist(), routes(default), routes(placed), strict=True):
        if names(old) != names(new):
            moved[names(old), names(new)] += size
    assert found.moved_bytes == sum(moved.values())
    assert found.kinds_of_moves == len(moved)
    told = [(each.links_before, each.links_after, each.bytes) for each in found.moves]
    assert [size for _, _, size in told] == sorted(moved.values(), reverse=True)[: len(told)]
    assert all(moved[frozenset(old), frozenset(new)] == size for old, new, size in told)
    for slots, bottleneck in ((default, found.before), (placed, found.after)):
        users = {}
        for at, route in enumerate(routes(slots)):
            for link in route:
                users.setdefault(link, []).append(at)
        seconds = {
            link: float(table.bytes[pairs].sum()) / machine.capacity(link)
            for link, pairs in users.items()
        }
        assert bottleneck.congestion_s == pytest.approx(max(seconds.values()))
        (busiest,) = [
            link
            for link in users
            if machine.link_name(link) == bottleneck.link
            and seconds[link] == pytest.approx(bottleneck.congestion_s)
        ]
        assert level[busiest].name == bottleneck.level
        assert bottleneck.pairs == len(users[busiest])
        assert bottleneck.bytes == table.bytes[users[busiest]].sum()
        heaviest = sorted(table.bytes[users[busiest]].tolist(), reverse=True)
        assert [load.bytes for load in bottleneck.loads] == heaviest[: len(bottleneck.loads)]


def test_a_gain_that_is_not_worth_it_keeps_the_default():
    shape, traffic = mapping.read_shape("hierarchy:4:8:8"), profile.read_traffic("stencil2d:8x16")
    plain = mapping.map_to_shape(shape, traffic, MapOptions())
    gain = 1 - plain.placed.predicted_s / plain.default.predicted_s
    assert gain > 0
    less = mapping.map_to_shape(shape, traffic, MapOptions(min_gain=gain * 0.99))
    assert less.device_of_rank == plain.device_of_rank
    kept = mapping.map_to_shape(shape, traffic, MapOptions(min_gain=gain * 1.01, explained=True))
    assert kept.kept_default
    assert kept.moved_ranks == []
    assert kept.placed == kept.default
    assert any("not worth moving ranks" in note for note in kept.notes)
    assert kept.explanation.moved_pairs == 0


def test_json_gives_back_what_was_explained():
    shape, traffic = mapping.read_shape("fattree:4:2:3"), profile.read_traffic(TRAFFIC)
    result = mapping.map_to_shape(shape, traffic, MapOptions(explained=True))
    text = json.dumps(report.mapping_json(result, None, traffic))
    again = parse_mapping(text, "x")
    assert again.explanation == result.explanation
    both = [report.render_mapping_text(each, None, traffic) for each in (again, result)]
    assert both[0] == both[1]
