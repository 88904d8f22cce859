"""Routes with limits of their own: what they hold, what is refused, and where a file says so."""

import dataclasses
import json

import pytest

from tests.model.samples import pair_topology
from toposeat.model.quantity import Quantity, Source, nominal
from toposeat.model.route import CurvePoint, Route, RouteCurve
from toposeat.model.topology import Component, ComponentKind, Link, LinkKind
from toposeat.topology import read_topology, save_topology


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


def test_a_curve_is_linear_in_the_logarithm_of_the_size():
    both = curve((1024, 4e-6, 1e9), (4096, 8e-6, 9e9))
    assert both.at(2048) == pytest.approx((6e-6, 5e9))
    assert both.at(1024) == both.at(1) == both.at(0) == (4e-6, 1e9)
    assert both.at(4096) == both.at(1e12) == (8e-6, 9e9)
    assert (both.least_latency_s, both.most_bytes_per_s) == (4e-6, 9e9)
    assert curve((8, 1.0, 2.0)).at(9) == (1.0, 2.0)
