"""Trees over places 0 .. members - 1 (counted from the root): arrays of parents and children."""

from __future__ import annotations

import numpy as np

from toposeat.model.traffic import Int64Array

Edges = tuple[Int64Array, Int64Array]  # parents, children


def linear(members: int) -> Edges:
    """Everybody below the root."""
    children = np.arange(1, members, dtype=np.int64)
    return np.zeros_like(children), children


def chain(members: int) -> Edges:
    """Each below the one before."""
    children = np.arange(1, members, dtype=np.int64)
    return children - 1, children


def binary(members: int) -> Edges:
    """Two children each; on every level first the left children of all, then the right ones."""
    places = np.arange(members, dtype=np.int64)
    step = power_at_or_below(places + 1)  # members of this level
    parents = np.concatenate([places, places])
    children = np.concatenate([places + step, places + 2 * step])
    inside = children < members
    return parents[inside], children[inside]


def knomial(members: int, radix: int) -> Edges:
    """A child's parent is found by clearing its lowest digit that is not 0, in base `radix`.

    With radix 2 this is the binomial tree whose subtrees are runs of neighbouring places.
    """
    children = np.arange(1, members, dtype=np.int64)
    mask = np.ones_like(children)
    while True:
        deeper = children % (mask * radix) == 0
        if not deeper.any():
            break
        mask[deeper] *= radix
    return children // (mask * radix) * (mask * radix), children


def binomial(members: int) -> Edges:
    """Subtrees are runs of neighbouring places."""
    return knomial(members, 2)


def binomial_by_distance(members: int) -> Edges:
    """The binomial tree that grows by doubling distances: the highest bit cleared is the parent."""
    children = np.arange(1, members, dtype=np.int64)
    return children - power_at_or_below(children), children


def subtree_sizes(members: int) -> Int64Array:
    """Members in the subtree of every place of `binomial`."""
    places = np.arange(members, dtype=np.int64)
    reach = np.where(places == 0, members, places & -places)
    return np.minimum(reach, members - places)


def power_at_or_below(numbers: Int64Array) -> Int64Array:
    """The largest power of two that is not above each number (all > 0)."""
    exponent = np.frexp(numbers.astype(np.float64))[1] - 1
    return np.left_shift(np.int64(1), exponent.astype(np.int64))


def in_order_binary(members: int) -> Edges:
    """Binary tree in rank order with the last member at the root; here the places are ranks.

    The right child of a run of ranks is the middle of it, the left one the last but one.
    """
    parents, children = [], []
    pending = [(0, members)]  # runs (first rank, length); the root of a run is its last rank
    while pending:
        first, length = pending.pop()
        root, right = first + length - 1, length >> 1
        left = length - 1 - right
        for start, part in ((first, right), (first + right, left)):
            if part > 0:
                parents.append(root)
                children.append(start + part - 1)
                pending.append((start, part))
    return np.array(parents, dtype=np.int64), np.array(children, dtype=np.int64)
