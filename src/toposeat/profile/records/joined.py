"""Two traffics of one job as one: what was recorded of its MPI and of its PyTorch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from toposeat.model.traffic import (
    GroupLoad,
    Int64Array,
    MemorySpace,
    PairTable,
    TableKey,
    Traffic,
    TrafficKind,
)


def joined(first: Traffic, second: Traffic) -> Traffic:
    """The sum of two traffics of the same ranks; all else is the first's.

    Groups stay sets only if no pairs of ranks lie in the table that shows them (`Traffic.groups`);
    phases stay only if they are still all there is.
    """
    if first.ranks != second.ranks:
        raise ValueError(f"traffics of {first.ranks} and of {second.ranks} ranks")
    shift = max((each.id for each in first.communicators), default=-1) + 1
    models = (first.collective_model, second.collective_model)
    return replace(
        first,
        tables=_sum_of_tables(first.tables, second.tables),
        histograms=_sum_of_histograms(first.histograms, second.histograms),
        communicators=(
            *first.communicators,
            *(replace(each, id=each.id + shift) for each in second.communicators),
        ),
        collectives=(
            *first.collectives,
            *(replace(each, communicator=each.communicator + shift) for each in second.collectives),
        ),
        groups=_sum_of_groups(first, second, shift),
        phases=() if second.tables else first.phases,
        collective_model="; ".join(dict.fromkeys(filter(None, models))),
        rank_info=first.rank_info or second.rank_info,
        report=(*first.report, *second.report),
    )


def _sum_of_groups(first: Traffic, second: Traffic, shift: int) -> tuple[GroupLoad, ...]:
    shown = (TrafficKind.COLLECTIVE, MemorySpace.DEVICE)
    for one, other in ((first, second), (second, first)):
        if one.groups and not other.groups and shown in other.tables:
            return ()
    return (
        *first.groups,
        *(replace(each, communicator=each.communicator + shift) for each in second.groups),
    )


def _sum_of_tables(
    first: Mapping[TableKey, PairTable], second: Mapping[TableKey, PairTable]
) -> dict[TableKey, PairTable]:
    return {
        key: PairTable.total(each[key] for each in (first, second) if key in each)
        for key in {**first, **second}
    }


def _sum_of_histograms(
    first: Mapping[TableKey, Int64Array], second: Mapping[TableKey, Int64Array]
) -> dict[TableKey, Int64Array]:
    return {
        key: np.sum([each[key] for each in (first, second) if key in each], axis=0)
        for key in {**first, **second}
    }
