"""What a reader could take for something else without a word: units, gaps, numbers of other kinds.

Each case is a sound file of ours with one thing changed; found by reading the readers for it.
"""

from __future__ import annotations

import pytest

from tests.fuzz.target import SEEDS
from tests.topology.readers.recorded import facts_of_text
from toposeat.errors import InputError


def seed(name: str) -> str:
    return (SEEDS / name).read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("name", "old", "new", "message"),
    [
        ("nvlink_s.txt", "25.781 GB/s", "206 Gb/s", "damaged line: 'Link 0: 206 Gb/s'"),
        ("nvbandwidth.txt", "(GB/s)", "(MB/s)", "bandwidths in MB/s: unknown unit"),
        ("nvbandwidth.json", "(GB/s)", "(GiB/s)", "bandwidths in GiB/s: unknown unit"),
        ("nvbandwidth.json", '"19.71"', "true", "got `bool` - at"),
        ("nvbandwidth.json", '"19.71"', '"1_971"', "found '1_971'"),
        ("nvbandwidth.json", "37.73", "39.73", "add up to 37.73, not to the 39.73 stated"),
        ("nvbandwidth.json", "37.73", "9" * 400, "is out of range"),
        ("nvbandwidth.txt", "19.71", "91.71", "add up to 109.73, not to the 37.73 stated"),
        ("rocm_bandwidth_test.txt", "GB/s", "GiB/s", "bandwidths in GiB/s: unknown unit"),
        ("rocm_bandwidth_test.txt", "28.311", "-8.311", "where a number or N/A belongs"),
        ("rocm_bandwidth_test.txt", "c3:0.0", "29:0.0", "appears twice"),
        ("p2p_bandwidth_latency.txt", "GB/s", "MB/s", "bandwidth in MB/s: unknown unit"),
        ("p2p_bandwidth_latency.txt", "pciBusID: b1", "pciBusID: 31", "appears twice"),
        ("p2p_bandwidth_latency.txt", "21.70", "-1.70", "where a number"),
    ],
)
def test_what_would_be_read_as_something_else_is_refused(
    name: str, old: str, new: str, message: str
) -> None:
    text = seed(name)
    assert old in text
    facts_of_text(text, name)
    with pytest.raises(InputError, match=message) as caught:
        facts_of_text(text.replace(old, new), name)
    assert caught.value.hint


def test_a_host_copy_of_zero_is_not_known() -> None:
    facts = facts_of_text(seed("rocm_bandwidth_test.txt").replace("28.311", "0.000"))
    first = facts.host_copies[0]
    assert first.to_device is None
    assert first.from_device == pytest.approx(28.502e9)


def test_a_second_run_of_a_test_is_said_to_be_left_out() -> None:
    text = seed("nvbandwidth.txt")
    again = text[text.index("Running device_to_device_memcpy_read_ce") :]
    facts = facts_of_text(text + "\n" + again)
    assert any("has device_to_device_memcpy_read_ce again" in line for line in facts.report)


def test_declarations_inside_of_xml_are_damage() -> None:
    """Found by fuzzing: the encoding of a second declaration was looked up."""
    text = seed("hwloc3.xml").replace("<object", '<?xml version="1.0" encoding="UTF-9"?><object', 1)
    with pytest.raises(InputError, match="bad XML"):
        facts_of_text(text, "node.xml")


def test_a_heading_without_its_matrix_is_refused() -> None:
    """Found by fuzzing: the first of no matrices was looked at."""
    text = "[P2P (Peer-to-Peer) GPU Bandwidth Latency Test]\nP2P Connectivity Matrix\n"
    with pytest.raises(InputError, match="no matrix below its heading"):
        facts_of_text(text)
