"""Problems that break arithmetic or make no sense, for every objective and solver."""

import dataclasses
import itertools
import math

import numpy as np
import pytest

from tests.mapping.machines import traffic_of
from toposeat.errors import InputError
from toposeat.mapping import (
    map_to_shape,
    map_traffic,
    read_shape,
)
from toposeat.model.map_options import OBJECTIVES, SOLVERS, MapOptions
from toposeat.topology import read_topology

MOST = 2**61


def one_pair(ranks, nbytes):
    matrix = np.zeros((ranks, ranks), np.int64)
    matrix[0, -1] = nbytes
    return traffic_of(matrix)


PROBLEMS = {
    "no traffic": traffic_of(np.zeros((3, 3), np.int64)),
    "one rank": traffic_of(np.zeros((1, 1), np.int64)),
    "one rank that talks to itself": one_pair(1, 5),
    "one byte": one_pair(4, 1),
    "nearly as many bytes as can be counted": one_pair(4, MOST),
    "one byte beside very many": traffic_of(
        np.array([[0, MOST - 1, 0], [1, 0, 0], [0, 0, 0]], np.int64)
    ),
}


def is_sound(evaluation):
    figures = (evaluation.predicted_s, evaluation.cost, evaluation.max_congestion_s)
    return all(each is not None and math.isfinite(each) and each >= 0 for each in figures)


@pytest.mark.parametrize("name", PROBLEMS)
def test_a_node_answers_soundly(name):
    traffic = PROBLEMS[name]
    for machine, objective, solver in itertools.product(
        ("dgx-1v", "power9-4"), OBJECTIVES, SOLVERS
    ):
        result = map_traffic(
            read_topology(machine),
            traffic,
            MapOptions(
                objective=objective, solver=solver, budget_s=0.1, explained=solver == "auto"
            ),
        )
        assert len(set(result.device_of_rank)) == traffic.ranks
        assert result.solver.startswith(solver)
        assert is_sound(result.default)
        assert is_sound(result.placed)
        gap = result.certificate.gap
        assert gap is None or (math.isfinite(gap) and gap >= 0)


@pytest.mark.parametrize("name", PROBLEMS)
def test_a_shape_answers_soundly(name):
    traffic = PROBLEMS[name]
    for text, objective, solver in itertools.product(
        ("hierarchy:2:4", "torus2d:3x3", "dragonfly:2:2:2"),
        OBJECTIVES,
        ("auto", "default", "random"),
    ):
        result = map_to_shape(
            read_shape(text),
            traffic,
            MapOptions(objective=objective, solver=solver),
        )
        assert len(set(result.device_of_rank)) == traffic.ranks
        assert is_sound(result.default)
        assert is_sound(result.placed)


def test_devices_that_nothing_joins_are_named():
    machine = read_topology("dgx-1v")
    routes = tuple(each for each in machine.routes if "gpu7" not in (each.source, each.target))
    cut = dataclasses.replace(machine, routes=routes)
    for objective, solver in itertools.product(OBJECTIVES, SOLVERS):
        with pytest.raises(InputError, match="no route from device 'gpu0' to 'gpu7'") as caught:
            map_traffic(cut, one_pair(4, 1), MapOptions(objective=objective, solver=solver))
        assert caught.value.hint
