"""What is said of groups: their ranks and bytes, and whose devices changed."""

from toposeat.mapping import map_traffic
from toposeat.model.traffic import Communicator, Exchange, GroupLoad, Traffic
from toposeat.profile import pattern_traffic
from toposeat.report.view.mapping import group_lines
from toposeat.report.view.traffic import group_rows
from toposeat.topology import read_topology


def lines(name, pattern):
    machine, traffic = read_topology(name), pattern_traffic(pattern)
    return group_lines(map_traffic(machine, traffic), machine, traffic)


def test_groups_that_cross_sockets_are_told_so():
    found = lines("a100-pcie-8-bridged", "llm:tp=4,dp=2,order=dp-tp-cp-pp")
    assert found[0].startswith("tensor parallel 0: ")
    assert "(across sockets) to" in found[0]
    assert found[0].endswith("(below one PCIe switch)")
    assert len(found) == 5
    assert found[-1] == "and 2 more"


def test_a_faster_link_of_the_same_kind_needs_no_words():
    (first, *_) = lines("dgx-1v", "llm:tp=2,dp=4")
    assert first == "tensor parallel 0: 20.0 GB/s to 40.0 GB/s"


def test_groups_that_stay_are_not_named():
    assert lines("hgx-h100", "llm:tp=2,dp=4") == []


def job(ranks, loads):
    """Communicators by name, in order, and (communicator, exchange, bytes) of NCCL."""
    return Traffic(
        ranks=64,
        origin="test",
        tables={},
        communicators=tuple(
            Communicator(id=id, ranks=members, name=name)
            for id, (name, members) in enumerate(ranks.items())
        ),
        groups=tuple(
            GroupLoad(communicator=at, library="nccl", exchange=exchange, bytes=size, messages=1)
            for at, exchange, size in loads
        ),
    )


def test_groups_are_named_the_heaviest_first():
    ranks = {"tensor": (0, 1, 2, 3, 8, 10, 11), "": (5, 4), "wide": tuple(range(0, 40, 2))}
    ring, pairs = Exchange.RING, Exchange.PAIRWISE
    loads = [(0, ring, 512), (1, ring, 2048), (0, ring, 512), (0, pairs, 100), (2, ring, 1)]
    assert group_rows(job(ranks, loads)) == [
        ("group 1", "4-5", "nccl", "rings", "2.00 KiB"),
        ("tensor", "0-3 8 10-11", "nccl", "rings", "1.00 KiB"),
        ("tensor", "0-3 8 10-11", "nccl", "every pair", "100 B"),
        ("wide", "0 2 4 6 8 10 12 ... 38", "nccl", "rings", "1 B"),
    ]
    assert group_rows(job(ranks, [])) == []


def test_of_many_groups_the_rest_is_counted():
    ranks = {f"g{at}": (at, at + 1) for at in range(20)}
    rows = group_rows(job(ranks, [(at, Exchange.RING, 100 - at) for at in range(20)]))
    assert [row[0] for row in rows] == [*(f"g{at}" for at in range(16)), "and 4 more"]
