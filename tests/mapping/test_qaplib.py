"""Small QAPLIB instances through the whole core: published optima are found, then proved."""

import numpy as np
import pytest

from toposeat import _core

PROVED = ("chr12a", "had12", "nug12", "rou12", "scr12", "tai12a")


def instance(folder, name):
    """Flow as traffic, distance as cost, and the best known cost."""
    numbers = np.array((folder / f"{name}.dat").read_text().split(), np.float64)
    size = int(numbers[0])
    first, second = numbers[1 : 1 + 2 * size * size].reshape(2, size, size)
    assert not first.diagonal().any() or not second.diagonal().any()
    source, target = np.nonzero(first - np.diag(first.diagonal()))
    traffic = _core.RankTraffic(
        ranks=size,
        source=source.astype(np.uint32),
        target=target.astype(np.uint32),
        bytes=first[source, target],
        messages=np.ones(source.size),
    )
    rows = (line.split("\t") for line in (folder / "best-known.tsv").read_text().splitlines())
    known = {row[0]: row[2] for row in rows}
    return traffic, second, int(known[name])


def unconnected(size):
    """Devices without links: the flow model says nothing, so that the guard is silent."""
    return _core.Network(
        devices=size,
        forward=np.empty(0),
        backward=np.empty(0),
        combined=np.empty(0),
        route_begin=np.zeros(size * size + 1, np.uint32),
        route_link=np.empty(0, np.uint32),
        route_reverse=np.empty(0, bool),
        cap=np.full(size * size, np.inf),
        latency=np.zeros(size * size),
    )


def solve(folder, name, solver):
    traffic, cost, known = instance(folder, name)
    answer = _core.map_ranks(
        _core.MapRequest(
            unconnected(len(cost)),
            traffic,
            cost,
            objective="cost",
            solver=solver,
            budget_s=60,
            seed=1,
        )
    )
    return answer, known


@pytest.mark.parametrize("name", PROVED)
def test_search_finds_and_branch_and_bound_proves(shared_dir, name):
    found, known = solve(shared_dir / "qaplib", name, "search")
    assert found.value == known
    assert found.lower_bound is not None
    assert found.lower_bound <= known
    answer, _ = solve(shared_dir / "qaplib", name, "exact")
    assert answer.proved
    assert answer.value == known
