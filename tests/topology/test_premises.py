"""What is assumed of a machine: intervals, in a file, through a merge, after measuring."""

from dataclasses import replace

import pytest

from tests.topology.measure.fake_node import FakeWorkers
from toposeat.errors import InputError
from toposeat.model.quantity import Quantity, Source
from toposeat.model.topology import LinkKind
from toposeat.topology import read_topologies, read_topology, save_topology, topology_text
from toposeat.topology.measure import (
    PairResults,
    facts_of_measurement,
    measure_both_ways,
    measure_pairs,
    measured_topology,
    try_sets,
    with_results,
)


def premises_of(topology):
    return {p.what: (p.low, p.nominal, p.high) for p in topology.premises}


def numbers_of(topology):
    members = ("forward_bytes_per_s", "backward_bytes_per_s", "combined_bytes_per_s")
    found = [getattr(link, name) for link in topology.links for name in members]
    found += [r.cap_bytes_per_s for r in topology.routes]
    found += [r.combined_bytes_per_s for r in topology.routes]
    found += [r.ring_bytes_per_s for r in topology.routes]
    return [each for each in found if each is not None]


def named(topology):
    return {what for each in numbers_of(topology) for what in each.premises}


@pytest.mark.parametrize(
    "name", ["8gpu-4090-sys-nic-phb.txt", "8gpu-all-sys.txt", "4gpu-phb-soc.txt"]
)
def test_a_relation_matrix_leaves_capacities_to_assume(shared_dir, name):
    topology = read_topology(shared_dir / "machines/nvidia-smi-topo" / name)
    assert {p.what for p in topology.premises} == named(topology)
    assert "both directions of PCIe" in named(topology)
    assert ("capacity between sockets" in named(topology)) == any(
        link.kind is LinkKind.SMP for link in topology.links
    )
    for each in numbers_of(topology):
        assert (each.source is Source.ASSUMED) == bool(each.premises)
    assert all(p.low <= p.nominal <= p.high for p in topology.premises)
    assert all(p.source.endswith(".") for p in topology.premises)


def test_told_numbers_are_no_premises(shared_dir):
    assert not read_topology("k80-16").premises  # published as full duplex, with all rates
    assert not read_topology("pcie:2:2:2").premises  # synthetic: so by definition
    socket = next(x for x in read_topology("power9-4").links if x.kind is LinkKind.SMP)
    assert not socket.forward_bytes_per_s.premises
    assert socket.combined_bytes_per_s is not None
    assert socket.combined_bytes_per_s.source is Source.MEASURED


def test_a_file_keeps_its_premises(shared_dir, tmp_path):
    topology = read_topology(shared_dir / "machines/nvidia-smi-topo/8gpu-4090-sys-nic-phb.txt")
    save_topology(topology, tmp_path / "t.json")
    assert read_topology(tmp_path / "t.json") == topology
    text = topology_text(topology).replace('"low": 1.45', '"low": 2.75')
    (tmp_path / "wrong.json").write_text(text)
    with pytest.raises(InputError, match="expected 0 < low <= nominal <= high"):
        read_topology(tmp_path / "wrong.json")


def test_a_merge_keeps_what_no_source_tells(shared_dir):
    folder = shared_dir / "machines"
    topology = read_topologies(
        [
            str(folder / "nvidia-smi-topo/2gpu-puget-wrx90.txt"),
            str(folder / "nvidia-smi-p2p/2gpu-5090-gns.txt"),
        ]
    )
    assert named(topology) == {p.what for p in topology.premises}
    assert "copies through host memory in a socket" in named(topology)


def test_a_measured_machine_has_none_left(tmp_path):
    (tmp_path / "lscpu").write_text("Architecture: x86_64\nModel name: AMD EPYC 7543\n")
    base = read_topologies(["l40s-8", str(tmp_path / "lscpu")])
    assert premises_of(base)
    real = wider(base)
    workers = FakeWorkers(real)
    results = PairResults(workers.count)
    measure_pairs(workers, ["get"], 0.0, results, lambda *_: None)
    measure_both_ways(workers, "get", results, lambda *_: None)
    tried = try_sets(workers, results.bandwidth("get"), "get", lambda *_: None)
    facts = facts_of_measurement(workers.pci, results, "get")
    known = with_results(measured_topology(base, facts, tried), workers.pci, results, "get")
    assert not known.premises
    assert not named(known)
    socket = next(x for x in known.links if x.kind is LinkKind.SMP)
    carried = max(each.out_bytes_per_s for each in tried)
    assert socket.forward_bytes_per_s.value >= carried * 0.99


def wider(base):
    """The same machine with sockets that are ten times as wide, and full duplex everywhere."""
    return replace(
        base,
        links=tuple(
            replace(
                x,
                forward_bytes_per_s=Quantity(x.forward_bytes_per_s.value * 10),
                backward_bytes_per_s=Quantity(x.backward_bytes_per_s.value * 10),
                combined_bytes_per_s=None,
            )
            if x.kind is LinkKind.SMP
            else replace(x, combined_bytes_per_s=None)
            for x in base.links
        ),
    )
