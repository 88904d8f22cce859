"""Measured rates against siblings and against what a product's PCIe link carries.

The inputs are tables as NVIDIA's tools print them, so that reading and merging are in the test.
"""

from collections.abc import Sequence
from pathlib import Path

from tests.topology.readers.recorded import machine_of
from toposeat.model.health import Severity
from toposeat.topology import findings_of, parse_topology_text

Rates = Sequence[Sequence[float]]


def square(count, rate, **others):
    """One rate for all pairs; `d1_d2=40` is that of a pair, `d1=3` of all pairs of a device."""
    rows = [[900.0 if i == j else rate for j in range(count)] for i in range(count)]
    for ends, value in others.items():
        numbers = {int(each[1:]) for each in ends.split("_")}
        for i in range(count):
            for j in range(count):
                if i != j and numbers <= {i, j}:
                    rows[i][j] = value
    return rows


def p2p(names, rates, *, access=True):
    """A machine from what p2pBandwidthLatencyTest prints of one direction."""
    count = range(len(names))
    can, state = ("CAN", "Enabled") if access else ("CANNOT", "Disabled")
    lines = [
        "[P2P (Peer-to-Peer) GPU Bandwidth Latency Test]",
        *(
            f"Device: {i}, {name}, pciBusID: {i + 1}, pciDeviceID: 0, pciDomainID:0"
            for i, name in enumerate(names)
        ),
        *(f"Device={i} {can} Access Peer Device={j}" for i in count for j in count if i != j),
        f"Unidirectional P2P={state} Bandwidth {'(P2P Writes) ' if access else ''}Matrix (GB/s)",
        "   D\\D" + "".join(f"{j:6}" for j in count),
        *(f"{i:6} " + " ".join(f"{rate:.2f}" for rate in row) for i, row in enumerate(rates)),
    ]
    return parse_topology_text("\n".join(lines) + "\n", Path("p2p.txt"))


def slow(machine):
    return [f for f in findings_of(machine) if f.code in ("device-slow", "pair-slow")]


CARD = "NVIDIA GeForce RTX 4090"


def test_one_device_of_three_on_few_lanes_is_doubted():
    (found,) = slow(p2p([CARD] * 3, square(3, 25, d0=13)))
    assert (found.severity, found.code, found.subject) == (Severity.DOUBT, "device-slow", "D0")
    assert "13 GB/s at most, those of the others 25 GB/s" in found.detail
    assert slow(p2p([CARD] * 3, square(3, 25, d0=22))) == []


def test_a_device_without_a_quarter_of_the_others_is_a_fault():
    (found,) = slow(p2p([CARD] * 7, square(7, 25, d6=2)))
    assert (found.severity, found.subject) == (Severity.FAULT, "D6")


def test_where_half_are_slower_the_machine_was_built_so():
    halves = square(4, 14, d2_d3=25)
    assert slow(p2p([CARD] * 4, halves)) == []


def test_another_product_may_have_half_the_lanes():
    names = [CARD, CARD, CARD, "NVIDIA GeForce RTX 4060"]
    assert slow(p2p(names, square(4, 25, d3=12.5))) == []
    (found,) = slow(p2p(names, square(4, 25, d3=5)))
    assert found.subject == "D3"


def test_two_devices_are_held_to_their_products_link():
    """Nothing to compare with but what PCIe 5.0 x16 carries."""
    cards = ["NVIDIA GeForce RTX 5090"] * 2
    (found,) = slow(p2p(cards, square(2, 3.4), access=False))
    assert (found.severity, found.subject) == (Severity.FAULT, "D0, D1")
    assert "3.4 GB/s at most, PCIe 5.0 x16 of NVIDIA GeForce RTX 5090 carries about" in found.detail
    assert slow(p2p(cards, square(2, 16), access=False)) == []  # staged: a third of the link
    (found,) = slow(p2p(cards, square(2, 16)))  # the same where copies are direct
    assert found.subject == "D0, D1"
    assert slow(p2p(["NVIDIA Unheard-of"] * 2, square(2, 3.4))) == []  # of which nothing is known


def test_a_device_beside_others_with_bridges_is_not_slow():
    """Of 48 GB/s no PCIe 4 link is capable: it tells nothing of a card without a bridge."""
    assert slow(p2p(["NVIDIA GeForce RTX 3090"] * 3, square(3, 20, d0_d1=48))) == []


def test_a_pair_below_a_tenth_of_the_link():
    (found,) = slow(p2p([CARD] * 4, square(4, 20, d0_d3=1.5)))
    assert (found.severity, found.code) == (Severity.DOUBT, "pair-slow")
    assert found.subject == "D0-D3, D3-D0"


MATRIX = """\
\tGPU0\tGPU1\tGPU2\tCPU Affinity\tNUMA Affinity
GPU0\t X \tPHB\tPHB\t0-31\t0
GPU1\tPHB\t X \tPHB\t0-31\t0
GPU2\tPHB\tPHB\t X \t0-31\t0
"""
HOST = """\
nvbandwidth Version: v0.8
Device 0: NVIDIA A40 (00000000:01:00)
Device 1: NVIDIA A40 (00000000:02:00)
Device 2: NVIDIA A40 (00000000:03:00)

Running {way}_memcpy_ce.
memcpy CE CPU(row) {arrow} GPU(column) bandwidth (GB/s)
           0         1         2
 0     {rates}

SUM {way}_memcpy_ce {total}
"""


def test_host_copies_are_held_to_siblings_and_link(tmp_path):
    both = (("host_to_device", "->"), ("device_to_host", "<-"))

    def found(rates, ways=both):
        text = "\n".join(
            HOST.format(
                way=way,
                arrow=arrow,
                rates="     ".join(f"{rate:.2f}" for rate in rates),
                total=f"{sum(rates):.2f}",
            )
            for way, arrow in ways
        )
        return slow(machine_of(tmp_path, MATRIX, text))

    assert found([24.5, 24.5, 24.5]) == []
    (one,) = found([24.5, 6.2, 24.5])
    assert (one.severity, one.subject) == (Severity.FAULT, "D1")
    for way in both:
        assert found([24.5, 6.2, 24.5], [way]) == [one]
    assert "as those of the host, reach 6.2 GB/s at most, those of the others" in one.detail
    (every,) = found([6, 6, 6])
    assert every.subject == "D0, D1, D2"
    assert "PCIe 4.0 x16 of NVIDIA A40 carries about" in every.detail
    assert every.severity is Severity.DOUBT
    (every,) = found([1.6, 1.6, 1.6])
    assert (every.severity, every.subject) == (Severity.FAULT, "D0, D1, D2")


def test_the_host_tells_which_of_two_is_slow(tmp_path):
    """Both ends of a pair are slow; copies of the host are of one device each."""
    matrix = (
        "\tGPU0\tGPU1\tCPU Affinity\tNUMA Affinity\n"
        "GPU0\t X \tPHB\t0-31\t0\nGPU1\tPHB\t X \t0-31\t0\n"
    )
    head = "nvbandwidth Version: v0.8\n" + "".join(
        f"Device {i}: NVIDIA A40 (00000000:0{i + 1}:00)\n" for i in range(2)
    )
    host = "".join(
        f"\nRunning {way}_memcpy_ce.\nmemcpy CE CPU(row) {arrow} GPU(column) bandwidth (GB/s)\n"
        "           0         1\n 0     6.20     24.50\n"
        for way, arrow in (("host_to_device", "->"), ("device_to_host", "<-"))
    )
    pair = (
        "\nRunning device_to_device_memcpy_write_ce.\n"
        "memcpy CE GPU(row) <- GPU(column) bandwidth (GB/s)\n"
        "           0         1\n 0       N/A     6.30\n 1     6.30       N/A\n"
    )
    (found,) = slow(machine_of(tmp_path, matrix, head + host + pair))
    assert (found.severity, found.subject) == (Severity.FAULT, "D0")
    assert "copies over the own PCIe link" in found.detail
