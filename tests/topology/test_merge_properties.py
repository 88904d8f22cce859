"""Whatever is merged: nothing is lost, nothing is invented, and twice is as good as once."""

import random
from dataclasses import replace
from itertools import permutations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.topology.readers.recorded import merged, table
from toposeat.model.pair import BANDWIDTH, LATENCY
from toposeat.model.quantity import Source
from toposeat.model.topology import (
    Device,
    HostNumbers,
    LaneState,
    Nic,
    PairNumbers,
    PathClass,
)
from toposeat.topology import catalogue_names, read_topology

BASES = ("dgx-1v", "k80-16", "mi250x-8", "power9-4")

# Machines are made from a seed: as hypothesis strategies they would take minutes to shrink.
RELAXED = settings(max_examples=30, deadline=None)
SEEDS = st.integers(0, 2**32)


def machine(seed):
    """A machine of the catalogue, and facts of one to three sources on some of its devices."""
    dice = random.Random(seed)
    known = [name for name in BASES if name in catalogue_names()]
    topology = read_topology(dice.choice(known))
    devices = tuple(replace(d, pci_bus_id=f"0000:{d.index + 1:02x}:00.0") for d in topology.devices)
    base = with_some_nics(dice, replace(topology, devices=devices))
    return base, [facts_of(dice, base, f"source {n}") for n in range(dice.randint(1, 3))]


def with_some_nics(dice, topology):
    """The machine without some of its NICs, and with bus ids for some of the others."""
    nics = tuple(
        replace(nic, name=f"mlx5_{nic.index}", pci_bus_id=nic_bus(nic.index))
        for nic in topology.nics
        if dice.random() < 0.6
    )
    kept = {nic.id for nic in nics}
    gone = {nic.id for nic in topology.nics} - kept
    return replace(
        topology,
        nics=nics,
        links=tuple(link for link in topology.links if not gone.intersection(link.ends)),
        pairs=tuple(p for p in topology.pairs if not gone & {p.source, p.target}),
        routes=tuple(r for r in topology.routes if r.target not in gone),
    )


def nic_bus(number):
    return f"0000:{number + 0xA0:02x}:00.0"


def nics_and_relations(dice, count):
    """NICs of any kind of identity, some of them at a place that is told."""
    numbers = dice.sample(range(8), dice.randint(0, 4))
    nics = tuple(
        Nic(
            id=f"NIC{i}",
            name=dice.choice(["", f"mlx5_{n}", f"ib{n}"]),
            pci_bus_id=dice.choice([None, nic_bus(n)]),
            numa_node=dice.choice([None, 0, 1, 7]),
        )
        for i, n in enumerate(numbers)
    )
    if not nics or dice.random() < 0.3:
        return nics, {}
    classes = (PathClass.PIX, PathClass.PXB, PathClass.PHB, PathClass.NODE, PathClass.SYS)
    return nics, {
        (i, count + n): dice.choice(classes)
        for i in range(count)
        for n in range(len(nics))
        if dice.random() < 0.7
    }


def facts_of(dice, base, origin):
    """Facts of some of the devices in any order, with numbers of some of their pairs."""
    chosen = dice.sample(base.devices, dice.randint(1, len(base.devices)))
    devices = tuple(
        Device(
            id=f"GPU{i}",
            index=device.index,
            pci_bus_id=device.pci_bus_id,
            numa_node=dice.choice([None, 0, 1]),
            name=dice.choice(["", "Tesla V100", "H100"]),
        )
        for i, device in enumerate(chosen)
    )
    pairs = list(permutations(range(len(chosen)), 2))
    lanes = [
        LaneState(device="GPU0", lane=n, bytes_per_s=dice.choice([None, 25e9]))
        for n in range(dice.randint(0, 3))
    ]
    host = HostNumbers(what=BANDWIDTH, device="GPU0", to_device=10 ** dice.uniform(8, 11))
    nics, relations = nics_and_relations(dice, len(chosen))
    return table(
        devices,
        origin=origin,
        nics=nics,
        pcie_class=relations,
        peer_access={p: dice.random() < 0.5 for p in pairs if dice.random() < 0.1},
        numbers=tuple(pair_numbers(dice, len(chosen)) for _ in range(dice.randint(0, 3))),
        lanes=tuple(lanes),
        host_copies=(host,) if dice.random() < 0.5 else (),
    )


def pair_numbers(dice, count):
    what = dice.choice([BANDWIDTH, LATENCY])
    low, high = (8, 12) if what == BANDWIDTH else (-7, -3)
    values = np.full((count, count), np.nan)
    for _ in range(dice.randint(0, 6)):
        values[dice.randrange(count), dice.randrange(count)] = 10 ** dice.uniform(low, high)
    return PairNumbers(
        what=what,
        values=values,
        peer=dice.choice([None, True, False]),
        both_ways=what == BANDWIDTH and dice.random() < 0.5,
        engine=dice.choice(["", "ce", "sm"]),
    )


def quantities(topology):
    found = [q for r in topology.routes for q in (r.cap_bytes_per_s, r.latency_s)]
    found += [r.combined_bytes_per_s for r in topology.routes]
    found += [q for d in topology.devices for q in (d.copy_bytes_per_s, d.copy_latency_s)]
    for link in topology.links:
        found += [link.forward_bytes_per_s, link.backward_bytes_per_s, link.combined_bytes_per_s]
    return [q for q in found if q is not None]


@RELAXED
@given(seed=SEEDS)
def test_no_measured_number_is_invented(seed):
    base, parts = machine(seed)
    found = merged(base, *parts)
    told = {q.value for q in quantities(base) if q.source is Source.MEASURED}
    for part in parts:
        told |= {float(v) for n in part.numbers for v in n.values.ravel() if v > 0}
        told |= {v for h in part.host_copies for v in (h.to_device, h.from_device) if v}
    assert {q.value for q in quantities(found) if q.source is Source.MEASURED} <= told


@RELAXED
@given(seed=SEEDS)
def test_no_device_or_nic_or_link_is_lost(seed):
    base, parts = machine(seed)
    found = merged(base, *parts)
    assert [d.id for d in found.devices] == [d.id for d in base.devices]
    assert [d.pci_bus_id for d in found.devices] == [d.pci_bus_id for d in base.devices]
    assert [n.id for n in found.nics][: len(base.nics)] == [n.id for n in base.nics]
    assert {link.id for link in base.links} <= {link.id for link in found.links}
    assert set(found.route_of_pair) >= set(base.route_of_pair)


@RELAXED
@given(seed=SEEDS)
def test_every_nic_is_joined_drawn_or_reported(seed):
    base, parts = machine(seed)
    found = merged(base, *parts)
    names = {n.name for n in found.nics} | {n.pci_bus_id for n in found.nics}
    added = found.nics[len(base.nics) :]
    assert len({n.id for n in found.nics}) == len(found.nics)
    for nic in added:
        links = [link for link in found.links if nic.id in link.ends]
        assert len(links) == 1
        assert any(line.startswith(f"{nic.id} (") for line in found.report)
        assert all((d.id, nic.id) in found.route_of_pair for d in found.devices)
    for part in parts:
        lost = [n for n in part.nics if not names.intersection({n.name, n.pci_bus_id} - {"", None})]
        reported = [line for line in found.report if "are left out: where they are" in line]
        nameless = [n for n in part.nics if not n.name and not n.pci_bus_id]
        if set(map(id, lost)) - set(map(id, nameless)):
            assert reported


@RELAXED
@given(seed=SEEDS)
def test_pairs_that_nobody_told_of_stay_as_they_were(seed):
    base, parts = machine(seed)
    found = merged(base, *parts)
    id_of = {d.pci_bus_id: d.id for d in base.devices}
    told = set()
    for part in parts:
        ids = [id_of[d.pci_bus_id] for d in part.devices]
        of = {d.id: id_of[d.pci_bus_id] for d in part.devices}
        told |= {(of[p.source], of[p.target]) for p in part.pairs if p.peer_access is not None}
        for numbers in part.numbers:
            told |= {(ids[i], ids[j]) for i, j in np.argwhere(numbers.values > 0)}
    for pair, route in found.route_of_pair.items():
        before = base.route_of_pair.get(pair)
        if pair in told or before is None:
            continue
        if route.links != before.links:  # another of the shortest: lanes of the first are down
            assert any(part.lanes for part in parts)
            assert len(route.links) == len(before.links)
        elif all(found.link_of_id[id] == base.link_of_id[id] for id in route.links):
            assert route == before


@RELAXED
@given(seed=SEEDS)
def test_merging_again_changes_nothing(seed):
    base, parts = machine(seed)
    once = merged(base, *parts)
    for again in (merged(once, *parts), merged(once, once)):
        assert again.links == once.links
        assert again.routes == once.routes
        assert again.devices == once.devices
        assert again.nics == once.nics
        assert again.components == once.components


@RELAXED
@given(seed=SEEDS)
def test_order_of_sources_of_different_rank_does_not_matter(seed):
    base, parts = machine(seed)
    hwloc = replace(
        base,
        origin="hwloc XML",
        devices=tuple(replace(d, numa_node=0, name="other") for d in base.devices),
    )
    sources = [base, hwloc, parts[0]]
    first = merged(*sources)
    second = merged(*random.Random(seed).sample(sources, 3))
    assert first == second


def facts_in(topology):
    """Every single fact of devices and pairs, without who told it."""
    found = set()
    for each in (*topology.devices, *topology.pairs):
        ends = (each.id,) if isinstance(each, Device) else (each.source, each.target)
        for name in each.__dataclass_fields__:
            value = getattr(each, name)
            if name not in ("id", "index", "source", "target", "told_by") and value is not None:
                found.add((*ends, name, value))
    return found


@RELAXED
@given(seed=SEEDS)
def test_the_same_parts_twice_change_nothing(seed):
    base, parts = machine(seed)
    once, again = merged(base, *parts), merged(base, *parts, *parts)
    assert once.devices == again.devices
    assert once.pairs == again.pairs
    assert once.tells == again.tells
    assert {n.name for n in once.nics} == {n.name for n in again.nics}


@RELAXED
@given(seed=SEEDS)
def test_the_order_of_parts_matters_only_where_they_contradict(seed):
    base, parts = machine(seed)
    ids = {each.id for each in (*base.devices, *base.nics)}
    one = facts_in(merged(base, *parts))
    other = facts_in(merged(base, *reversed(parts)))
    for fact in one ^ other:
        *ends, name, _ = fact
        if not ids.issuperset(ends):
            continue  # a NIC that the base lacks has the number of its source
        rivals = {each[-1] for each in one | other if [*each[:-1]] == [*ends, name]}
        assert len(rivals) > 1, fact  # two parts tell it otherwise


@RELAXED
@given(seed=SEEDS)
def test_every_fact_is_of_a_part_that_tells_it(seed):
    base, parts = machine(seed)
    whole = merged(base, *parts)
    id_of = {d.pci_bus_id: d.id for d in base.devices}
    told = {}
    for part in (base, *parts):
        of = {d.id: id_of[d.pci_bus_id] for d in part.devices}
        told[part.origin] = {
            (*(of.get(each, each) for each in ends), name, value)
            for *ends, name, value in facts_in(part)
        }
    for pair in whole.pairs:
        for name, origin in (pair.told_by or {}).items():
            fact = (pair.source, pair.target, name, getattr(pair, name))
            assert fact in told[origin] or not {*fact[:2]} <= {*id_of.values()}
    for device in whole.devices:
        for name, origin in (device.told_by or {}).items():
            if hasattr(device, name) and name not in ("index", "parent", "inactive_lanes"):
                assert (device.id, name, getattr(device, name)) in told[origin]
