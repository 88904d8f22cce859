"""What the cases of `torch_program.py` move on four ranks by formula, beside what profiles say."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from toposeat.model.traffic import Int64Array, Traffic, TrafficKind

RANKS, HIDDEN, BATCH, F32 = 4, 32, 8, 4
WEIGHT = HIDDEN * HIDDEN * F32  # bytes of one layer
WORLD = tuple(range(RANKS))
TENSOR, DATA = ((0, 1), (2, 3)), ((0, 2), (1, 3))  # groups of a mesh of 2 x 2
FORM = 64  # bytes by which stages of a pipeline may agree on what they send, once

# (operation, members): bytes that each member gives; of a reduce-scatter, gets.
Given = Mapping[tuple[str, tuple[int, ...]], int]


class Moved(NamedTuple):
    """What a case moves in each step, and once."""

    given: Given = MappingProxyType({})
    pairs: Callable[[int, int], int] | None = None  # bytes from rank to rank; None: rings alone
    once: Callable[[int, int], int] | None = None
    at_start: frozenset[str] = frozenset()  # operations that also prepare the job; not compared
    slack: int = 0  # bytes of a pair that may come on top


def _over(groups: Iterable[tuple[int, ...]], operation: str, size: int) -> Given:
    return {(operation, members): size for members in groups}


def _next(size: int) -> Callable[[int, int], int]:
    return lambda rank, peer: size if abs(rank - peer) == 1 else 0


_ACTIVATIONS = BATCH * HIDDEN * F32
_SHARD = WEIGHT // RANKS  # of one layer by FSDP
_MESH_SHARD = WEIGHT // 2 // 2  # of one layer by tensor parallelism, then FSDP

MOVED: dict[str, Moved] = {
    "ddp": Moved(
        _over([WORLD], "allreduce", 2 * WEIGHT), at_start=frozenset({"bcast", "allgather"})
    ),
    # In bfloat16, of each of two layers: gathered for both passes, scattered after the second.
    "fsdp": Moved(
        {
            **_over([WORLD], "allgather", 2 * 2 * _SHARD // 2),
            **_over([WORLD], "reduce_scatter_block", 2 * _SHARD // 2),
        }
    ),
    # In bfloat16: two sums forward, two backward.
    "tp": Moved(_over([WORLD], "allreduce", 4 * _ACTIVATIONS // 2), at_start=frozenset({"bcast"})),
    # A row-parallel layer sums forward; backward the first layer's input needs no gradient.
    "tp_fsdp": Moved(
        {
            **_over(TENSOR, "allreduce", (2 + 1) * _ACTIVATIONS),
            **_over(DATA, "allgather", 4 * 2 * _MESH_SHARD),
            **_over(DATA, "reduce_scatter_block", 4 * _MESH_SHARD),
        },
        at_start=frozenset({"bcast", "scatter"}),
    ),
    # Activations to the next stage, their gradients back.
    "pp": Moved(pairs=_next(_ACTIVATIONS), slack=FORM),
    "messages": Moved(
        pairs=lambda rank, peer: (
            HIDDEN * F32 * (peer == (rank + 1) % RANKS)
            + 5 * F32 * (rank == RANKS - 1 and peer == 0)
        )
    ),
    "moe": Moved(pairs=lambda rank, peer: (rank + peer + 1) * HIDDEN * F32 + 2 * F32),
    "moe_even": Moved(
        pairs=lambda _rank, _peer: 2 * BATCH * HIDDEN * F32, once=lambda _rank, _peer: 5 * F32
    ),
    "grouped": Moved(
        {
            **_over([WORLD], "allreduce", 100 * F32),
            **_over([(1, 3)], "allreduce", 7 * 2),
            **_over([WORLD], "allgather", 5 * F32),
        }
    ),
}


def given(traffic: Traffic) -> Counter[tuple[str, tuple[int, ...], int]]:
    """By operation, members of the group and rank: bytes that it gave altogether."""
    members = {each.id: each.ranks for each in traffic.communicators}
    sums: Counter[tuple[str, tuple[int, ...], int]] = Counter()
    for event in traffic.collectives:
        sums[event.operation, members[event.communicator], event.rank] += event.bytes * event.calls
    return +sums  # without barriers


def pairs(case: str, steps: int) -> Int64Array:
    """Bytes from rank to rank: what is sent directly, and rings in the order of the ranks."""
    moved = MOVED[case]
    found = np.zeros((RANKS, RANKS), np.int64)
    for (operation, members), size in moved.given.items():
        n = len(members)
        edge = 2 * (n - 1) * size // n if operation == "allreduce" else (n - 1) * size
        for place, rank in enumerate(members):
            found[rank, members[(place + 1) % n]] += edge * steps
    for times, between in ((steps, moved.pairs), (1, moved.once)):
        for rank in range(RANKS if between else 0):
            for peer in set(range(RANKS)) - {rank}:
                found[rank, peer] += times * between(rank, peer)  # type: ignore[misc]
    return found


def differences(case: str, steps: int, traffic: Traffic) -> list[str]:
    """Where a profile of a case says other bytes than the formulas; one line each."""
    moved, wrong = MOVED[case], []
    expected = {
        (operation, members, rank): steps * size
        for (operation, members), size in moved.given.items()
        for rank in members
    }
    exchanges = {"alltoall", "alltoallv"} if moved.pairs else set()
    found = {
        key: size
        for key, size in given(traffic).items()
        if key[0] not in moved.at_start | exchanges
    }
    for key in sorted({*expected, *found}):
        if expected.get(key, 0) != found.get(key, 0):
            wrong.append(f"{_shown(key)}: {found.get(key, 0)}, by formula {expected.get(key, 0)}")
    if moved.at_start & {key[0] for key in given(traffic)}:
        return wrong
    table = traffic.table().dense_bytes(RANKS)
    np.fill_diagonal(table, 0)
    by_formula = pairs(case, steps)
    extra = table - by_formula
    slack = np.where(by_formula > 0, moved.slack, 0)
    for rank, peer in np.argwhere((extra < 0) | (extra > slack)).tolist():
        wrong.append(f"{rank} -> {peer}: {table[rank, peer]}, by formula {by_formula[rank, peer]}")
    return wrong


def dump_differences(live: Traffic, dump: Traffic, *, gloo: bool) -> list[str]:
    """Where a dump of the flight recorder says other bytes than the profile of the same run.

    A dump tells no roots, and no sizes per member. That of gloo shows a reduce-scatter as an
    all-reduce, and has no messages.
    """
    one, other = given(live), given(dump)
    operations = {key[0] for key in one}
    untold = {"bcast", "reduce", "gather", "scatter", "alltoallv"}
    if "alltoallv" in operations:
        untold |= {"alltoall"}
    if gloo and "reduce_scatter_block" in operations:
        untold |= {"reduce_scatter_block", "allreduce"}
    wrong = [
        f"{_shown(key)}: {other[key]} in the dump, {one[key]} in the profile"
        for key in sorted({*one, *other})
        # of all-to-alls a dump has one member's; the table has all
        if key[0] not in {*untold, "alltoall"} and one[key] != other[key]
    ]
    if operations & untold or (gloo and live.table(kind=TrafficKind.POINT_TO_POINT).bytes.any()):
        return wrong
    tables = [each.table().dense_bytes(RANKS) for each in (live, dump)]
    if not np.array_equal(*tables):
        wrong.append(
            f"pairs: {tables[1].tolist()} in the dump, {tables[0].tolist()} in the profile"
        )
    return wrong


def _shown(key: tuple[str, Any, int]) -> str:
    return f"{key[0]} of {key[2]} in {list(key[1])}"
