"""What is said of groups whose devices changed."""

from __future__ import annotations

from toposeat.mapping import map_traffic
from toposeat.profile import pattern_traffic
from toposeat.report.group_words import group_lines
from toposeat.topology import read_topology


def lines(name: str, pattern: str) -> list[str]:
    machine, traffic = read_topology(name), pattern_traffic(pattern)
    return group_lines(map_traffic(machine, traffic), machine, traffic)


def test_groups_that_cross_sockets_are_told_so() -> None:
    found = lines("a100-pcie-8-bridged", "llm:tp=4,dp=2,order=dp-tp-cp-pp")
    assert found[0].startswith("tensor parallel 0: ")
    assert "(across sockets) to" in found[0]
    assert found[0].endswith("(below one PCIe switch)")
    assert len(found) == 5
    assert found[-1] == "and 2 more"


def test_a_faster_link_of_the_same_kind_needs_no_words() -> None:
    (first, *_) = lines("dgx-1v", "llm:tp=2,dp=4")
    assert first == "tensor parallel 0: 24.2 GB/s to 48.4 GB/s"


def test_groups_that_stay_are_not_named() -> None:
    assert lines("hgx-h100", "llm:tp=2,dp=4") == []
