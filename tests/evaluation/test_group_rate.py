"""The rates of groups: against NCCL's own search, by hand, and against orders of the members."""

import csv
import math
import random
from dataclasses import replace
from functools import cache
from itertools import combinations, pairwise
from pathlib import Path

import numpy as np
import pytest

import toposeat
from tests.support.catalogue import CATALOGUE
from toposeat import _core
from toposeat.errors import UsageError
from toposeat.evaluation import GroupRates, group_rate, network_arrays
from toposeat.model.processor import CPU_KEY
from toposeat.model.quantity import Quantity, Source, nominal
from toposeat.model.topology import LinkKind
from toposeat.topology import read_topologies, read_topology

TABLES = Path(__file__).parents[3] / "shared" / "groups"
RECORDED = (
    "hgx-h100",
    "dgx-1v",
    "dgx-a100",
    "minsky-4",
    "power9-4",
    "perlmutter-4",
    "a100-pcie-8-bridged",
    "rtx-4-crossed-bridges",
)


@cache
def rates(name):
    return GroupRates(read_topology(name))


def gb_per_s(name, *devices):
    return rates(name).of(devices).bytes_per_s / 1e9


@pytest.mark.parametrize("name", RECORDED)
def test_nccl_finds_the_same(name):
    table = TABLES / f"{name}.tsv"
    if not table.exists():
        pytest.skip("no ../shared/groups here")
    found = GroupRates(read_topology(name), "nccl")
    rows = list(csv.DictReader(table.read_text().splitlines(), delimiter="\t"))
    wrong = []
    for row in rows:
        devices = tuple(map(int, row["devices"].split(",")))
        expected = int(row["channels"]) * float(row["GBps_each"])
        if abs(found.of(devices).bytes_per_s / 1e9 - expected) > 0.01:
            wrong.append(devices)
    assert not wrong


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        (("x86_64", "GenuineIntel", "6", "79"), 6),
        (("x86_64", "GenuineIntel", "6", "85"), 10),
        (("x86_64", "GenuineIntel", "6", "106"), 10),
        (("x86_64", "GenuineIntel", "6", "143"), 22),
        (("x86_64", "GenuineIntel", "6", "207"), 40),
        (("x86_64", "GenuineIntel"), 22),
        (("x86_64", "AuthenticAMD", "23", "49"), 16),
        (("ppc64",), 30),  # of 32
        (("arm64",), 6),
        ((), 22),
    ],
)
def test_the_link_between_processors_has_the_rate_of_their_model(told, expected):
    """Wide PCIe; the rates that a ring may have depend on the GPU, and one is near enough."""
    machine = read_topology("l40s-8")
    wide = {"forward_bytes_per_s": nominal(64e9), "backward_bytes_per_s": nominal(64e9)}
    links = [replace(x, **wide) if x.kind is LinkKind.PCIE else x for x in machine.links]
    metadata = {**machine.metadata, CPU_KEY: " ".join(told)}
    found = []
    for name in ("NVIDIA L40S", "NVIDIA H100 PCIe", "NVIDIA B200"):
        gpus = tuple(replace(each, name=name) for each in machine.devices)
        node = replace(machine, links=tuple(links), metadata=metadata, devices=gpus)
        found.append(group_rate(node, (0, 7), "nccl").bytes_per_s)
    assert max(found) == expected * 1e9


@pytest.mark.parametrize(
    ("devices", "expected"),
    [
        ((0, 1), 20),  # a link
        ((0, 3), 40),  # two links
        ((0, 5), 6),  # none: over the sockets
        ((0, 1, 5), 20),  # through 1
        ((0, 1, 2, 3), 80),
        ((0, 2, 4, 6), 40),
        (tuple(range(8)), 6 * 20),
    ],
)
def test_a_dgx_1v_in_nccls_own_numbers(devices, expected):
    found = group_rate(read_topology("dgx-1v"), devices, "nccl")
    assert found.bytes_per_s == expected * 1e9


@pytest.mark.parametrize(
    ("name", "members", "channels", "gb_per_s_each"),
    [("dgx-a100", 2, 12, 20), ("hgx-h100", 8, 12, 30)],  # NVIDIA/nccl issue 1197 for the latter
)
def test_logs_of_nccl_have_the_same_product(name, members, channels, gb_per_s_each):
    """NCCL halves the rate of its rings and doubles their number where it may."""
    found = group_rate(read_topology(name), range(members), "nccl")
    assert found.bytes_per_s == channels * gb_per_s_each * 1e9


def lanes(wiring):
    """The rate of all members of a mesh, in lanes; `wiring` has the lanes between each two."""
    joined = [(a, b) for a, row in enumerate(wiring) for b, lane in enumerate(row) if lane > 0]
    pairs = [(a, b) for a in range(len(wiring)) for b in range(len(wiring))]
    return _core.ring_rate(
        len(wiring),
        capacity=np.array([wiring[a][b] for a, b in joined], np.float64),
        route_begin=np.cumsum([0, *(pair in joined for pair in pairs)]).astype(np.uint32),
        uses=np.arange(len(joined), dtype=np.uint32),
        flow_cap=np.full(len(pairs), np.inf),
        path_class=np.array([1 if a == b or (a, b) in joined else 255 for a, b in pairs], np.uint8),
        switched=False,
        levels=np.array([4, 2, 1, 1 / 2, 1 / 3, 1 / 4]),
        stop_below=0.0,
        most_rings=24,
        steps=4000,
    ).bytes_per_s


def lanes_between(machine):
    found = [[0.0] * len(machine.devices) for _ in machine.devices]
    for link in machine.links:
        ends = [at for at, device in enumerate(machine.devices) if device.id in link.ends]
        if len(ends) == 2:
            found[ends[0]][ends[1]] = found[ends[1]][ends[0]] = float(link.count)
    return found


def test_four_v100_with_two_links_each_to_each_have_six_lanes():
    """NVIDIA/nccl issue 713 logs six channels, each at what that version took for a lane."""
    assert lanes([[0 if a == b else 2 for a in range(4)] for b in range(4)]) == 6


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("mi300x-8", 7),  # RCCL's model 79: 14 rings pass each link twice
        ("mi325x-8", 7),
        ("mi355x-8", 7),
        ("mi250x-8", 4),  # models 71 and 73: four rings, each of one lane
    ],
)
def test_whole_nodes_have_the_lanes_of_rccls_fixed_rings(name, expected):
    assert lanes(lanes_between(read_topology(name))) == expected


def test_hives_of_mi100_have_as_many_rings_as_rccls_model_has():
    """Models 28 and 45: four rings, of which each leaves a hive of four and comes back by PCIe."""
    machine = read_topology("mi100-8")
    rings = group_rate(machine, range(8), "nccl").rings
    assert len(rings) == 4
    joined = lanes_between(machine)
    for ring in rings:
        assert sum(joined[a][b] == 0 for a, b in pairwise((*ring, ring[0]))) >= 2


def test_where_rccls_fixed_rings_differ():
    """The wiring of a MI250X node of which all links count as one (models 52, 58, 62).

    RCCL's four rings pass some links twice: two lanes, where five rings of half a lane fit.
    """
    wiring = [[min(1.0, lane) for lane in row] for row in lanes_between(read_topology("mi250x-8"))]
    assert lanes(wiring) == 2.5


def test_a_pair_with_two_links_has_twice_the_rate():
    assert gb_per_s("dgx-1v", 0, 3) == pytest.approx(2 * gb_per_s("dgx-1v", 0, 1))


def test_a_member_with_links_to_both_relays():
    alone, relayed = gb_per_s("dgx-1v", 0, 5), gb_per_s("dgx-1v", 0, 1, 5)
    assert relayed > 2 * alone


def test_a_ring_over_relays_is_joined_by_others_at_half_its_rate():
    # One ring of two lanes relays twice; at one lane three rings fit, as NCCL finds them.
    found = rates("dgx-1v").of((0, 3, 4, 7))
    assert len(found.rings) == 3
    assert found.is_best
    assert found.bytes_per_s == pytest.approx(3 * gb_per_s("dgx-1v", 0, 1) * 1e9)


def test_a_crossed_bridge_is_worth_more_than_twice():
    crossed = gb_per_s("rtx-4-crossed-bridges", 0, 2)
    assert crossed == pytest.approx(48, rel=0.02)
    staged = gb_per_s("rtx-4-crossed-bridges", 0, 1)  # GeForce: no peer access over PCIe
    assert staged == pytest.approx(14, rel=0.05)


def test_more_members_of_a_mesh_have_more_rings():
    found = [gb_per_s("mi300x-8", *range(k)) for k in range(2, 9)]
    assert found == pytest.approx([48, 96, 144, 192, 192, 288, 336])  # not monotone


@pytest.mark.parametrize("name", CATALOGUE)
def test_the_order_of_members_plays_no_part(name):
    machine = read_topology(name)
    count = min(len(machine.devices), 8)
    rng = random.Random(name)
    members = sorted(rng.sample(range(len(machine.devices)), count))
    expected = GroupRates(machine).of(tuple(members))
    for _ in range(3):
        rng.shuffle(members)
        again = GroupRates(machine).of(tuple(members))
        assert again == expected
    assert 0 < expected.bytes_per_s <= expected.cut_bytes_per_s


@pytest.mark.parametrize("name", ["dgx-1v", "mi60-8", "k40-8", "rtx-4-crossed-bridges"])
def test_rings_pass_every_member_once_and_fit_on_the_links(name):
    machine = read_topology(name)
    positions = range(len(machine.devices))
    for count in (2, 3, 4):
        for devices in list(combinations(positions, count))[::5]:
            found = rates(name).of(devices)
            assert all(sorted(ring) == list(devices) for ring in found.rings)
            for link, direction, uses in found.load:
                both = (
                    machine.links[link].forward_bytes_per_s,
                    machine.links[link].backward_bytes_per_s,
                )
                assert uses * found.bytes_per_s <= both[direction].value * (1 + 1e-6)


@pytest.mark.parametrize("name", ["a100-pcie-8-bridged", "c2050-8", "k40-4"])
def test_all_rings_together_cross_sockets_at_the_rate_of_the_best_pair_there(name):
    """NCCL first gives all rings one order, so that they share the pair that crosses."""
    machine = read_topology(name)
    arrays = network_arrays(machine)
    n, at = arrays.devices, {device.id: i for i, device in enumerate(machine.devices)}
    crossing = [
        at[route.source] * n + at[route.target]
        for route in machine.routes
        if {route.source, route.target} <= at.keys()
        and not machine.between_sockets.isdisjoint(route.links)
    ]
    best = max(arrays.cap[pair] for pair in crossing)
    for devices in (each for count in (3, 4, n) for each in combinations(range(n), count)):
        if not {a * n + b for a in devices for b in devices}.isdisjoint(crossing):
            found = rates(name).of(devices)
            assert found.is_best
            assert found.bytes_per_s <= best * (1 + 1e-9)


# NCCL's lanes (topo.h), and what was measured of rings: NCCL issue 1455, and DGX A100 in the field.
@pytest.mark.parametrize(
    ("name", "lanes", "lane", "measured"),
    [("hgx-h100", 18, 20.6, (365.0, 370.0)), ("dgx-a100", 12, 20.0, (232.0,))],
)
def test_rings_over_nvswitch_have_nccls_lanes_and_their_range_what_was_measured(
    name, lanes, lane, measured
):
    for members in (range(2), range(4), range(8)):
        found = group_rate(read_topology(name), members)
        assert found.bytes_per_s == pytest.approx(lanes * lane * 1e9)
        assert all(found.low <= each * 1e9 <= found.high for each in measured)


def test_what_was_measured_of_a_pair_is_what_rings_over_it_reach():
    machine = read_topology("dgx-a100")
    for rate in (150e9, 260e9):
        cap = Quantity(rate, Source.MEASURED)
        routes = tuple(replace(route, cap_bytes_per_s=cap) for route in machine.routes)
        found = group_rate(replace(machine, routes=routes), [0, 3])
        assert (found.low, found.bytes_per_s, found.high) == pytest.approx((rate,) * 3)


def test_makers_without_such_numbers_keep_theirs():
    machine = read_topology("mi300x-8")
    lane = min(cap for cap in network_arrays(machine).cap.tolist() if np.isfinite(cap))
    assert group_rate(machine, [0, 1]).bytes_per_s == pytest.approx(lane)


PCIE_5 = """\
\tGPU0\tGPU1\tGPU2\tGPU3\tCPU Affinity\tNUMA Affinity
GPU0\t X \tPIX\tSYS\tSYS\t0-7\t0
GPU1\tPIX\t X \tSYS\tSYS\t0-7\t0
GPU2\tSYS\tSYS\t X \tPIX\t8-15\t1
GPU3\tSYS\tSYS\tPIX\t X \t8-15\t1
"""


@pytest.mark.parametrize(
    ("name", "share"), [("NVIDIA RTX PRO 6000 Blackwell", 0.79), ("NVIDIA L40S", 1.0)]
)
def test_kernels_reach_less_than_copies_over_pcie_5(tmp_path, name, share):
    (tmp_path / "topo.txt").write_text(PCIE_5)
    uuid = "0000-0000-0000-000000000000"
    listed = "".join(f"GPU {at}: {name} (UUID: GPU-{at:08d}-{uuid})\n" for at in range(4))
    (tmp_path / "list.txt").write_text(listed)
    (tmp_path / "cpu.txt").write_text("Model name: AMD EPYC 9575F 64-Core Processor\n")
    machine = read_topologies([tmp_path / each for each in ("topo.txt", "list.txt", "cpu.txt")])
    copies = network_arrays(machine).isolated_rate()
    for pair in ([0, 1], [0, 2]):
        found = group_rate(machine, pair).bytes_per_s
        assert found <= copies[pair[1]] * share * (1 + 1e-9)
        assert found >= copies[pair[1]] * share * 0.95  # both directions at once cost a little


def test_one_device_has_nothing_to_send():
    assert math.isinf(toposeat.group_rate(read_topology("dgx-1v"), [3]).bytes_per_s)


@pytest.mark.parametrize("devices", [[], [0, 0], [0, 8], [-1, 2]])
def test_no_set_of_devices_is_refused(devices):
    with pytest.raises(UsageError):
        group_rate(read_topology("dgx-1v"), devices)


def test_unknown_speeds_are_refused():
    with pytest.raises(UsageError, match="unknown speeds"):
        group_rate(read_topology("dgx-1v"), [0, 1], "fast")


@pytest.mark.parametrize("lasts", [(3,), (0, 2), (0, 1, 2, 3)])
def test_a_ring_that_goes_on_to_another_node_has_no_hop_from_its_last_device(lasts):
    """On NVSwitches a device sends each byte but those that leave the node there."""
    topology = read_topology("hgx-h100")
    rates = GroupRates(topology)
    sent = dict.fromkeys(range(4), 0.0)
    for link, direction, passes in rates.path_load((0, 1, 2, 3), lasts):
        end = topology.links[link].ends[direction]
        if end.startswith("gpu"):
            sent[int(end.removeprefix("gpu"))] += passes
    assert sent == pytest.approx({at: 1 - (at in lasts) / len(lasts) for at in range(4)})
