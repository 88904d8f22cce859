"""What raw records hold, without any model in between."""

import numpy as np

from toposeat.profile.records.record import OUTSIDE, read_record, record_paths
from toposeat.profile.records.segment import Kind


def records_of_ranks(folder, ranks):
    """The records of a run, of each rank exactly one."""
    found = [record for record in map(read_record, record_paths(folder)) if record is not None]
    assert sorted(record.rank for record in found) == list(range(ranks))
    return found


def matrices(records, ranks):
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
