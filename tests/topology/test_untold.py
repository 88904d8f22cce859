"""Told, inferred, untold: recorded machines whose links are known from what else is known of them.

The oracle is the product: what a machine is by its index entry decides what may be said of it.
"""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.topology import recorded_knowledge
from tests.topology.readers.recorded import merged, table
from toposeat.model.pair import BANDWIDTH
from toposeat.model.path_class import DEVICE_LINKS
from toposeat.model.quantity import Premise
from toposeat.model.topology import (
    Device,
    FactKind,
    LinkKind,
    PairNumbers,
    PathClass,
    Vendor,
)
from toposeat.topology import (
    catalogue_names,
    facts_of,
    knowledge_of,
    parse_topology_text,
    read_topologies,
    read_topology,
    save_topology,
    topology_text,
    untold_pairs,
)

LINKS = "which device links join the GPUs"
BOX = "tree:2:2:2"  # eight GPUs below switches, no device links


def box(name, *, tells=False, count=8):
    """A PCIe box of one product, of which a source tells all device links or nothing."""
    machine = read_topology(BOX)
    devices = tuple(
        replace(d, name=name, vendor=_maker(name), pci_bus_id=f"0000:{i:02x}:00.0", numa_node=0)
        for i, d in enumerate(machine.devices)
    )
    kept = devices[:count]
    ids = {device.id for device in devices[count:]}
    return replace(
        machine,
        devices=kept,
        links=tuple(x for x in machine.links if not ids & {*x.ends}),
        routes=tuple(r for r in machine.routes if not ids & {r.source, r.target}),
        tells=(FactKind.DEVICE_LINKS,) if tells else (),
    )


def as_read(machine):
    """What its file is read as: with the links that its products always have."""
    return parse_topology_text(topology_text(machine), Path("box.json"))


def readings_of(machine):
    """The machines with the device links that it may have otherwise."""
    choices = [c for fact in facts_of(machine) if fact.what == LINKS for c in fact.choices]
    return tuple(choice.draw(machine) for choice in choices if choice.draw)


def _maker(name):
    return Vendor.AMD if name.startswith(("AMD", "gfx")) else Vendor.NVIDIA


@pytest.mark.parametrize("name", catalogue_names())
def test_the_catalogue_is_told(name):
    machine = read_topology(name)
    assert untold_pairs(machine) == ()
    assert knowledge_of(machine).untold_affinities == ()
    assert readings_of(machine) == ()
    assert as_read(machine) == machine


@pytest.mark.parametrize(
    ("name", "lanes"),
    [
        ("NVIDIA H100 80GB HBM3", 18),
        ("NVIDIA A100-SXM4-80GB", 12),
        ("GB100 [B200]", 18),
        ("AMD Instinct MI300X", 7),
        ("gfx942", 7),
        ("sm_90", 18),
    ],
)
def test_modules_that_are_always_joined_are_drawn_so(name, lanes):
    machine = as_read(box(name))
    assert untold_pairs(machine) == ()
    assert knowledge_of(machine).told == 0
    assert {r.path_class for r in machine.routes} == {PathClass.NVL}
    count = dict.fromkeys((d.id for d in machine.devices), 0)
    for link in machine.links:
        for end in {*link.ends} & {*count} if link.kind in DEVICE_LINKS else ():
            count[end] += link.count
            assert (link.told_by or "").startswith("product: ")
    assert set(count.values()) == {lanes}


@pytest.mark.parametrize(
    "name",
    ["", "NVIDIA A100-PCIE-40GB", "gfx908", "Tesla V100-SXM2-16GB", "NVIDIA New 9000"],
)
def test_what_no_product_settles_is_untold(name):
    machine = as_read(box(name))
    assert len(untold_pairs(machine)) == 28
    readings = readings_of(machine)
    assert readings
    for reading in readings:
        assert [d.id for d in reading.devices] == [d.id for d in machine.devices]
        assert any(link.kind in DEVICE_LINKS for link in reading.links)
        reading.check()


@pytest.mark.parametrize("name", ["NVIDIA L40S", "Tesla T4", "Tesla K80", "sm_89", "gfx1100"])
def test_products_without_links_are_inferred_to_have_none(name):
    machine = as_read(box(name))
    assert knowledge_of(machine).inferred == {"no links": 28}
    assert readings_of(machine) == ()


def test_choices_are_in_the_order_of_the_devices():
    """A set of products has another order in each run, and so had the scenarios."""
    machine = box("NVIDIA L40S")
    names = ("NVIDIA H100 PCIe", "Tesla M2090", "Tesla K80", "NVIDIA L40S")
    devices = [replace(d, name=n) for d, n in zip(machine.devices, names * 2, strict=True)]
    rate = Premise(
        what="PCIe of an unknown generation", low=12, nominal=25, high=52, unit="GB/s", source="x."
    )
    machine = replace(machine, devices=tuple(devices), premises=(rate,))
    fact = next(fact for fact in facts_of(machine) if fact.what == "the PCIe generation")
    assert [c.name for c in fact.choices] == ["PCIe 4", "PCIe 5", "PCIe 2", "PCIe 3"]


def test_a_source_that_denies_the_links_of_modules_is_not_believed_alone():
    """Disabled NVLinks are possible, so nothing is drawn; but nothing is proved either."""
    machine = as_read(box("NVIDIA H100 80GB HBM3", tells=True))
    assert len(untold_pairs(machine)) == 28
    assert not any(link.kind in DEVICE_LINKS for link in machine.links)
    assert {link.kind for link in readings_of(machine)[0].links} >= {LinkKind.NVLINK}
    assert untold_pairs(box("NVIDIA H100 PCIe", tells=True)) == ()


def test_measured_and_refused_pairs_are_told():
    machine = box("")
    refused = tuple(replace(route, peer_access=False) for route in machine.routes)
    assert untold_pairs(replace(machine, routes=refused)) == ()


def test_four_modules_are_one_board_or_half_of_another():
    machine = as_read(box("NVIDIA A100-SXM4-40GB", count=4))
    (other,) = readings_of(machine)
    kinds = [{link.count for link in each.links if link.told_by} for each in (machine, other)]
    assert kinds == [{12}, {4}]
    assert untold_pairs(machine) == untold_pairs(other) == ()


def test_a_told_source_replaces_what_was_inferred():
    drawn = as_read(box("NVIDIA H100 80GB HBM3"))
    devices = [Device(id=d.id, index=d.index, vendor=Vendor.NVIDIA) for d in drawn.devices]
    told = table(devices, origin="a table", tells=(FactKind.DEVICE_LINKS,))
    whole = merged(drawn, told)
    assert whole.links == box("NVIDIA H100 80GB HBM3").links
    assert whole.components == box("").components
    assert {r.path_class for r in whole.routes} == {r.path_class for r in box("").routes}


def test_partitions_of_a_recorded_machine_are_drawn_joined(shared_dir):
    partitions = read_topology(shared_dir / "machines/hwloc-xml/fluxcore-tuo.TPX.xml")
    ids = {device.id for device in partitions.devices}
    assert {r.path_class for r in partitions.routes if r.target in ids} == {PathClass.NVL}


def test_a_matrix_tells_what_staged_copies_leave_untold(shared_dir):
    staged = shared_dir / "machines/p2pBandwidthLatencyTest/8gpu-h100-p2poff.txt"
    matrix = shared_dir / "machines/nvidia-smi-topo/8gpu-h100-nv18-nonic.txt"
    assert len(untold_pairs(read_topology(staged))) == 28  # measured without peer access only
    assert untold_pairs(read_topologies([matrix, staged])) == ()


def test_no_judgement_changes_unseen(shared_dir):
    """Renew with `python -m tests.topology.recorded_knowledge --write`, and look at the changes."""
    found = recorded_knowledge.table(shared_dir / "machines")
    assert found.splitlines() == recorded_knowledge.EXPECTED.read_text().splitlines()


@pytest.mark.parametrize("name", ["NVIDIA H100 80GB HBM3", "AMD Instinct MI300X", "sm_90"])
def test_a_saved_machine_is_known_as_well_as_before(name, tmp_path):
    machine = as_read(box(name))
    path = tmp_path / "machine.json"
    save_topology(machine, path)
    again = read_topology(path)
    assert again.route_of_pair == machine.route_of_pair
    assert knowledge_of(again) == knowledge_of(machine)
    assert len(readings_of(again)) == len(readings_of(machine))


def test_measured_pairs_keep_the_links_that_the_product_has():
    drawn = as_read(box("AMD Instinct MI300X"))
    rates = np.full((8, 8), 45e9)
    numbers = PairNumbers(what=BANDWIDTH, values=rates, devices=tuple(d.id for d in drawn.devices))
    devices = tuple(Device(id=d.id, pci_bus_id=d.pci_bus_id) for d in drawn.devices)
    measured = table(devices, numbers=[numbers])
    whole = merged(drawn, measured)
    assert {x.kind for x in whole.links if x.told_by} >= {LinkKind.XGMI}
    assert untold_pairs(whole) == ()
    assert whole.route_of_pair["gpu0", "gpu5"].path_class is PathClass.NVL
