"""What the cases of `torch_program.py` move on four ranks by formula, beside what profiles say."""

from collections import Counter
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

RANKS, HIDDEN, BATCH, VALUE = 4, 32, 8, 2
WEIGHT = HIDDEN * HIDDEN * VALUE  # bytes of one layer
WORLD = tuple(range(RANKS))
TENSOR, DATA = ((0, 1), (2, 3)), ((0, 2), (1, 3))  # groups of a mesh of 2 x 2
FORM = 64  # bytes by which stages of a pipeline may agree on what they send, once

# (operation, members): bytes that each member gives; of a reduce-scatter, gets.
Given = Mapping[tuple[str, tuple[int, ...]], int]


class Moved(NamedTuple):
    """What a case moves in each step."""

    given: Given = MappingProxyType({})
    pairs: Callable[[int, int], int] | None = None  # bytes from rank to rank; None: rings alone
    pattern: str = ""  # the same step by name
    at_start: frozenset[str] = frozenset()  # operations that prepare the job; not compared
    slack: int = 0  # bytes of a pair that may come on top


def _over(groups, operation, size):
    return {(operation, members): size for members in groups}


_SIZES = f"hidden={HIDDEN},seq={BATCH},microbatches=1"
_ACTIVATIONS = BATCH * HIDDEN * VALUE
_SHARD = WEIGHT // RANKS  # of one layer by FSDP
_MESH_SHARD = WEIGHT // 2 // 2  # of one layer by tensor parallelism, then FSDP

MOVED = {
    "ddp": Moved(
        _over([WORLD], "allreduce", 2 * WEIGHT),
        pattern=f"llm:dp=4,params={2 * HIDDEN**2},{_SIZES}",
        at_start=frozenset({"bcast", "allgather"}),
    ),
    # Of each of two layers: gathered for both passes, scattered after the second.
    "fsdp": Moved(
        {
            **_over([WORLD], "allgather", 2 * 2 * _SHARD),
            **_over([WORLD], "reduce_scatter_block", 2 * _SHARD),
        },
        pattern=f"llm:dp=4,fsdp,params={2 * HIDDEN**2},{_SIZES}",
    ),
    # Two sums forward, two backward.
    "tp": Moved(
        _over([WORLD], "allreduce", 4 * _ACTIVATIONS),
        pattern=f"llm:tp=4,layers=1,{_SIZES}",
        at_start=frozenset({"bcast"}),
    ),
    "tp_fsdp": Moved(
        {
            **_over(TENSOR, "allreduce", 4 * _ACTIVATIONS),
            **_over(DATA, "allgather", 4 * 2 * _MESH_SHARD),
            **_over(DATA, "reduce_scatter_block", 4 * _MESH_SHARD),
        },
        pattern=f"llm:tp=2,dp=2,fsdp,layers=1,params={4 * HIDDEN**2},{_SIZES}",
        at_start=frozenset({"bcast"}),
    ),
    # Activations to the next stage, their gradients back.
    "pp": Moved(
        pairs=lambda rank, peer: _ACTIVATIONS if abs(rank - peer) == 1 else 0,
        pattern=f"llm:pp=4,layers=4,{_SIZES}",
        slack=FORM,
    ),
    "messages": Moved(
        pairs=lambda rank, peer: (
            HIDDEN * VALUE * (peer == (rank + 1) % RANKS)
            + 5 * VALUE * (rank == RANKS - 1 and peer == 0)
        )
    ),
    "moe": Moved(
        pairs=lambda rank, peer: (rank + peer + 1) * HIDDEN * VALUE + 2 * VALUE + 5 * VALUE
    ),
    # To the experts and back, in the forward pass.
    "moe_even": Moved(
        pairs=lambda _rank, _peer: 2 * BATCH * HIDDEN * VALUE,
        pattern=f"llm:dp=4,ep=4,experts=4,topk=4,layers=1,mode=prefill,{_SIZES}",
    ),
    "grouped": Moved(
        {
            **_over([WORLD], "allreduce", 100 * VALUE),
            **_over([(1, 3)], "allreduce", 7 * VALUE),
            **_over([(0, 1), (2, 3), (1, 2)], "allreduce", 3 * VALUE),
            **_over([WORLD], "allgather", 5 * VALUE),
        }
    ),
}


def given(traffic):
    """By operation, members of the group and rank: bytes that it gave altogether."""
    members = {each.id: each.ranks for each in traffic.communicators}
    sums = Counter()
    for event in traffic.collectives:
        sums[event.operation, members[event.communicator], event.rank] += event.bytes * event.calls
    return +sums  # without barriers


def pairs(case, steps):
    """Bytes from rank to rank: what is sent directly, and rings in the order of the ranks."""
    moved = MOVED[case]
    found = np.zeros((RANKS, RANKS), np.int64)
    for (operation, members), size in moved.given.items():
        n = len(members)
        edge = 2 * (n - 1) * size // n if operation == "allreduce" else (n - 1) * size
        for place, rank in enumerate(members):
            found[rank, members[(place + 1) % n]] += edge * steps
    for rank in range(RANKS if moved.pairs else 0):
        for peer in set(range(RANKS)) - {rank}:
            found[rank, peer] += steps * moved.pairs(rank, peer)
    return found


def differences(case, steps, traffic):
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


def _shown(key):
    return f"{key[0]} of {key[2]} in {list(key[1])}"
