"""Routes with limits of their own: what they hold, what is refused, and where a file says so."""

import dataclasses
import json

import pytest

from tests.model.samples import pair_topology
from toposeat.errors import InputError
from toposeat.model.quantity import Quantity, Source, nominal
from toposeat.model.route import CurvePoint, Route, RouteCurve
from toposeat.model.topology import Component, ComponentKind, Link, LinkKind
from toposeat.topology.sources import read_topology
from toposeat.topology.topology_file import save_topology


def curve(*points):
    return RouteCurve(
        points=tuple(
            CurvePoint(message_bytes=size, latency_s=latency, bytes_per_s=rate)
            for size, latency, rate in points
        )
    )


def staged_pair():
    """Two devices below one switch whose copies go through the memory above it."""

    def link(name, *ends):
        return Link(
            id=name,
            kind=LinkKind.PCIE,
            ends=(ends[0], ends[1]),
            forward_bytes_per_s=nominal(10e9),
            backward_bytes_per_s=nominal(10e9),
            latency_s=nominal(1e-6),
        )

    return dataclasses.replace(
        pair_topology(),
        components=(
            Component(id="s", kind=ComponentKind.SWITCH),
            Component(id="m", kind=ComponentKind.NUMA),
        ),
        links=(link("l0", "gpu0", "s"), link("l1", "gpu1", "s"), link("up", "s", "m")),
        routes=(
            Route(
                source="gpu0",
                target="gpu1",
                links=("l0", "up", "up", "l1"),
                staged=True,
                latency_s=Quantity(19e-6, Source.MEASURED),
                cap_bytes_per_s=nominal(9e9),
                combined_bytes_per_s=nominal(11e9),
                curve=curve((1024, 19e-6, 1e9), (1 << 20, 25e-6, 9e9)),
            ),
            Route(source="gpu1", target="gpu0", links=("l1", "l0")),
        ),
    )


def test_a_staged_route_goes_back_over_a_link_and_no_other_does():
    machine = staged_pair()
    direct = dataclasses.replace(machine.routes[0], staged=False)
    with pytest.raises(ValueError, match="gpu0 -> gpu1 uses a link twice: only a staged route"):
        dataclasses.replace(machine, routes=(direct,)).check()
    again = dataclasses.replace(machine.routes[0], links=("l0", "up", "up", "up", "up", "l1"))
    with pytest.raises(ValueError, match="uses a link twice: 'up' in one direction"):
        dataclasses.replace(machine, routes=(again,)).check()


def test_round_trip(tmp_path):
    save_topology(staged_pair(), tmp_path / "machine.json")
    assert read_topology(tmp_path / "machine.json") == staged_pair()


def test_shortest_routes_are_not_in_the_file(tmp_path):
    save_topology(pair_topology(), tmp_path / "machine.json")
    assert json.loads((tmp_path / "machine.json").read_text())["routes"] == []
    assert read_topology(tmp_path / "machine.json") == pair_topology()


def test_a_pair_without_a_route_stays_without(tmp_path):
    machine = pair_topology()
    machine = dataclasses.replace(machine, routes=machine.routes[:1])
    save_topology(machine, tmp_path / "machine.json")
    assert read_topology(tmp_path / "machine.json") == machine


def test_files_of_the_first_schema_are_refused_with_what_to_do(tmp_path):
    save_topology(pair_topology(), tmp_path / "machine.json")
    text = (tmp_path / "machine.json").read_text()
    (tmp_path / "old.json").write_text(text.replace("toposeat/topology/2", "toposeat/topology/1"))
    with pytest.raises(InputError, match="found schema 'toposeat/topology/1'") as caught:
        read_topology(tmp_path / "old.json")
    assert caught.value.hint is not None
    assert "make it again" in caught.value.hint


def test_a_curve_is_linear_in_the_logarithm_of_the_size():
    both = curve((1024, 4e-6, 1e9), (4096, 8e-6, 9e9))
    assert both.at(2048) == pytest.approx((6e-6, 5e9))
    assert both.at(1024) == both.at(1) == both.at(0) == (4e-6, 1e9)
    assert both.at(4096) == both.at(1e12) == (8e-6, 9e9)
    assert (both.least_latency_s, both.most_bytes_per_s) == (4e-6, 9e9)
    assert curve((8, 1.0, 2.0)).at(9) == (1.0, 2.0)


@pytest.mark.parametrize(
    ("member", "value", "message"),
    [
        (
            "latency_s",
            {"value": 1e9, "source": "user"},
            "a latency (s) is not within 0 to 3600: 1000000000.0",
        ),
        ("latency_s", {"value": -1, "source": "user"}, "finite number >= 0"),
        (
            "combined_bytes_per_s",
            {"value": 1e40, "source": "user"},
            "a bandwidth (bytes/s) is not within 0.001 to 1e+30: 1e+40",
        ),
        ("staged", "yes", "expected `bool`"),
        ("curve", {"points": []}, "number of points of a curve is not within 1 to 64: 0"),
        ("curve", {"points": [[0, 1, 2]]}, "expected `object`"),
        (
            "curve",
            {"points": [{"message_bytes": 8, "latency_s": 0, "bytes_per_s": 1}] * 2},
            "size 8 after 8",
        ),
        (
            "curve",
            {"points": [{"message_bytes": 0, "latency_s": 0, "bytes_per_s": 1}]},
            "the size of a message is not within 1 to",
        ),
        (
            "curve",
            {"points": [{"message_bytes": 1, "latency_s": 0, "bytes_per_s": 0}]},
            "a bandwidth (bytes/s) is not within",
        ),
        (
            "curve",
            {"points": [{"message_bytes": 1, "latency_s": 1e5, "bytes_per_s": 1}]},
            "a latency (s) is not within 0 to 3600",
        ),
    ],
)
def test_what_cannot_be_is_refused_at_its_line(member, value, message, tmp_path):
    save_topology(staged_pair(), tmp_path / "machine.json")
    document = json.loads((tmp_path / "machine.json").read_text())
    document["routes"][1][member] = value
    text = json.dumps(document, indent=1)
    (tmp_path / "bad.json").write_text(text)
    with pytest.raises(InputError) as caught:
        read_topology(tmp_path / "bad.json")
    assert message in str(caught.value)
    second_route = text[: text.rindex('"source": "gpu1"')].count("\n") + 1
    assert caught.value.line is not None
    assert caught.value.line >= second_route - 1
