"""p2pBandwidthLatencyTest: units, directions, peer access on and off, damage."""

from pathlib import Path

import numpy as np
import pytest

from tests.topology.readers.recorded import facts_of, facts_of_text, peers
from toposeat.errors import InputError
from toposeat.topology import parse_topology_text

NEW = """\
[P2P (Peer-to-Peer) GPU Bandwidth Latency Test]
Device: 0, NVIDIA A100 80GB PCIe, pciBusID: 0, pciDeviceID: 0, pciDomainID:1
Device: 1, NVIDIA A100 80GB PCIe, pciBusID: 3a, pciDeviceID: 1f, pciDomainID:2
Device: 2, NVIDIA A100 80GB PCIe, pciBusID: c1, pciDeviceID: 0, pciDomainID:10
Device=0 CAN Access Peer Device=1
Device=0 CANNOT Access Peer Device=2

P2P Connectivity Matrix
     D\\D     0     1     2
     0\t     1     1     0
     1\t     1     1     0
     2\t     0     0     1
Unidirectional P2P=Disabled Bandwidth Matrix (GB/s)
   D\\D     0      1      2
     0 1508.20  21.51  21.63
     1  21.40 1509.66  21.68
     2  21.48  21.55 1509.66
Unidirectional P2P=Enabled Bandwidth (P2P Writes) Matrix (GB/s)
   D\\D     0      1      2
     0 1502.40 275.07  22.62
     1 265.51 1521.42  22.69
     2  22.46  22.72 1508.20
Unidirectional P2P=Enabled Bandwidth (P2P Reads) Matrix (GB/s)
   D\\D     0      1      2
     0 1502.40 255.07  22.62
     1 245.51 1521.42  22.69
     2  22.46  22.72 1508.20
Bidirectional P2P=Enabled Bandwidth Matrix (GB/s)
   D\\D     0      1      2
     0 1531.11 516.19  29.58
     1 515.51 1527.37  29.79
     2  27.36  27.80 1528.86
P2P=Enabled Latency (P2P Writes) Matrix (us)
   GPU     0      1      2
     0   2.62   2.25  19.85
     1   2.22   2.71  14.12
     2  18.87  16.03   2.47

   CPU     0      1      2
     0   2.34   1.92   6.34
     1   1.96   2.32   6.34
     2   6.79   7.20   1.99

NOTE: The CUDA Samples are not meant for performance measurements.
"""


def numbers(facts, what, *, peer, both_ways=False, operation=""):
    (found,) = (
        n for n in facts.numbers
        if (n.what, n.peer, n.both_ways, n.operation) == (what, peer, both_ways, operation)
    )  # fmt: skip
    return found


def test_power9_copies_from_column_to_row(shared_dir):
    """An old version: the device of the row reads, so 68.46 (row 0, column 1) is from 1 to 0."""
    facts = facts_of(shared_dir / "machines/p2pBandwidthLatencyTest/4gpu-power9-ac922.txt")
    one_way = numbers(facts, "bandwidth", peer=True)
    assert one_way.values[1, 0] == pytest.approx(68.46e9)
    assert one_way.values[0, 1] == pytest.approx(68.51e9)
    assert one_way.values[3, 1] == pytest.approx(28.72e9)
    both = numbers(facts, "bandwidth", peer=True, both_ways=True)
    assert both.values[0, 1] == pytest.approx(137.50e9)
    assert np.isnan(np.diag(one_way.values)).all()  # how old versions count them is not known
    assert peers(facts) == {(i, j): True for i in range(4) for j in range(4) if i != j}
    assert {d.index for d in facts.devices} == {None}  # CUDA's numbers are not nvidia-smi's


def test_h100_staged_copies_are_peer_off(shared_dir):
    facts = facts_of(shared_dir / "machines/p2pBandwidthLatencyTest/8gpu-h100-p2poff.txt")
    (off,) = facts.numbers
    assert (off.peer, off.both_ways, off.values.shape) == (False, False, (8, 8))
    assert off.values[1, 0] == pytest.approx(36.36e9)
    assert off.values[0, 0] == pytest.approx(2474.76e9 / 2)  # counted as read and written
    assert peers(facts) == {}
    assert any("version is not known" in line for line in facts.report)


def test_new_versions_write_from_row_to_column():
    facts = facts_of_text(NEW)
    writes = numbers(facts, "bandwidth", peer=True, operation="write")
    assert writes.values[0, 1] == pytest.approx(275.07e9)
    assert writes.values[1, 0] == pytest.approx(265.51e9)
    reads = numbers(facts, "bandwidth", peer=True, operation="read")
    assert reads.values[1, 0] == pytest.approx(255.07e9)
    assert reads.values[0, 1] == pytest.approx(245.51e9)
    off = numbers(facts, "bandwidth", peer=False)
    assert off.values[2, 1] == pytest.approx(21.55e9)
    latency = numbers(facts, "latency", peer=True, operation="write")
    assert latency.values[0, 1] == pytest.approx(2.25e-6)


def test_pairs_without_peer_access_are_no_peer_numbers():
    """With peer access enabled, the sample goes through the host where it cannot be had."""
    facts = facts_of_text(NEW)
    writes = numbers(facts, "bandwidth", peer=True, operation="write")
    assert np.isnan(writes.values[0, 2])
    assert np.isnan(writes.values[2, 1])
    staged = numbers(facts, "latency", peer=False)  # there is no latency with peer access off
    assert staged.values[0, 2] == pytest.approx(19.85e-6)
    assert np.isnan(staged.values[0, 1])
    assert numbers(facts, "bandwidth", peer=False).values[0, 2] == pytest.approx(21.63e9)
    assert sum(peers(facts).values()) == 2


def test_names_and_bus_ids_are_hexadecimal():
    devices = facts_of_text(NEW).devices
    assert [d.pci_bus_id for d in devices] == ["0001:00:00.0", "0002:3a:1f.0", "0010:c1:00.0"]
    assert {d.name for d in devices} == {"NVIDIA A100 80GB PCIe"}
    assert {d.index for d in devices} == {None}  # CUDA's order need not be nvidia-smi's


def test_what_is_not_used_is_said():
    report = "\n".join(facts_of_text(NEW).report)
    assert "CPU latencies" in report
    assert "no peer access between 4 ordered pairs" in report


def test_no_cut_passes_silently():
    """Cut after every character: refused, or whole matrices, or the doubt is reported."""
    start = NEW.index("P2P=Enabled Latency")
    whole = {
        (n.what, n.peer, n.both_ways, n.operation): n.values for n in facts_of_text(NEW).numbers
    }
    accepted = 0
    for cut in range(start, len(NEW)):
        try:
            facts = facts_of_text(NEW[:cut])
        except InputError:
            continue
        accepted += 1
        for n in facts.numbers:
            stated = whole.get((n.what, n.peer, n.both_ways, n.operation))
            if stated is not None and not np.allclose(n.values, stated, equal_nan=True):
                assert any("may be cut" in line for line in facts.report)
    assert 0 < accepted < len(NEW) - start


def test_direct_copies_slower_than_staged_ones_are_remarked():
    """NVIDIA/nccl issue 814: 9.9 GB/s directly, 22 through the host."""
    assert "through host memory" not in " ".join(machine_of(NEW).report)
    slow = NEW.replace("275.07", "  9.90").replace("265.51", "  9.90")
    (line,) = [each for each in machine_of(slow).report if "through host memory" in each]
    assert "2 ordered pairs copy faster through host memory (21.5 GB/s) than directly (9.9" in line


def machine_of(text):
    return parse_topology_text(text, Path("p2p.txt"))


def test_a_heading_without_its_matrix_is_refused():
    """Found by fuzzing: the first of no matrices was looked at."""
    with pytest.raises(InputError, match="no matrix below its heading"):
        facts_of_text(NEW.partition("     D\\D")[0])
