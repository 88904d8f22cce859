"""Which algorithm an MPI takes for a collective: Open MPI's rules, or one from the textbook.

Open MPI 4.1 and 5.0 on one node follow the fixed rules of `coll/tuned`. Source of the limits: Open
MPI, ompi/mca/coll/tuned/coll_tuned_decision_fixed.c; of the algorithms: ompi/mca/coll/base.
Operations are taken as commutative, segments as off (the fixed rules never cut messages). What
`coll/tuned` leaves alone `coll/basic` does, linearly.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence

from toposeat.model.pair_table import Messages
from toposeat.model.record import Record
from toposeat.profile.algorithms import messages, reduction
from toposeat.profile.algorithms.messages import Algorithm, Call


class _Choice(Record, frozen=True):
    """Names in order of size; `limits[i]` is the first size that is too large for `names[i]`."""

    limits: tuple[int, ...]
    names: tuple[str, ...]

    def at(self, number: int) -> str:
        return self.names[bisect_right(self.limits, number)]


class Rules(Record, frozen=True):
    """For one operation: by members, then by bytes."""

    members: tuple[int, ...]
    choices: tuple[_Choice, ...]

    def choose(self, members: int, size: int) -> str:
        """The name of the algorithm."""
        return self.choices[bisect_right(self.members, members)].at(size)


def parse_rules(text: str) -> dict[str, Rules]:
    """Rules from text: a line with the operation's name, then one line per range of members.

    Each of those lines reads `<members: name <bytes name <bytes name`: names in order of size,
    between them the size from which on the next one is taken. `<members` is missing in the last.
    """
    found: dict[str, list[str]] = {}
    lines: list[str] = []
    for line in text.strip().splitlines():
        if not line.startswith(" "):
            lines = found.setdefault(line.strip(), [])
        else:
            lines.append(line.strip())
    return {operation: _rules(each) for operation, each in found.items()}


def _rules(lines: Sequence[str]) -> Rules:
    limits, choices = [], []
    for line in lines:
        head, _, body = line.rpartition(":")
        if head:
            limits.append(int(head.removeprefix("<")))
        words = body.split()
        choices.append(_Choice(tuple(int(w[1:]) for w in words[1::2]), tuple(words[0::2])))
    return Rules(tuple(limits), tuple(choices))


RULES = parse_rules("""
allreduce
    <4: ring <8 recursive_doubling <4096 ring <8192 recursive_doubling <16384 ring <262144 rabenseifner
    <8: ring <16 recursive_doubling <8192 rabenseifner
    <16: recursive_doubling <8192 rabenseifner
    <32: ring <64 recursive_doubling <4096 rabenseifner
    <64: ring <128 rabenseifner
    <128: recursive_doubling <262144 rabenseifner
    <256: nonoverlapping <131072 recursive_doubling <262144 rabenseifner
    <512: nonoverlapping <4096 rabenseifner
    <2048: nonoverlapping <2048 recursive_doubling <16384 rabenseifner
    <4096: nonoverlapping <2048 ring <4096 recursive_doubling <16384 rabenseifner
    nonoverlapping <2048 ring <16384 recursive_doubling <32768 rabenseifner
alltoall
    <16: direct
    <32: direct <4 bruck <512 direct
    <64: bruck <512 direct
    <512: bruck <1024 direct
    <2048: bruck <512 direct
    <4096: bruck <1024 direct
    bruck <2048 direct
barrier
    <4: recursive_doubling
    <8: linear
    <64: recursive_doubling
    <256: dissemination
    <512: tree
    <1024: dissemination
    <4096: tree
    dissemination
bcast
    <4: chain <32 binary <256 chain <512 knomial <1024 linear <32768 binary <131072 chain <262144 linear <524288 binomial <1048576 binary
    <8: binary <64 binomial <128 binary <2048 binomial <8192 linear <1048576 chain
    <16: knomial <8 binary <64 knomial <4096 binary <16384 binomial <32768 linear
    <32: knomial <4096 binomial <1048576 scatter_allgather
    <64: binomial <2048 knomial
    <128: knomial
    <256: binomial <2 binary <16384 linear <32768 binary <65536 knomial
    <1024: knomial <16384 split_binary <32768 knomial
    <2048: knomial <524288 scatter_allgather
    <4096: knomial <262144 scatter_allgather
    knomial <8192 binary <16384 knomial <262144 scatter_allgather
reduce
    <4: rabenseifner <8 binary <16 chain <32 linear <262144 chain
    <8: binary <4096 chain <65536 binomial <262144 linear <524288 binomial <1048576 linear
    <16: binary <8192 binomial
    <32: binary <4096 binomial
    <256: binomial
    <512: binomial <8192 in_order_binary <16384 binomial
    <2048: binomial
    <4096: binomial <512 in_order_binary <1024 binomial <8192 in_order_binary <16384 binomial
    binomial <16 in_order_binary <32 binomial <1024 in_order_binary <2048 binomial <8192 in_order_binary <16384 binomial
reduce_scatter
    <4: ring <65536 butterfly <131072 ring
    <8: nonoverlapping <8 halving <262144 ring
    <32: halving <262144 ring
    <64: nonoverlapping <64 halving <2048 butterfly <524288 ring
    <128: nonoverlapping <256 halving <512 butterfly <2048 halving <4096 butterfly
    <256: nonoverlapping <256 halving <512 butterfly
    <512: nonoverlapping <256 halving <1024 butterfly
    <1024: nonoverlapping <512 halving <2048 butterfly <8192 halving <16384 butterfly
    <2048: nonoverlapping <512 halving <4096 butterfly <16384 halving <32768 butterfly
    <4096: nonoverlapping <512 halving <4096 butterfly
    nonoverlapping <1024 halving <8192 butterfly
reduce_scatter_block
    <4: recursive_doubling <4 butterfly <8 halving <16 butterfly <128 halving <256 butterfly <4096 halving <8192 butterfly <131072 nonoverlapping
    <8: halving <8 recursive_doubling <32 butterfly <256 halving <8192 butterfly <16384 halving <1048576 nonoverlapping
    <16: nonoverlapping <4 halving <32 butterfly <128 halving <524288 nonoverlapping <4194304 butterfly
    <32: nonoverlapping <32 halving <524288 nonoverlapping <2097152 halving <4194304 butterfly
    halving <4 nonoverlapping <16 butterfly <65536 nonoverlapping <262144 butterfly
allgather
    <3: ring
    <32: recursive_doubling
    <64: recursive_doubling <1024 neighbor <65536 ring
    <128: recursive_doubling <512 neighbor <65536 ring
    <256: recursive_doubling <512 neighbor <131072 ring <524288 neighbor <1048576 ring
    <512: recursive_doubling <32 bruck <128 recursive_doubling <1024 neighbor <131072 ring <524288 neighbor <1048576 ring
    <1024: recursive_doubling <64 bruck <256 recursive_doubling <2048 neighbor
    <2048: recursive_doubling <4 bruck <8 recursive_doubling <16 bruck <32 recursive_doubling <256 bruck <512 recursive_doubling <4096 neighbor
    <4096: bruck <32 recursive_doubling <128 bruck <512 recursive_doubling <4096 neighbor
    recursive_doubling <2 bruck <8 recursive_doubling <16 bruck <512 recursive_doubling <4096 neighbor
allgatherv
    <3: ring
    <8: gather_bcast <256 neighbor <4096 ring <8192 neighbor <16384 bruck <262144 neighbor
    <16: gather_bcast <1024 bruck
    <32: gather_bcast <128 bruck <262144 ring
    <64: gather_bcast <256 bruck <8192 ring
    <128: gather_bcast <256 bruck <4096 ring
    <256: bruck <1024 neighbor <65536 ring
    <512: bruck <1024 ring
    <1024: bruck <512 gather_bcast <1024 bruck <4096 neighbor <1048576 ring
    bruck <4096 neighbor
gather
    <4: linear_sync <2 linear <4 binomial <32768 linear <65536 binomial <131072 linear_sync
    <8: binomial <1024 linear <8192 binomial <32768 linear <262144 linear_sync
    <256: binomial
    <512: binomial <2048 linear <8192 binomial
    binomial
scatter
    <4: linear
    <8: binomial <2048 linear <4096 binomial <8192 linear
    <16: binomial <16384 linear
    <32: binomial <16384 linear
    <64: binomial <512 linear <8192 binomial <16384 linear
    binomial <512 linear
gatherv
    linear
scan
    chain
exscan
    chain
""")  # noqa: E501 - a table


def _reduce_then(operation: str) -> Algorithm:
    """To the first member and on from there, both by the rules of their own."""

    def algorithm(call: Call, out: Messages) -> None:
        whole = call.size * (call.members if operation == "scatter" else 1)
        _run("reduce", Call(members=call.members, size=whole, element=call.element), out)
        _run(operation, Call(members=call.members, size=call.size, element=call.element), out)

    return algorithm


def _reduce_scatterv(call: Call, out: Messages) -> None:
    _run("reduce", Call(members=call.members, size=call.size, element=call.element), out)
    shares = call.shares()[1:]
    some = shares > 0
    out.add(0, call.positions[1:][some], shares[some])


def _gather_bcast(call: Call, out: Messages) -> None:
    """Allgatherv: gatherv to the first member, then bcast of everything as one element."""
    blocks = call.own_blocks()
    total = int(blocks.sum())
    messages.gatherv_linear(Call(members=call.members, blocks=blocks), out)
    _run("bcast", Call(members=call.members, size=total, element=max(total, 1)), out)


ALGORITHMS: dict[str, dict[str, Algorithm]] = {
    "allreduce": {
        "nonoverlapping": _reduce_then("bcast"),
        "recursive_doubling": reduction.allreduce_recursive_doubling,
        "ring": reduction.allreduce_ring,
        "rabenseifner": reduction.allreduce_rabenseifner,
    },
    "alltoall": {"direct": messages.alltoall_direct, "bruck": messages.alltoall_bruck},
    "barrier": {
        "linear": messages.barrier_linear,
        "recursive_doubling": messages.barrier_recursive_doubling,
        "dissemination": messages.barrier_dissemination,
        "tree": messages.barrier_tree,
    },
    "bcast": {
        "linear": messages.down(messages.linear),
        "chain": messages.down(messages.chain),
        "binary": messages.down(messages.binary),
        "binomial": messages.down(messages.binomial_by_distance),
        "knomial": messages.down_knomial(4),
        "split_binary": messages.split_binary,
        "scatter_allgather": messages.scatter_allgather,
        "scatter_allgather_ring": messages.scatter_allgather_ring,
    },
    "reduce": {
        "linear": messages.up(messages.linear),
        "chain": messages.up(messages.chain),
        "binary": messages.up(messages.binary),
        "binomial": messages.up(messages.binomial),
        "in_order_binary": messages.reduce_in_order,
        "rabenseifner": messages.reduce_rabenseifner,
    },
    "reduce_scatter": {
        "nonoverlapping": _reduce_scatterv,
        "halving": reduction.reduce_scatter_halving(Call.shares),
        "ring": reduction.reduce_scatter_ring,
        "butterfly": reduction.reduce_scatter_butterfly,
    },
    "reduce_scatter_block": {
        "nonoverlapping": _reduce_then("scatter"),
        "recursive_doubling": reduction.block_doubling,
        "halving": reduction.reduce_scatter_halving(Call.own_blocks),
        "butterfly": reduction.block_butterfly,
    },
    "allgather": {
        "bruck": messages.allgather_bruck,
        "recursive_doubling": messages.allgather_recursive_doubling,
        "ring": messages.allgather_ring,
        "neighbor": messages.allgather_neighbor,
    },
    "allgatherv": {
        "gather_bcast": _gather_bcast,
        "bruck": messages.allgather_bruck,
        "ring": messages.allgather_ring,
        "neighbor": messages.allgather_neighbor,
    },
    "gather": {
        "linear": messages.gather_linear,
        "binomial": messages.gather_binomial,
        "linear_sync": messages.gather_linear_sync,
    },
    "scatter": {"linear": messages.scatter_linear, "binomial": messages.scatter_binomial},
    "gatherv": {"linear": messages.gatherv_linear},
    "scan": {"chain": messages.scan_chain},
    "exscan": {"chain": messages.scan_chain},
}


def choose(operation: str, call: Call) -> tuple[str, Algorithm] | None:
    """Name and algorithm for a call; None for what has no rule."""
    rules = RULES.get(operation)
    if rules is None:
        return None
    size = call.size if call.blocks is None else int(call.blocks.sum()) // call.members
    name = rules.choose(call.members, size)
    return name, ALGORITHMS[operation][name]


def _run(operation: str, call: Call, out: Messages) -> None:
    chosen = choose(operation, call)
    assert chosen is not None
    chosen[1](call, out)


# One algorithm per operation, whatever the size: for MPIs whose rules are not known.
TEXTBOOK: dict[str, tuple[str, Algorithm]] = {
    "barrier": ("dissemination", messages.barrier_dissemination),
    "bcast": ("binomial", messages.down(messages.binomial)),
    "reduce": ("binomial", messages.up(messages.binomial)),
    "gather": ("binomial", messages.gather_binomial),
    "scatter": ("binomial", messages.scatter_binomial),
    "gatherv": ("linear", messages.gatherv_linear),
    "allgather": ("ring", messages.allgather_ring),
    "allgatherv": ("ring", messages.allgather_ring),
    "allreduce": ("ring", reduction.allreduce_ring_always),
    "reduce_scatter": ("ring", reduction.reduce_scatter_ring),
    "reduce_scatter_block": ("ring", reduction.block_ring),
    "alltoall": ("direct", messages.alltoall_direct),
    "scan": ("chain", messages.scan_chain),
    "exscan": ("chain", messages.scan_chain),
}


def choose_textbook(operation: str, call: Call) -> tuple[str, Algorithm] | None:
    """The same for all sizes; None for what has no rule."""
    del call
    return TEXTBOOK.get(operation)


Chooser = Callable[[str, Call], "tuple[str, Algorithm] | None"]
