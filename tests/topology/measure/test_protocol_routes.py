"""Every protocol that was measured is kept with its route, and survives the file."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.topology.measure.fake_node import FakeWorkers
from toposeat.errors import InputError
from toposeat.model.quantity import PartError
from toposeat.model.topology import CopyProtocol, ProtocolRoute, Topology
from toposeat.topology import read_topology
from toposeat.topology.measure import PairResults, measure_pairs, with_results
from toposeat.topology.measure.results import Transfers
from toposeat.topology.topology_file import load_topology, save_topology


def measured(protocols: list[str], base: Topology | None = None) -> Topology:
    machine = read_topology("k80-16")
    workers = FakeWorkers(machine, denied=frozenset({(0, 8)}))
    results = PairResults(workers.count)
    measure_pairs(workers, protocols, 0.0, results, lambda *_: None)
    return with_results(base or machine, workers.pci, results, protocols[0])


def names(machine: Topology, *pair: str) -> list[str]:
    source, target = pair
    return [each.protocol.value for each in machine.route_of_pair[source, target].protocols or ()]


def test_each_protocol_has_its_curve_and_staged_copies_pass_the_host(tmp_path: Path) -> None:
    machine = measured(["get", "staged"])
    assert names(machine, "gpu0", "gpu1") == ["get", "staged"]
    assert names(machine, "gpu0", "gpu8") == ["staged"]  # refused: it has no other
    get, staged = machine.route_of_pair["gpu0", "gpu1"].protocols or ()
    assert get.links is None
    assert staged.links is not None
    assert len(staged.links) > len(machine.route_of_pair["gpu0", "gpu1"].links)
    assert len(set(staged.links)) < len(staged.links)  # up and down the same uplink
    save_topology(machine, tmp_path / "m.json")
    assert load_topology(tmp_path / "m.json") == machine


def test_what_was_measured_earlier_stays() -> None:
    machine = measured(["put"], measured(["get", "staged"]))
    assert names(machine, "gpu0", "gpu1") == ["get", "put", "staged"]


def test_a_protocol_twice_and_a_broken_way_are_refused(tmp_path: Path) -> None:
    machine = measured(["get"])
    route = machine.route_of_pair["gpu0", "gpu1"]
    (get,) = route.protocols or ()
    with pytest.raises(PartError, match="protocol 'get' appears twice"):
        replace(route, protocols=(get, get))
    wrong = ProtocolRoute(protocol=CopyProtocol.PUT, curve=get.curve, links=route.links[:1])
    routes = tuple(replace(r, protocols=(wrong,)) if r is route else r for r in machine.routes)
    with pytest.raises(PartError, match="gpu0 -> gpu1 by put stops at"):
        replace(machine, routes=routes).check()
    save_topology(machine, tmp_path / "m.json")
    text = (tmp_path / "m.json").read_text()
    (tmp_path / "bad.json").write_text(text.replace('"protocol": "get"', '"protocol": "gift"', 1))
    with pytest.raises(InputError, match="gift"):
        load_topology(tmp_path / "bad.json")


def test_what_both_directions_reach_is_kept_for_each_protocol() -> None:
    machine = read_topology("k80-16")
    workers = FakeWorkers(machine)
    results = PairResults(workers.count)
    measure_pairs(workers, ["get", "put"], 0.0, results, lambda *_: None)
    for source, target in ((0, 1), (1, 0)):
        seconds = (2 * (4 << 20) / results.bandwidth("get")[source, target],)
        each = Transfers(source, target, "get", 4 << 20, seconds, at_once=True)
        results.add(each)
    learned = with_results(machine, workers.pci, results, "get")
    get, put = learned.route_of_pair["gpu0", "gpu1"].protocols or ()
    assert get.combined_bytes_per_s is not None
    alone = results.bandwidth("get")[0, 1]
    assert get.combined_bytes_per_s.value == pytest.approx(alone, rel=1e-6)
    assert put.combined_bytes_per_s is None
