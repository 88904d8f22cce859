"""Whatever algorithm the rules choose, everybody who must learn something can have learnt it."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from toposeat.profile.algorithms import Call, Messages, rules
from toposeat.profile.algorithms.rules import parse_rules

CHOOSERS = {"general": rules.choose_textbook, "open mpi": rules.choose}
TO_ALL = ("bcast", "scatter")
TO_ROOT = ("reduce", "gather", "gatherv")
AMONG_ALL = (
    *("barrier", "allreduce", "allgather", "allgatherv", "alltoall"),
    *("reduce_scatter", "reduce_scatter_block"),
)
members = st.integers(2, 40) | st.sampled_from([63, 64, 100, 128, 129, 256, 300, 512, 1024, 2048])
sizes = st.integers(1, 64) | st.integers(1, 1 << 22)


def learn(out, count):
    """Who can know whose data after all rounds: a square array, row = who.

    What is added at a time happens at once, as often as there are messages; but messages that form
    no circle (a tree, a chain) wait for each other.
    """
    knows = np.eye(count, dtype=np.int64)
    for source, target, _, messages in out.rounds():
        assert (messages > 0).all()
        edges = np.zeros((count, count), dtype=np.int64)
        edges[target, source] = 1
        times = count if no_circle(edges) else int(messages.max(initial=0))
        for _ in range(times):
            after = np.minimum(knows + edges @ knows, 1)
            if np.array_equal(after, knows):
                break
            knows = after
    return knows.astype(bool)


def no_circle(edges):
    left = edges.copy()
    while left.any():
        ends = ~left.any(axis=1)  # get nothing more
        if not left[:, ends].any():
            return False
        left[:, ends] = 0
    return True


def run(choose, operation, call):
    chosen = choose(operation, call)
    assert chosen is not None
    out = Messages()
    chosen[1](call, out)
    source, target, size, _ = out.rows()
    assert ((source != target) & (size >= 0)).all()
    assert ((source >= 0) & (source < call.members)).all()
    assert ((target >= 0) & (target < call.members)).all()
    return chosen[0], out


@pytest.mark.parametrize("choose", CHOOSERS.values(), ids=CHOOSERS)
@settings(max_examples=25, deadline=None)
@given(count=st.integers(2, 40) | st.sampled_from([64, 65, 100]), size=sizes, data=st.data())
def test_everybody_learns_what_it_must(choose, count, size, data):
    root = data.draw(st.integers(0, count - 1))
    operation = data.draw(st.sampled_from([*TO_ALL, *TO_ROOT, *AMONG_ALL, "scan"]))
    knows = learn(run(choose, operation, Call(members=count, root=root, size=size))[1], count)
    if operation in TO_ALL:
        assert knows[:, root].all()
    elif operation in TO_ROOT:
        assert knows[root].all()
    elif operation == "scan":
        assert (knows | ~np.tri(count, dtype=bool)).all()
    elif not (operation.startswith("reduce_scatter") and size < count):  # empty shares are not sent
        assert knows.all()


@pytest.mark.parametrize("choose", CHOOSERS.values(), ids=CHOOSERS)
@settings(max_examples=25, deadline=None)
@given(count=members, size=sizes)
def test_what_arrives_is_enough(choose, count, size):
    """Exact for allgather, scatter and gather; a lower bound for what must combine data."""

    def received(operation):
        out = run(choose, operation, Call(members=count, size=size))[1]
        _, target, nbytes, _ = out.rows()
        return np.bincount(target, nbytes, minlength=count)

    assert (received("allgather") == (count - 1) * size).all()
    assert (received("bcast")[1:] >= size).all()
    assert (received("allreduce") >= size).all()
    assert received("gather")[0] == (count - 1) * size
    if choose is rules.choose_textbook:  # a ring; the blocks of all, whatever the rounding
        assert received("allreduce").sum() == 2 * (count - 1) * size
        assert received("reduce_scatter").sum() == (count - 1) * size
        assert received("bcast").sum() == received("scan").sum() == (count - 1) * size
        assert received("reduce").sum() == (count - 1) * size
    assert (received("scatter")[1:] >= size).all()
    if count <= 300:
        assert (received("alltoall") >= (count - 1) * size).all()


@given(
    blocks=st.lists(st.integers(0, 1 << 20), min_size=2, max_size=33),
    name=st.sampled_from(["bruck", "ring", "neighbor"]),
)
def test_unequal_blocks_all_arrive(blocks, name):
    call = Call(members=len(blocks), blocks=np.array(blocks))
    out = Messages()
    rules.ALGORITHMS["allgatherv"][name](call, out)
    _, target, nbytes, _ = out.rows()
    arrived = np.bincount(target, nbytes, minlength=len(blocks))
    assert (arrived == sum(blocks) - np.array(blocks)).all()


@pytest.mark.parametrize("operation", [*TO_ALL, *TO_ROOT, *AMONG_ALL, "scan", "exscan"])
def test_open_mpi_has_a_choice_for_every_group_and_size(operation):
    for count in (1, 2, 3, 7, 31, 200, 511, 1000, 2047, 4095, 5000):
        for size in (0, 1, 31, 300, 5000, 70000, 10**6, 10**9):
            chosen = rules.choose(operation, Call(members=count, size=size))
            assert chosen is not None
            assert callable(chosen[1])


def test_rules_are_read_as_written():
    rules = parse_rules("a\n    <4: x <10 y\n    z\nb\n    w <5 v <7 u")
    chosen = [rules["a"].choose(*at) for at in ((3, 9), (3, 10), (4, 0), (9, 99))]
    assert chosen == ["x", "y", "z", "z"]
    assert [rules["b"].choose(1, size) for size in (4, 5, 6, 7)] == ["w", "v", "v", "u"]


def test_large_groups_take_little_memory():
    """16384 ranks: rows grow with n log n, never with n squared."""
    log = 14
    for operation in ("allreduce", "allgather", "allgatherv", "bcast", "reduce", "barrier", "scan"):
        for choose in CHOOSERS.values():
            out = run(choose, operation, Call(members=1 << log, size=1 << log))[1]
            assert out.rows().shape[1] <= 4 * log * (1 << log)
