"""p2pBandwidthLatencyTest: units, directions, peer access on and off, damage."""

import numpy as np
import pytest

from tests.topology.case_files import texts_of
from tests.topology.readers.recorded import facts_of, facts_of_text, peers
from toposeat.errors import InputError


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


def test_no_cut_passes_silently():
    """Cut after every character: refused, or whole matrices, or the doubt is reported."""
    new = texts_of("p2p_bandwidth_latency", "a new version")["p2p.txt"]
    start = new.index("P2P=Enabled Latency")
    whole = {
        (n.what, n.peer, n.both_ways, n.operation): n.values for n in facts_of_text(new).numbers
    }
    accepted = 0
    for cut in range(start, len(new)):
        try:
            facts = facts_of_text(new[:cut])
        except InputError:
            continue
        accepted += 1
        for n in facts.numbers:
            stated = whole.get((n.what, n.peer, n.both_ways, n.operation))
            if stated is not None and not np.allclose(n.values, stated, equal_nan=True):
                assert any("may be cut" in line for line in facts.report)
    assert 0 < accepted < len(new) - start
