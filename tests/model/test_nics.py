"""Which NIC each device uses: against brute force, and on machines where the choice is plain."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toposeat.model.nics import NicFault, choose_nics, nics_left_out, spread_evenly
from toposeat.model.quantity import nominal
from toposeat.model.topology import (
    Device,
    Link,
    LinkKind,
    LinkLayer,
    Nic,
    PathClass,
    Route,
    Topology,
)

wish_lists = st.lists(
    st.lists(st.integers(0, 4), min_size=1, max_size=4, unique=True), min_size=1, max_size=7
)


@given(wish_lists)
def test_spreading_is_what_brute_force_finds(wishes):
    def unevenness(choice):
        return sum(load**2 for load in Counter(choice).values())

    def price(choice):
        return unevenness(choice), [w.index(c) for w, c in zip(wishes, choice, strict=True)]

    best = min(product(*wishes), key=price)
    assert spread_evenly(wishes) == list(best)


def test_forced_choices_come_first():
    assert spread_evenly([[0, 1], [0], [0]]) == [1, 0, 0]
    assert spread_evenly([[0, 1], [1, 2], [0], [1]]) == [0, 2, 0, 1]
    assert spread_evenly([]) == []
    with pytest.raises(ValueError, match="nothing to choose from"):
        spread_evenly([[0], []])


# ---- machines: for each pair the path class, and the kinds of links on the way

Ways = Mapping[tuple[int, int], tuple[PathClass, Sequence[LinkKind]]]
PCIE, SMP, XGMI = LinkKind.PCIE, LinkKind.SMP, LinkKind.XGMI


def machine(ways, nics, hosts=("n1",)):
    """Devices and NICs joined as `ways` says, on each of the hosts alike."""
    count = 1 + max(device for device, _ in ways)
    links, routes = [], []
    for host in hosts:
        for (device, nic), (path, kinds) in ways.items():
            stops = [f"{host}-d{device}", *[f"{host}-{device}-{nic}-{i}" for i in range(9)]]
            ends = [*stops[: len(kinds)], f"{host}-{nics[nic].id}"]
            made = [
                Link(
                    id=f"{a}-{b}",
                    kind=kind,
                    ends=(a, b),
                    forward_bytes_per_s=nominal(32e9),
                    backward_bytes_per_s=nominal(32e9),
                    latency_s=nominal(1e-6),
                )
                for kind, a, b in zip(kinds, ends, ends[1:], strict=False)
            ]
            links += made
            routes.append(
                Route(
                    source=ends[0],
                    target=ends[-1],
                    links=tuple(link.id for link in made),
                    path_class=path,
                )
            )
    return Topology(
        name="made",
        origin="test",
        devices=tuple(
            Device(id=f"{host}-d{i}", index=i, host=host) for host in hosts for i in range(count)
        ),
        nics=tuple(
            replace(nic, id=f"{host}-{nic.id}", index=i, host=host)
            for host in hosts
            for i, nic in enumerate(nics)
        ),
        links=tuple(links),
        routes=tuple(routes),
    )


def near(path, *kinds):
    return path, kinds or (PCIE, PCIE)


def mlx(number, **facts):
    return Nic(id=f"nic{number}", name=f"mlx5_{number}", **facts)  # type: ignore[arg-type]


def chosen(topology):
    nics = choose_nics(topology).nic_of_device
    return [nics[d.id].name if d.id in nics else "-" for d in topology.devices]


def alike(devices, nics, path=PathClass.NODE):
    return {(d, n): near(path) for d in range(devices) for n in range(nics)}


def test_links_between_devices_count_where_the_class_is_the_same():
    """As of MI250X: the second GCD of a package passes the first on its way to the NIC."""
    ways = {
        (0, 0): near(PathClass.PIX, PCIE),
        (0, 1): near(PathClass.PXB, XGMI, PCIE),
        (1, 0): near(PathClass.PXB, XGMI, XGMI, PCIE),
        (1, 1): near(PathClass.PXB, XGMI, PCIE),
    }
    assert chosen(machine(ways, [mlx(0), mlx(1)])) == ["mlx5_0", "mlx5_1"]


def test_switches_do_not_count_twice():
    """One NIC below a switch, one at a host bridge: both across the sockets, so both serve."""
    ways = {
        **{(d, 0): near(PathClass.SYS, PCIE, SMP, PCIE) for d in range(4)},
        **{(d, 1): near(PathClass.SYS, PCIE, SMP, PCIE, PCIE) for d in range(4)},
    }
    assert chosen(machine(ways, [mlx(0), mlx(1)])) == ["mlx5_0"] * 2 + ["mlx5_1"] * 2


def test_rails_are_the_same_on_every_host_and_follow_names():
    nics = [mlx(10), mlx(2), mlx(1), mlx(11)]
    topology = machine(alike(4, 4, PathClass.PXB), nics, hosts=("n1", "n2"))
    assert chosen(topology) == ["mlx5_1", "mlx5_2", "mlx5_10", "mlx5_11"] * 2


def test_only_used_devices_share_and_keep_their_rail_where_that_is_as_even():
    def of_used(topology, *used):
        choice = choose_nics(topology, [topology.devices[i] for i in used])
        return [nic.name for nic in choice.nic_of_device.values()]

    two = machine(alike(4, 2), [mlx(0), mlx(1)])  # all: 0 0 1 1
    assert of_used(two, 2, 3) == ["mlx5_1", "mlx5_0"]
    assert of_used(two, 1, 2) == ["mlx5_0", "mlx5_1"]
    four = machine(alike(4, 4), [mlx(i) for i in range(4)])
    assert of_used(four, 1, 3) == ["mlx5_1", "mlx5_3"]


def test_a_nic_that_is_down_is_never_chosen():
    ways = {(0, 0): near(PathClass.PIX), (0, 1): near(PathClass.SYS)}
    assert chosen(machine(ways, [mlx(0, active=False), mlx(1)])) == ["mlx5_1"]
    assert chosen(machine(ways, [mlx(0, active=False), mlx(1, active=False)])) == ["-"]


def test_slower_siblings_are_never_chosen():
    fast, slow = nominal(50e9), nominal(12.5e9)
    nics = [mlx(0, bytes_per_s=slow), mlx(1, bytes_per_s=fast), mlx(2, bytes_per_s=fast)]
    topology = machine(alike(4, 3), nics)
    assert chosen(topology) == ["mlx5_1"] * 2 + ["mlx5_2"] * 2
    (left,) = nics_left_out(topology).values()
    assert (left.fault, left.why) == (NicFault.SLOW, "12.5 GB/s, its siblings have 50")


def test_one_faster_nic_makes_no_sibling_slow():
    nics = [
        *(mlx(i, bytes_per_s=nominal(25e9)) for i in range(4)),
        mlx(4, bytes_per_s=nominal(50e9)),
    ]
    ways = {**alike(4, 4, PathClass.PIX), **{(d, 4): near(PathClass.NODE) for d in range(4)}}
    topology = machine(ways, nics)
    assert nics_left_out(topology) == {}
    assert chosen(topology) == [f"mlx5_{i}" for i in range(4)]


def beside_two_gpus(*others, layer=None):
    """Two GPUs with a NIC each at their switch, a third GPU without one, and other NICs near it."""
    nics = [mlx(0, link_layer=layer), mlx(1, link_layer=layer), *others]
    ways = {
        (0, 0): near(PathClass.PIX),
        (1, 1): near(PathClass.PIX),
        **{(2, n): near(PathClass.SYS, PCIE, SMP, PCIE) for n in (0, 1)},
        **{(2, 2 + n): near(PathClass.NODE) for n in range(len(others))},
    }
    return machine(ways, nics)


@pytest.mark.parametrize(
    ("other", "why"),
    [
        (Nic(id="a", name="mlx5_bond_0"), "mlx5_0 is beside a GPU, and named otherwise"),
        (Nic(id="a", name="mlx5_an0"), "mlx5_0 is beside a GPU, and named otherwise"),
        (Nic(id="a", name="mlx5_storage0"), "its name says so"),
        (mlx(2, link_layer=LinkLayer.ETHERNET), "Ethernet, while those beside GPUs are InfiniBand"),
    ],
)
def test_storage_and_management_nics_are_told_apart(other, why):
    topology = beside_two_gpus(other, layer=LinkLayer.INFINIBAND)
    assert [(f.fault, f.why) for f in nics_left_out(topology).values()] == [
        (NicFault.OTHER_NETWORK, why)
    ]
    assert chosen(topology) == ["mlx5_0", "mlx5_1", "mlx5_0"]


def test_a_nic_of_the_same_kind_serves_where_it_is_nearest():
    assert chosen(beside_two_gpus(mlx(2))) == ["mlx5_0", "mlx5_1", "mlx5_2"]


@pytest.mark.parametrize("path", [PathClass.PIX, PathClass.PHB])
def test_beside_efa_ports_of_infiniband_are_controllers_of_nvlink(path):
    """Also where they are the nearest, or a virtual machine shows all NICs alike."""
    names = ("ibp115s0f0", "mlx5_1", "rdmap79s0", "rdmap80s0")
    nics = [Nic(id=f"n{i}", name=name) for i, name in enumerate(names)]
    ways = {
        (device, nic): near(path if nic == device else PathClass.PHB)
        for device in range(2)
        for nic in range(4)
    }
    topology = machine(ways, nics)
    left = nics_left_out(topology)
    assert {nic.name for nic in topology.nics if nic.id in left} == {*names[:2]}
    assert chosen(topology) == ["rdmap79s0", "rdmap80s0"]


def test_infiniband_goes_before_ethernet_where_no_nic_is_beside_a_gpu():
    nics = [mlx(0, link_layer=LinkLayer.ETHERNET), mlx(1, link_layer=LinkLayer.INFINIBAND)]
    assert chosen(machine(alike(2, 2), nics)) == ["mlx5_1"] * 2
    both = [mlx(i, link_layer=LinkLayer.ETHERNET) for i in range(2)]
    assert chosen(machine(alike(2, 2), both)) == ["mlx5_0", "mlx5_1"]


def test_what_says_nothing_of_others_leaves_none_out():
    """A name alone is no reason where nothing else is there."""
    assert chosen(machine(alike(2, 1), [Nic(id="a", name="storage0")])) == ["storage0"] * 2


def test_memory_nodes_decide_between_equally_near_nics():
    topology = machine(alike(2, 2, PathClass.SYS), [mlx(0, numa_node=1), mlx(1, numa_node=0)])
    devices = tuple(replace(d, numa_node=i) for i, d in enumerate(topology.devices))
    assert chosen(replace(topology, devices=devices)) == ["mlx5_1", "mlx5_0"]


def test_a_narrow_slot_makes_a_nic_the_second_choice():
    topology = machine(alike(2, 2), [mlx(0), mlx(1)])
    links = tuple(
        replace(link, forward_bytes_per_s=nominal(4e9)) if "nic0" in link.ends[1] else link
        for link in topology.links
    )
    assert chosen(replace(topology, links=links)) == ["mlx5_1"] * 2
