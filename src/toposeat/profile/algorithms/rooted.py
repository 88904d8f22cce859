"""Algorithms of bcast, reduce, gather(v) and scatter: one member gives to all, or gets from all."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from toposeat.profile.algorithms import trees
from toposeat.profile.algorithms.exchange import double_recursively
from toposeat.profile.algorithms.messages import Algorithm, Call, Messages, power_of_two_below

_FIRST_OF_SYNC, _FIRST_OF_LARGE_SYNC, _LARGE_SYNC = 1024, 32768, 92160


def down(tree: Callable[[int], trees.Edges]) -> Algorithm:
    """Bcast: the whole vector from every parent to its children."""

    def algorithm(call: Call, out: Messages) -> None:
        parents, children = tree(call.members)
        out.add(call.at(parents), call.at(children), call.size)

    return algorithm


def up(tree: Callable[[int], trees.Edges]) -> Algorithm:
    """Reduce: the whole vector from every child to its parent."""

    def algorithm(call: Call, out: Messages) -> None:
        parents, children = tree(call.members)
        out.add(call.at(children), call.at(parents), call.size)

    return algorithm


def down_knomial(radix: int) -> Algorithm:
    """Bcast down a tree of that radix."""
    return down(lambda members: trees.knomial(members, radix))


def split_binary(call: Call, out: Messages) -> None:
    """Bcast: half of the vector down each half of a binary tree, then partners exchange."""
    first = -(-call.count // 2) * call.element
    halves = np.array([first, call.size - first])
    if halves.min() == 0:
        down(trees.chain)(call, out)
        return
    parents, children = trees.binary(call.members)
    out.add(call.at(parents), call.at(children), halves[(children + 1) % 2])
    places = call.positions[1:]
    partner = np.where(places % 2 == 1, places + 1, places - 1)
    both = partner < call.members
    out.add(call.at(places[both]), call.at(partner[both]), halves[(places[both] + 1) % 2])
    if call.members % 2 == 0:
        out.add(call.root, call.at(call.members - 1), halves[1])


def scatter_pieces(call: Call, out: Messages) -> np.ndarray:
    """The scatter of a bcast: down a binomial tree, pieces of one size; returns what each has."""
    piece = -(-call.count // call.members) * call.element
    places = call.positions
    pieces = np.clip(call.size - places * piece, 0, piece)
    parents, children = trees.binomial(call.members)
    reach = trees.subtree_sizes(call.members)[children]
    sizes = np.clip(call.size - children * piece, 0, reach * piece)
    sent = sizes > 0
    out.add(call.at(parents[sent]), call.at(children[sent]), sizes[sent])
    return pieces


def scatter_allgather(call: Call, out: Messages) -> None:
    """Bcast: pieces down a binomial tree, then allgather by recursive doubling."""
    if call.count < call.members:
        down(trees.linear)(call, out)
        return
    pieces = scatter_pieces(call, out)
    for source, target, sizes in double_recursively(pieces):
        out.add(call.at(source), call.at(target), sizes)


def scatter_allgather_ring(call: Call, out: Messages) -> None:
    """Bcast: pieces down a binomial tree, then allgather around a ring."""
    if call.count < call.members:
        down(trees.linear)(call, out)
        return
    pieces = scatter_pieces(call, out)
    places = call.positions
    sizes = pieces.sum() - np.roll(pieces, -1)
    out.add(call.at(places), call.at(places + 1), sizes, call.members - 1)


def reduce_in_order(call: Call, out: Messages) -> None:
    """Reduce up a binary tree in rank order; its root, the last rank, hands the result on."""
    parents, children = trees.in_order_binary(call.members)
    out.add(children, parents, call.size)
    if call.root != call.members - 1:
        out.add(call.members - 1, call.root, call.size)


def reduce_rabenseifner(call: Call, out: Messages) -> None:
    """Reduce: recursive halving, then gather up a binomial tree."""
    if call.count < power_of_two_below(call.members) or call.members > 3:
        # Larger groups are never given to it by the rules modelled here.
        up(trees.linear)(call, out)
        return
    left = call.count // 2 * call.element
    right = call.size - left
    if call.members == 3:
        out.add([0, 1, 1], [1, 0, 0], [right, left, right])
    # Two are left: they exchange halves, and hand what they reduced to the root.
    low, high = (0, 1) if call.members == 2 else (0, 2)
    out.add([low, high], [high, low], [right, left])
    for holder, part in ((low, left), (high, right)):
        if holder != call.root:
            out.add(holder, call.root, part)


def gather_linear(call: Call, out: Messages) -> None:
    """Gather(v): everybody to the root."""
    blocks = call.own_blocks()
    others = call.positions[call.positions != call.root]
    out.add(others, call.root, blocks[others])


def gatherv_linear(call: Call, out: Messages) -> None:
    """Gatherv: everybody who has something to the root."""
    blocks = call.own_blocks()
    others = call.positions[(call.positions != call.root) & (blocks > 0)]
    out.add(others, call.root, blocks[others])


def gather_linear_sync(call: Call, out: Messages) -> None:
    """Gather: the root asks each (empty message), who sends in two parts."""
    first = _FIRST_OF_LARGE_SYNC if call.size > _LARGE_SYNC else _FIRST_OF_SYNC
    others = call.positions[call.positions != call.root]
    out.add(call.root, others, 0)
    out.add(others, call.root, call.size, 2 if call.size > 0 and first > 0 else 0)


def gather_binomial(call: Call, out: Messages) -> None:
    """Gather up a binomial tree."""
    parents, children = trees.binomial(call.members)
    blocks = trees.subtree_sizes(call.members)[children] * call.size
    out.add(call.at(children), call.at(parents), blocks)


def scatter_linear(call: Call, out: Messages) -> None:
    """Scatter: the root to everybody."""
    out.add(call.root, call.positions[call.positions != call.root], call.size)


def scatter_binomial(call: Call, out: Messages) -> None:
    """Scatter down a binomial tree."""
    parents, children = trees.binomial(call.members)
    blocks = trees.subtree_sizes(call.members)[children] * call.size
    out.add(call.at(parents), call.at(children), blocks)
