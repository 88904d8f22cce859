"""What raw records hold, without any model in between."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from toposeat.profile.records.record import OUTSIDE, RankRecord, read_record, record_paths
from toposeat.profile.records.segment import Kind


def records_of_ranks(folder: Path, ranks: int) -> list[RankRecord]:
    """The records of a run, of each rank exactly one."""
    found = [record for record in map(read_record, record_paths(folder)) if record is not None]
    assert sorted(record.rank for record in found) == list(range(ranks))
    return found


def matrices(records: Iterable[RankRecord], ranks: int) -> NDArray[np.int64]:
    """(point-to-point, collective, one-sided; bytes, messages; source; target) in the world."""
    seen = np.zeros((3, 2, ranks, ranks), dtype=np.int64)
    for record in records:
        for kind, peer, size, count in zip(
            record.kind, record.peer, record.bytes, record.messages, strict=True
        ):
            if peer == OUTSIDE:
                continue
            inbound = kind == Kind.ONE_SIDED_FROM
            row = Kind.ONE_SIDED if inbound else kind
            source, target = (peer, record.rank) if inbound else (record.rank, peer)
            seen[row, :, source, target] += (size, count)
    return seen
