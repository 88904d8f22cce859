"""Nouns in a program and a notebook: short reprs, HTML, lists and environments."""

from dataclasses import replace

import pytest

import toposeat
from tests.report.markup import Page, assert_nothing_from_outside

CONSTRAINTS = toposeat.Constraints(exclude=[3], pins={0: 8})


def nouns(machine, traffic):
    topology, messages = toposeat.read_topology(machine), toposeat.read_traffic(traffic)
    result = toposeat.map_traffic(topology, messages)
    placement = toposeat.placement_of(result, topology, messages)
    return {
        "8 ranks on": result,
        "8 x Tesla V100": topology,
        "20971520 bytes": messages,
        "at most": result.placed,
        "devices 0, 1, 2": placement,
        "local_rank=0": placement[0],
        "proved=True": result.certificate,
        "4 rings": toposeat.group_rate(topology, [0, 1, 2, 3]),
        "seed=7": toposeat.MapOptions(seed=7, constraints=CONSTRAINTS),
        "pins={0: 8}": CONSTRAINTS,
    }


def test_a_repr_is_one_short_line_and_html_is_there():
    found = nouns("dgx-1v", "stencil2d:2x4")
    shown = {type(noun).__name__ for noun in found.values()}
    assert shown == {name for name in toposeat.__all__ if name[0].isupper()} - {
        "ToposeatError",
        "UsageError",
    }
    for words, noun in found.items():
        assert words in repr(noun)
        assert len(repr(noun)) < 200
        assert "\n" not in str(noun)
        page = Page(noun._repr_html_())  # type: ignore[attr-defined]
        assert len(page.words) > 5
        assert not any("src" in attrs for _, attrs in page.tags)
        assert not any(name.startswith("on") for _, attrs in page.tags for name in attrs)


def test_a_repr_of_something_large_is_short_too():
    machine, traffic = "gb200-nvl72", "ring:72"
    result = toposeat.map_traffic(machine, traffic)
    for noun in (result, result.placed, toposeat.read_topology(machine)):
        assert len(repr(noun)) < 150
    assert len(repr(toposeat.Constraints(devices=range(10_000)))) < 150
    placement = toposeat.placement_of(result, machine, traffic)
    assert repr(placement).endswith(", ...>")


def test_a_repr_of_a_hostile_name_is_one_line():
    machine = replace(toposeat.read_topology("dgx-1v"), name="a\nb\x1b[31m" + 300 * "x")
    assert repr(machine).startswith("<Topology a\\nb\\x1b[31mxxx")
    assert len(repr(machine)) < 150


def test_styles_of_html_stay_in_it():
    html = toposeat.read_topology("dgx-1v")._repr_html_()
    style = html.split("<style>")[1].split("</style>")[0]
    rules = [rule.split("*/")[-1].strip() for rule in style.split("}") if "{" in rule]
    selectors = [each.strip() for rule in rules for each in rule.split("{")[0].split(",")]
    assert len(selectors) > 10
    assert all(each.startswith(".toposeat") for each in selectors)


def crossed():
    machine, traffic = "rtx-4-crossed-bridges", "llm:tp=2,pp=2"
    return toposeat.placement_of(toposeat.map_traffic(machine, traffic), machine, traffic)


def test_a_placement_is_a_list_and_an_environment():
    placement = crossed()
    assert placement.devices == [seat.index for seat in placement] == [0, 2, 1, 3]
    assert len(placement) == 4
    assert placement[-1].rank == 3
    order = {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": "0,2,1,3"}
    assert placement.environment() == order
    assert order.items() <= placement.environment(3).items()
    assert placement.export_lines() == [
        "export CUDA_DEVICE_ORDER=PCI_BUS_ID",
        "export CUDA_VISIBLE_DEVICES=0,2,1,3",
    ]


@pytest.mark.parametrize(
    ("machine", "variable", "expected"),
    [
        ("dgx-1v", "CUDA_VISIBLE_DEVICES", ["0", "0", "1", "1"]),
        ("mi250x-8", "ROCR_VISIBLE_DEVICES", ["0", "0", "1", "1"]),
        ("max1100-2", "ZE_AFFINITY_MASK", ["0", "0", "1", "1"]),
    ],
)
def test_ranks_that_share_a_device_see_it_alone(machine, variable, expected):
    options = toposeat.MapOptions(
        constraints=toposeat.Constraints(devices=[0, 1], slots=2, pins={0: 0, 1: 0, 2: 1, 3: 1})
    )
    result = toposeat.map_traffic(machine, "ring:4", options)
    placement = toposeat.placement_of(result, machine, "ring:4")
    assert [placement.environment(rank)[variable] for rank in range(4)] == expected
    with pytest.raises(toposeat.UsageError) as raised:
        placement.environment()
    assert "environment(rank)" in raised.value.hint
    assert raised.value.__notes__ == [f"hint: {raised.value.hint}"]  # a traceback shows it


def test_a_rank_has_its_nic():
    result = toposeat.map_traffic("dgx-1v", "ring:8")
    placement = toposeat.placement_of(result, "dgx-1v", "ring:8")
    for seat in placement:
        assert placement.environment(seat.rank)["UCX_NET_DEVICES"] == f"{seat.nic}:1"


def test_a_drawing_is_text():
    machine, traffic = "rtx-4-crossed-bridges", "llm:tp=2,pp=2"
    drawing = toposeat.draw(machine, traffic, toposeat.map_traffic(machine, traffic))
    assert "<svg" in drawing
    assert_nothing_from_outside(drawing)
