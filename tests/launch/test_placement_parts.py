"""Every node is sent its own lines: together they are the placement."""

from hypothesis import given
from hypothesis import strategies as st

from toposeat.launch.home_job import PlacementParts
from toposeat.model.placement import HostDevice, Placement, Seat
from toposeat.model.placement_file import format_placement

HOSTS = ["n1", "n2", "N3.cluster", "n4.a.b"]


def _placement(hosts):
    counts = {}
    seats = []
    for rank, host in enumerate(hosts):
        local = counts[host] = counts.get(host, -1) + 1
        seats.append(
            Seat(rank=rank, host=host, local_rank=local, pci_bus_id=None, uuid=None, index=0)
        )
    devices = {host: (HostDevice(index=0, pci_bus_id=None, uuid=None),) for host in counts}
    return Placement(
        seats=tuple(seats),
        devices_of_host=devices,
        vendor="nvidia",
        metadata={"costs": "1", "x": "y"},
    )


@given(st.lists(st.sampled_from(HOSTS), min_size=1, max_size=12))
def test_the_lines_of_all_nodes_are_those_of_the_file(hosts):
    text = format_placement(_placement(hosts))
    parts = PlacementParts(text.encode())
    seats = []
    for host in dict.fromkeys(hosts):
        own, ranks = parts.of([host])
        lines = own.decode().splitlines()
        mine = [line for line in lines if line[0].isdigit()]
        assert lines[0] == "# toposeat/placement/1"
        assert f"# part: {len(hosts)}" in lines
        assert "# costs: 1" in lines
        assert "# x: y" not in lines
        assert [line for line in lines if line.startswith("# devices")] == [
            f"# devices {host}: 0=-=-"
        ]
        assert ranks == {rank for rank, each in enumerate(hosts) if each == host}
        assert {int(line.partition("\t")[0]) for line in mine} == ranks
        seats += mine
    assert sorted(seats) == sorted(line for line in text.splitlines() if line[0].isdigit())


def test_a_node_with_two_names_gets_the_lines_of_both_in_the_order_of_ranks():
    parts = PlacementParts(format_placement(_placement(["n1", "n2", "n1", "n2"])).encode())
    own, ranks = parts.of(["n2", "N1.cluster"])
    assert ranks == {0, 1, 2, 3}
    ordered = [line[:1] for line in own.decode().splitlines() if line[0].isdigit()]
    assert ordered == ["0", "1", "2", "3"]


def test_a_node_of_another_job_gets_no_seat():
    own, ranks = PlacementParts(format_placement(_placement(["n1"])).encode()).of(["n9"])
    assert not ranks
    assert not any(line[0].isdigit() for line in own.decode().splitlines())


def test_any_host_concerns_all():
    own, ranks = PlacementParts(format_placement(_placement(["*", "*"])).encode()).of(["n9"])
    assert ranks == {0, 1}
    assert "# devices *: 0=-=-" in own.decode()
