"""TransferBench's p2p preset: matrices as its source prints them, text and CSV."""

from __future__ import annotations

import numpy as np
import pytest

from tests.topology.readers.amd_samples import transferbench
from tests.topology.readers.recorded import facts_of_text, row_of


def value(i: int, j: int) -> float:
    """Differs in every cell: over two CPUs and three GPUs."""
    return 10.0 + 10 * i + j


@pytest.mark.parametrize("csv", [False, True])
@pytest.mark.parametrize("remote_read", [False, True])
def test_every_cell_is_where_it_was(csv: bool, remote_read: bool) -> None:
    facts = facts_of_text(transferbench(2, 3, value, csv=csv, read=remote_read))
    assert [d.index for d in facts.devices] == [0, 1, 2]
    uni, both = facts.numbers
    assert (uni.operation, uni.engine, uni.both_ways) == (
        "read" if remote_read else "write", "sm", False
    )  # fmt: skip
    wanted = np.array([[value(2 + i, 2 + j) for j in range(3)] for i in range(3)]) * 1e9
    np.testing.assert_allclose(uni.values, wanted)
    assert both.both_ways
    assert both.values[0, 1] == pytest.approx((value(2, 3) + value(3, 2)) * 1e9)
    assert np.isnan(np.diagonal(both.values)).all()
    host = {
        (row_of(facts)[h.device], h.numa_node): (h.to_device, h.from_device)
        for h in facts.host_copies
    }
    assert host[1, 0] == (pytest.approx(value(0, 3) * 1e9), pytest.approx(value(3, 0) * 1e9))
    assert len(host) == 6


def test_cells_that_were_skipped_are_not_known() -> None:
    def cell(i: int, j: int) -> object:
        return "N/A" if i == 3 and j == 2 else value(i, j)

    text = transferbench(2, 3, value).replace(f"{value(3, 2):10.2f}", f"{'N/A':>10}", 1)
    uni = facts_of_text(text).numbers[0]
    assert np.isnan(uni.values[1, 0])
    assert not np.isnan(uni.values[0, 1])
