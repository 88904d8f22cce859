"""Which lent device each rank borrows, and what it costs."""

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from toposeat.mapping.borrowing import (
    Ways,
    assigned,
    nearest_devices,
    price_of,
    uses_of,
    with_ways,
)
from toposeat.model.lent import (
    BorrowedDevice,
    BorrowedSeat,
    DeviceUse,
    LentDevice,
    MeasuredWay,
)
from toposeat.model.topology import ANY_HOST
from toposeat.topology import read_network

# Two leaves of two hosts: 1 GB/s at each port, a quarter of that above a leaf.
TREE = """SwitchName=leaf0 Nodes=n[1-2]
SwitchName=leaf1 Nodes=n[3-4]
SwitchName=spine Switches=leaf[0-1]
"""


@pytest.fixture
def ways(tmp_path):
    file = tmp_path / "topology.conf"
    file.write_text(TREE)
    return Ways(read_network(f"{file},bandwidth=1:0.25,latency=5:10"))


def lent(*hosts):
    return [
        LentDevice(id=f"{host}/{at}", host=host, index=at, name="d", kind="gpu", socket=f"/{at}")
        for at, host in enumerate(hosts)
    ]


tables = st.integers(1, 4).flatmap(
    lambda rows: st.integers(rows, 5).flatmap(
        lambda columns: st.lists(
            st.lists(st.integers(0, 6), min_size=columns, max_size=columns),
            min_size=rows,
            max_size=rows,
        )
    )
)


@given(tables)
def test_no_assignment_has_a_smaller_sum(table):
    cost = np.array(table, float)
    rows, columns = cost.shape
    best = min(
        sum(cost[row, at] for row, at in enumerate(order))
        for order in permutations(range(columns), rows)
    )
    taken = assigned(cost)
    assert len(set(taken)) == rows
    assert sum(cost[row, at] for row, at in enumerate(taken)) == best


def test_a_way_is_what_the_network_says_of_it(ways):
    own, leaf, spine = (ways.between("n1", there) for there in ("n1.site", "n2", "n3"))
    assert own is not None
    assert leaf is not None
    assert spine is not None
    assert own.round_trip_s < leaf.round_trip_s < spine.round_trip_s
    # Two ports of 5 us, and above the leaf two hops of 10 us, each there and back.
    assert spine.round_trip_s - leaf.round_trip_s == pytest.approx(40e-6)
    assert (leaf.bytes_per_s, spine.bytes_per_s) == (1e9, 0.25e9)
    assert ways.between("n1", "elsewhere") is None
    assert ways.between(ANY_HOST, "n1") is None
    assert ways.between(ANY_HOST, ANY_HOST) is None


def test_every_rank_gets_the_nearest_that_all_can_have(ways):
    choice = nearest_devices(["n1", "n3"], lent("n4", "n2", "n1"), ways)
    assert (choice.devices_of_rank, choice.is_shared) == (((2,), (0,)), False)
    # n1's own would be nearest to both ranks of n1: one takes the neighbour's, none goes far.
    choice = nearest_devices(["n1", "n1", "n4"], lent("n3", "n2", "n1"), ways)
    assert choice.devices_of_rank == ((1,), (2,), (0,))


def test_the_whole_is_best_where_the_nearest_for_one_is_not(ways):
    """The rank that moves most goes least far, whichever rank it is."""
    light = DeviceUse(bytes_to=1, bytes_from=1, calls=1, waits=1)
    heavy = DeviceUse(bytes_to=1e9, bytes_from=1e9, calls=1, waits=1)
    devices = lent("n3", "n2")
    for uses, expected in (([light, heavy], ((0,), (1,))), ([heavy, light], ((1,), (0,)))):
        choice = nearest_devices(["n1", "n1"], devices, ways, uses=uses)
        assert choice.devices_of_rank == expected


def test_devices_are_shared_only_where_there_are_too_few(ways):
    hosts = ["n1", "n1", "n2", "n2", "n3", "n3", "n4", "n4"]
    choice = nearest_devices(hosts, lent("n1", "n2", "n3", "n4"), ways)
    assert choice.is_shared
    assert choice.devices_of_rank == tuple((at // 2,) for at in range(8))
    choice = nearest_devices(["n1"] * 3, lent("n4", "n1", "n3"), ways)
    assert not choice.is_shared
    assert sorted(choice.devices_of_rank) == [(0,), (1,), (2,)]


def test_several_devices_of_a_rank_are_different_ones_nearest_first(ways):
    choice = nearest_devices(["n1"], lent("n3", "n2", "n1"), ways, each=2)
    assert choice.devices_of_rank == ((2, 1),)
    choice = nearest_devices(["n1", "n2"], lent("n3", "n1"), ways, each=2)
    assert choice.is_shared
    assert [set(own) for own in choice.devices_of_rank] == [{0, 1}, {0, 1}]


def test_what_is_not_known_goes_by_the_list_after_what_is(ways):
    choice = nearest_devices([ANY_HOST] * 3, lent("n1", "x", "y", "z"), Ways(None))
    assert choice.devices_of_rank == ((0,), (1,), (2,))
    choice = nearest_devices(["n1", "n1"], lent("x", "n3", "n1"), ways)
    assert choice.devices_of_rank == ((1,), (2,))


def test_without_a_network_the_own_host_is_nearest():
    choice = nearest_devices(["b", "a"], lent("a", "b"), Ways(None))
    assert choice.devices_of_rank == ((1,), (0,))


def seat(rank, host, on, **more):
    run_s = more.pop("run_s", None)
    device = BorrowedDevice(id=f"{on}/0", host=on, name="d", **more)  # type: ignore[arg-type]
    return BorrowedSeat(rank=rank, host=host, devices=(device,), run_s=run_s)  # type: ignore[arg-type]


def test_the_price_is_the_way_alone_over_the_time_without_one(ways):
    """10,000 waiting calls and 0.5 GB each way, recorded on a link that took 1 s of 11 s."""
    use = DeviceUse(bytes_to=5e8, bytes_from=5e8, calls=40_000, waits=10_000)
    own = MeasuredWay(round_trip_s=1e-5, to_bytes_per_s=1e9, from_bytes_per_s=1.25e9)
    past = [seat(0, "n1", "n1", use=use, measured=own, run_s=11.0)]
    planned = with_ways([seat(0, "n1", "n3")], ways)
    price = price_of(planned, past)
    way = planned[0].devices[0].predicted
    assert price is not None
    assert way is not None
    assert price.run_s == pytest.approx(11.0 - 0.1 - 0.5 - 0.4)
    assert price.added_s == pytest.approx(10_000 * way.round_trip_s + 1e9 / 0.25e9)
    assert price.share == pytest.approx(price.added_s / price.run_s)


def test_the_slowest_rank_says_the_price_and_new_ranks_do_as_the_first(ways):
    use = DeviceUse(bytes_to=1e9, bytes_from=0, calls=1, waits=0)
    past = [seat(0, "n1", "n1", use=use, run_s=1.0)]
    price = price_of(with_ways([seat(0, "n1", "n2"), seat(1, "n1", "n3")], ways), past)
    assert price is not None
    assert (price.rank, price.added_s) == (1, pytest.approx(4.0))
    assert uses_of(3, past) == [use] * 3


def test_what_nobody_recorded_has_no_price(ways):
    planned = with_ways([seat(0, "n1", "n2")], ways)
    assert price_of(planned, [seat(0, "n1", "n1")]) is None
    use = DeviceUse(bytes_to=1, bytes_from=1, calls=1, waits=1)
    told = [seat(0, "n1", "n1", use=use, run_s=1.0)]
    assert price_of(with_ways([seat(0, "n1", "elsewhere")], ways), told) is None
    assert uses_of(2, [seat(0, "n1", "n1")]) == []
