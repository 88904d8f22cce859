"""CPU sets, memory nodes and NICs of placements."""

import itertools
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.catalogue import CATALOGUE
from toposeat.errors import InputError, UsageError
from toposeat.mapping import seat_ranks, with_reserved_cpus
from toposeat.model.cpu_list import format_cpu_list, parse_cpu_list
from toposeat.model.topology import (
    Component,
    ComponentKind,
    Device,
    Nic,
    Topology,
)
from toposeat.topology import read_topology

pools = st.dictionaries(
    st.integers(0, 20),
    st.sets(st.integers(0, 40), min_size=1).map(lambda s: tuple(sorted(s))),
    min_size=1,
)


def shared(pools, cores=(), caches=()):
    """The CPUs of ranks whose devices are near these, on a node of such cores and caches."""
    devices = tuple(
        Device(id=f"d{at}", index=at, host="n1", cpus=format_cpu_list(pools[rank]))
        for at, rank in enumerate(sorted(pools))
    )
    known = {
        name: tuple(format_cpu_list(sorted(each)) for each in parts)
        for name, parts in (("cores", cores), ("caches", caches))
    }
    node = Component(id="numa0", kind=ComponentKind.NUMA, host="n1", **known)
    machine = Topology(origin="test", devices=devices, components=(node,))
    seats = seat_ranks(machine, len(pools), range(len(pools))).seats
    return {
        rank: parse_cpu_list(seat.cpus) for rank, seat in zip(sorted(pools), seats, strict=True)
    }


@given(st.sets(st.integers(0, 300), min_size=1))
def test_cpu_lists_round_trip(cpus):
    assert parse_cpu_list(format_cpu_list(sorted(cpus))) == tuple(sorted(cpus))


def test_bad_cpu_list():
    with pytest.raises(ValueError, match="not a CPU list"):
        parse_cpu_list("7-3")
    assert parse_cpu_list("0-65535,0-3,8") == tuple(range(65536))
    with pytest.raises(ValueError, match="not a CPU list"):  # a short text, minutes of work
        parse_cpu_list(",".join(["0-65535"] * 1000))


@given(pools)
def test_shares_are_subsets_and_never_empty(pools):
    shares = shared(pools)
    assert shares.keys() == pools.keys()
    for rank, cpus in shares.items():
        assert cpus
        assert set(cpus) <= set(pools[rank])


@given(st.integers(1, 16), st.integers(0, 64))
def test_equal_pools_are_shared_evenly(ranks, extra):
    pool = tuple(range(100, 100 + ranks + extra))
    shares = shared(dict.fromkeys(range(ranks), pool))
    given = [cpu for cpus in shares.values() for cpu in cpus]
    assert sorted(given) == list(pool)
    sizes = {len(cpus) for cpus in shares.values()}
    assert max(sizes) - min(sizes) <= 1


def test_both_threads_of_a_core_stay_together():
    pool = parse_cpu_list("0-7,32-39")  # 32 is the second thread of core 0
    shares = shared({0: pool, 1: pool})
    assert [format_cpu_list(shares[rank]) for rank in (0, 1)] == ["0-3,32-35", "4-7,36-39"]


def test_threads_of_a_core_stay_together_where_ranks_do_not_divide_cores():
    pool = parse_cpu_list("0-7,32-39")
    shares = shared(dict.fromkeys(range(3), pool))
    assert [format_cpu_list(shares[rank]) for rank in range(3)] == [
        "0-2,32-34",
        "3-5,35-37",
        "6-7,38-39",
    ]


def test_cores_that_are_known_are_given_whole():
    cores = [frozenset((2 * core, 2 * core + 1)) for core in range(8)]  # neighbours, as on POWER
    shares = shared(dict.fromkeys(range(3), tuple(range(16))), cores)
    assert [format_cpu_list(shares[rank]) for rank in range(3)] == ["0-5", "6-11", "12-15"]
    overlapping = shared({0: tuple(range(8)), 1: tuple(range(4, 12))}, cores)
    assert [format_cpu_list(overlapping[rank]) for rank in (0, 1)] == ["0-5", "6-11"]


def test_more_ranks_than_cores_have_single_threads():
    cores = [frozenset((0, 4)), frozenset((1, 5))]
    shares = shared(dict.fromkeys(range(3), (0, 1, 4, 5)), cores)
    assert [shares[rank] for rank in range(3)] == [(0, 4), (1,), (5,)]
    unlike = shared({0: (0, 1, 4, 5), 1: (1, 5), 2: (1, 5)}, cores)
    assert sorted(unlike.values()) == [(0, 4), (1,), (5,)]


@given(
    st.integers(2, 4),
    st.lists(st.tuples(st.integers(0, 40), st.integers(1, 24)), min_size=1, max_size=8),
)
def test_no_core_is_cut_where_there_are_enough(threads, ranges):
    """Pools of whole cores: where each rank could have one, nobody has a part of one."""
    cores = [frozenset(range(threads * at, threads * (at + 1))) for at in range(64)]
    pools = {
        rank: tuple(range(threads * first, threads * min(64, first + count)))
        for rank, (first, count) in enumerate(ranges)
    }
    shares = shared(pools, cores)
    cut = [c for c in cores if any(0 < len(c.intersection(s)) < threads for s in shares.values())]
    if all(count >= len(ranges) for _, count in ranges):
        assert not cut
        assert len({cpu for s in shares.values() for cpu in s}) == sum(map(len, shares.values()))


def test_whole_caches_where_they_divide_evenly():
    pool = parse_cpu_list("0-7,16-23")
    cores = [frozenset((cpu, cpu + 16)) for cpu in range(8)]
    caches = [frozenset(parse_cpu_list(text)) for text in ("0-1,16-17", "2-7,18-23")]
    for ranks, shares in (
        (2, ["0-1,16-17", "2-7,18-23"]),  # a cache of which a site keeps some cores
        (4, ["0,16", "1,17", "2-4,18-20", "5-7,21-23"]),
        (3, ["0-2,16-18", "3-5,19-21", "6-7,22-23"]),
    ):
        given = shared(dict.fromkeys(range(ranks), pool), cores, caches)
        assert [format_cpu_list(given[rank]) for rank in range(ranks)] == shares


def test_threads_of_overlapping_pools():
    lists = ("0-3,8-11", "0-2,8-10", "2-3,10-11")
    shares = shared(dict(enumerate(map(parse_cpu_list, lists))))
    assert [format_cpu_list(shares[rank]) for rank in range(3)] == ["1,9", "0,8", "2-3,10-11"]


@given(
    st.integers(1, 3),
    st.lists(st.sets(st.integers(0, 11), min_size=1), min_size=1, max_size=6),
)
def test_no_two_ranks_on_a_core_where_each_can_have_one(threads, wanted):
    """Any pools of whole cores, however they overlap; threads of a core are 12 apart."""
    pools = {
        rank: tuple(sorted(core + 12 * thread for core in cores for thread in range(threads)))
        for rank, cores in enumerate(wanted)
    }
    known = [frozenset(core + 12 * thread for thread in range(threads)) for core in range(12)]
    shares = shared(pools, known)
    taken = [{cpu % 12 for cpu in cpus} for cpus in shares.values()]
    if any(len(set(chosen)) == len(wanted) for chosen in itertools.product(*wanted)):
        assert sum(map(len, taken)) == len(set().union(*taken))
        assert all(
            len(cpus) == threads * len(cores)
            for cpus, cores in zip(shares.values(), taken, strict=True)
        )


@pytest.mark.parametrize("name", CATALOGUE)
def test_no_two_ranks_on_a_core_of_the_catalogue(name):
    machine = read_topology(name)
    lists = {(c.host, c.numa_node): c.cpus for c in machine.components if c.cpus}
    for ranks in range(1, 2 * len(machine.devices) + 1):
        devices = [rank % len(machine.devices) for rank in range(ranks)]
        taken = {}
        for seat, at in zip(seat_ranks(machine, ranks, devices).seats, devices, strict=True):
            device = machine.devices[at]
            key = (device.host, device.numa_node)
            listed = lists.get(key) or device.cpus
            if seat.cpus and listed:
                core_of = _cores_as_listed(listed, name)
                taken.setdefault(key, []).append({core_of[c] for c in parse_cpu_list(seat.cpus)})
        for key, cores in taken.items():
            there = set(_cores_as_listed(lists[key] or "", name).values())
            if len(cores) <= len(there):
                assert sum(map(len, cores)) == len(set().union(*cores)), (key, ranks)


def _cores_as_listed(listed, name):
    """The core of each CPU: the second of two runs has second threads; POWER8 has eight."""
    runs = [parse_cpu_list(run) for run in listed.split(",")]
    if name in ("power9-4", "summit-6", "minsky-4"):
        threads = 8 if name == "minsky-4" else 4
        return {cpu: cpu // threads for run in runs for cpu in run}
    return {cpu: at for run in runs for at, cpu in enumerate(run)}


def test_fewer_cpus_than_ranks_are_shared_singly():
    shares = shared(dict.fromkeys(range(5), (4, 5)))
    assert [shares[rank] for rank in range(5)] == [(4,), (5,), (4,), (5,), (4,)]


def test_overlapping_pools_stay_disjoint():
    shares = shared({0: (0, 1, 2, 3), 1: (2, 3), 2: (8, 9)})
    assert shares == {0: (0, 1), 1: (2, 3), 2: (8, 9)}


def two_sockets():
    """Four devices and three NICs; NICs a and b hang at socket 0 beside devices 0 and 1."""
    return read_topology(Path(__file__).with_name("two-sockets.json"))


def test_seats_follow_the_device():
    placement = seat_ranks(two_sockets(), 4, [2, 0, 3, 1], metadata={"why": "test"})
    assert placement.vendor == "nvidia"
    assert placement.metadata["why"] == "test"
    assert [seat.index for seat in placement.seats] == [2, 0, 3, 1]
    assert [seat.local_rank for seat in placement.seats] == [0, 1, 2, 3]
    assert [seat.uuid for seat in placement.seats] == ["GPU-2", "GPU-0", "GPU-3", "GPU-1"]
    # Device 2 is near CPUs 8-31, but its NUMA node has 16-31 only.
    assert [seat.cpus for seat in placement.seats] == ["16-23", "0-7", "24-31", "8-15"]
    assert [seat.memory_node for seat in placement.seats] == [1, 0, 1, 0]
    assert [seat.nic for seat in placement.seats] == ["mlx5_2", "mlx5_0", "mlx5_2", "mlx5_1"]
    assert [device.index for device in placement.devices_of_host["n1"]] == [0, 1, 2, 3]


def test_no_rank_is_bound_to_cpus_that_a_site_keeps():
    """The first core of each cache of a Frontier node, and what somebody names."""
    frontier = read_topology("mi250x-8")
    cpus = [seat.cpus for seat in seat_ranks(frontier, 2, (0, 4)).seats]
    assert cpus == ["49-55,113-119", "1-7,65-71"]
    less = with_reserved_cpus(frontier, "1-2,65-66")
    assert seat_ranks(less, 1, (4,)).seats[0].cpus == "3-7,67-71"
    seats = seat_ranks(with_reserved_cpus(read_topology("aurora-12"), "1-3"), 6, range(6)).seats
    cores = [{cpu % 104 for cpu in parse_cpu_list(seat.cpus or "")} for seat in seats]
    assert sum(map(len, cores)) == len(set().union(*cores)) == 51
    with pytest.raises(UsageError, match="not a CPU list"):
        with_reserved_cpus(frontier, "first")


@pytest.mark.parametrize(
    ("name", "ranks", "words"),
    [
        ("dgx-a100", 8, "the second of two runs"),
        ("power9-4", 4, "4 CPUs in a row"),
        ("dgx-a100", 1, ""),  # a whole list, however its cores are numbered
    ],
)
def test_it_is_said_how_cores_were_guessed(name, ranks, words):
    guess = seat_ranks(read_topology(name), ranks, range(ranks)).metadata.get("cores", "")
    assert words in guess
    assert bool(words) == guess.startswith("guessed from CPU numbers")


def test_cores_that_a_source_tells_are_not_guessed():
    machine = two_sockets()
    assert "each CPU is one" in seat_ranks(machine, 4, range(4)).metadata["cores"]
    told = tuple(
        replace(part, cores=tuple(f"{at},{at + 8}" for at in range(16 * i, 16 * i + 8)))
        for i, part in enumerate(machine.components)
    )
    placement = seat_ranks(replace(machine, components=told), 4, range(4))
    assert "cores" not in placement.metadata
    assert [seat.cpus for seat in placement] == [
        "0-3,8-11",
        "4-7,12-15",
        "16-19,24-27",
        "20-23,28-31",
    ]


def test_unknown_stays_unknown():
    bare = Topology(
        name="bare",
        origin="test",
        devices=tuple(Device(id=f"d{i}", index=i) for i in range(2)),
        nics=(Nic(id="n", index=0),),
    )
    placement = seat_ranks(bare, 2, [1, 0])
    for seat in placement.seats:
        assert (seat.cpus, seat.memory_node, seat.nic, seat.uuid) == (None, None, None, None)


def test_a_cpu_set_stays_in_one_numa_node_of_the_catalogue():
    for name in ("dgx-1v", "dgx-a100", "k80-16", "mi250x-8"):
        machine = read_topology(name)
        ranks = len(machine.devices)
        placement = seat_ranks(machine, ranks, list(reversed(range(ranks))))
        nodes = {
            part.numa_node: set(parse_cpu_list(part.cpus))
            for part in machine.components
            if part.kind is ComponentKind.NUMA and part.cpus
        }
        taken = set()
        for seat in placement.seats:
            if seat.cpus is None:
                continue
            cpus = set(parse_cpu_list(seat.cpus))
            assert not cpus & taken
            taken |= cpus
            if seat.memory_node in nodes:
                assert cpus <= nodes[seat.memory_node]


@pytest.mark.parametrize("devices", [[0], [0, 9]])
def test_wrong_mappings_are_refused(devices):
    with pytest.raises(InputError, match="expected a device"):
        seat_ranks(two_sockets(), 2, devices)
