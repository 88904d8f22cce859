"""Small QAPLIB instances: published optima are reached, and the easy ones proved."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from toposeat import _core

REACHED = (
    "chr12a",
    "chr15b",
    "had14",
    "kra30a",
    "lipa20a",
    "nug12",
    "nug20",
    "rou15",
    "tai12a",
    "tai20b",
)
PROVED = ("chr12a", "had12", "nug12", "rou12", "scr12", "tai12a")


def instance(folder: Path, name: str) -> tuple[_core.RankTraffic, np.ndarray, int]:
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


def unconnected(size: int) -> _core.Network:
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


def solve(folder: Path, name: str, solver: str, budget_s: float) -> tuple[_core.MapAnswer, int]:
    traffic, cost, known = instance(folder, name)
    answer = _core.map_ranks(
        _core.MapRequest(
            unconnected(len(cost)),
            traffic,
            cost,
            objective="cost",
            solver=solver,
            budget_s=budget_s,
            seed=1,
        )
    )
    return answer, known


@pytest.mark.parametrize("name", REACHED)
def test_search_reaches_the_best_known(shared_dir: Path, name: str) -> None:
    answer, known = solve(shared_dir / "qaplib", name, "search", 4)
    assert answer.value == known
    assert answer.lower_bound is not None
    assert answer.lower_bound <= known


@pytest.mark.parametrize("name", PROVED)
def test_branch_and_bound_proves(shared_dir: Path, name: str) -> None:
    answer, known = solve(shared_dir / "qaplib", name, "exact", 60)
    assert answer.proved
    assert answer.value == known
