"""Which lent device each rank borrows, and what it costs."""

from itertools import permutations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from toposeat.mapping import Ways, nearest_devices, price_of, uses_of, with_ways
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


places = st.sampled_from(["n1", "n2", "n3", "n4"])


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    ranks=st.lists(st.tuples(places, st.integers(0, 6)), min_size=1, max_size=4),
    at=st.lists(places, min_size=4, max_size=5),
)
def test_no_assignment_has_a_smaller_sum(ways, ranks, at):
    """Of the waits and bytes of all ranks, whose bytes are so many tens of millions."""
    hosts = [host for host, _ in ranks]
    uses = [DeviceUse(bytes_to=size * 1e7, bytes_from=0, calls=1, waits=1) for _, size in ranks]

    def sum_of(devices):
        chosen = zip(hosts, uses, devices, strict=True)
        return sum(ways.between(host, at[device]).seconds(use) for host, use, device in chosen)

    taken = [own for (own,) in nearest_devices(hosts, lent(*at), ways, uses=uses).devices_of_rank]
    assert len(set(taken)) == len(taken)
    least = min(map(sum_of, permutations(range(len(at)), len(hosts))))
    assert sum_of(taken) == pytest.approx(least)


def test_a_way_is_what_the_network_says_of_it(ways):
    own, leaf, spine = (ways.between("n1", there) for there in ("n1.site", "n2", "n3"))
    assert own.round_trip_s < leaf.round_trip_s < spine.round_trip_s
    # Two ports of 5 us, and above the leaf two hops of 10 us, each there and back.
    assert spine.round_trip_s - leaf.round_trip_s == pytest.approx(40e-6)
    assert (leaf.bytes_per_s, spine.bytes_per_s) == (1e9, 0.25e9)
    assert ways.between("n1", "elsewhere") is None
    assert ways.between(ANY_HOST, "n1") is None
    assert ways.between(ANY_HOST, ANY_HOST) is None


@pytest.mark.parametrize(
    ("hosts", "at", "each", "expected"),
    [
        ("n1 n3", "n4 n2 n1", 1, [(2,), (0,)]),
        # n1's own would be nearest to both its ranks: one takes the neighbour's, none goes far
        ("n1 n1 n4", "n3 n2 n1", 1, [(1,), (2,), (0,)]),
        ("n1 n1 n1", "n4 n1 n3", 1, [(0,), (1,), (2,)]),
        ("n1", "n3 n2 n1", 2, [(2, 1)]),
        # shared only where there are too few
        ("n1 n1 n2 n2 n3 n3 n4 n4", "n1 n2 n3 n4", 1, [(at // 2,) for at in range(8)]),
        ("n1 n2", "n3 n1", 2, [(1, 0), (1, 0)]),
        # what is not known goes by the list, after what is
        ("* * *", "n1 x y z", 1, [(0,), (1,), (2,)]),
        ("n1 n1", "x n3 n1", 1, [(1,), (2,)]),
    ],
)
def test_every_rank_gets_the_nearest_that_all_can_have(ways, hosts, at, each, expected):
    hosts, devices = hosts.replace("*", ANY_HOST).split(), lent(*at.split())
    choice = nearest_devices(hosts, devices, ways, each=each)
    assert list(choice.devices_of_rank) == expected
    assert choice.is_shared == (len(hosts) * each > len(devices))


def test_the_rank_that_moves_most_goes_least_far(ways):
    light = DeviceUse(bytes_to=1, bytes_from=1, calls=1, waits=1)
    heavy = DeviceUse(bytes_to=1e9, bytes_from=1e9, calls=1, waits=1)
    for uses, expected in (([light, heavy], ((0,), (1,))), ([heavy, light], ((1,), (0,)))):
        choice = nearest_devices(["n1", "n1"], lent("n3", "n2"), ways, uses=uses)
        assert choice.devices_of_rank == expected


def test_without_a_network_the_own_host_is_nearest():
    choice = nearest_devices(["b", "a"], lent("a", "b"), Ways(None))
    assert choice.devices_of_rank == ((1,), (0,))


def seat(rank, host, on, **more):
    run_s = more.pop("run_s", None)
    device = BorrowedDevice(id=f"{on}/0", host=on, name="d", **more)
    return BorrowedSeat(rank=rank, host=host, devices=(device,), run_s=run_s)


def test_the_price_is_the_way_alone_over_the_time_without_one(ways):
    """10,000 waiting calls and 0.5 GB each way, recorded on a link that took 1 s of 11 s."""
    use = DeviceUse(bytes_to=5e8, bytes_from=5e8, calls=40_000, waits=10_000)
    own = MeasuredWay(round_trip_s=1e-5, to_bytes_per_s=1e9, from_bytes_per_s=1.25e9)
    past = [seat(0, "n1", "n1", use=use, measured=own, run_s=11.0)]
    planned = with_ways([seat(0, "n1", "n3")], ways)
    price = price_of(planned, past)
    way = planned[0].devices[0].predicted
    assert price.run_s == pytest.approx(11.0 - 0.1 - 0.5 - 0.4)
    assert price.added_s == pytest.approx(10_000 * way.round_trip_s + 1e9 / 0.25e9)
    assert price.share == pytest.approx(price.added_s / price.run_s)


def test_the_slowest_rank_says_the_price_and_new_ranks_do_as_the_first(ways):
    use = DeviceUse(bytes_to=1e9, bytes_from=0, calls=1, waits=0)
    past = [seat(0, "n1", "n1", use=use, run_s=1.0)]
    price = price_of(with_ways([seat(0, "n1", "n2"), seat(1, "n1", "n3")], ways), past)
    assert (price.rank, price.added_s) == (1, pytest.approx(4.0))
    assert uses_of(3, past) == [use] * 3


def test_what_nobody_recorded_has_no_price(ways):
    planned = with_ways([seat(0, "n1", "n2")], ways)
    assert price_of(planned, [seat(0, "n1", "n1")]) is None
    use = DeviceUse(bytes_to=1, bytes_from=1, calls=1, waits=1)
    told = [seat(0, "n1", "n1", use=use, run_s=1.0)]
    assert price_of(with_ways([seat(0, "n1", "elsewhere")], ways), told) is None
    assert uses_of(2, [seat(0, "n1", "n1")]) == []
