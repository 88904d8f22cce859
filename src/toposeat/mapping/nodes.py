"""Two-level mapping for topologies of many nodes: ranks to nodes, then to their devices."""

from __future__ import annotations

import threading

import numpy as np
from numpy.typing import NDArray

from toposeat import _core
from toposeat.errors import UsageError
from toposeat.evaluation import Evaluator
from toposeat.mapping.problem import Answer
from toposeat.model.evaluation import Evaluation
from toposeat.model.map_options import Constraints, MapOptions
from toposeat.model.topology import Topology


def map_nodes(
    topology: Topology,
    evaluator: Evaluator,
    default: Evaluation,
    options: MapOptions,
    *,
    budget_s: float,
) -> Answer:
    """Multilevel mapping with the machine reduced to its nodes.

    Within a node every pair of devices has its own cost; between two nodes all pairs have the mean.
    The placement is not slower by flow time than the default, and better by the objective;
    otherwise the default is returned.
    """
    if options.constraints != Constraints() or evaluator.flows.ranks > len(topology.devices):
        raise UsageError(
            "the multilevel solver knows one rank per device and no constraints",
            hint="use --solver auto or search",
        )
    devices = _by_host(topology)
    answer = _core.map_large(
        _machine(topology, evaluator.costs.per_byte, devices),
        evaluator.flows,
        objective="cost",
        solver="auto",
        budget_s=budget_s,
        seed=options.seed,
        interruptible=threading.current_thread() is threading.main_thread(),
    )
    found = [int(device) for device in devices[answer.slot_of_rank]]
    after = evaluator.evaluate(found)
    notes = list(answer.notes)
    objective = options.objective
    gained = after.value(objective) < default.value(objective) * (1 - 1e-9)
    keep = not gained or after.predicted_s > default.predicted_s * (1 + 1e-9)
    if keep and after.device_of_rank != default.device_of_rank:
        why = "is predicted slower" if gained else f"gains no {objective}"
        notes.append(f"kept the default: the two-level placement {why}")
    taken = default if keep else after
    return Answer(
        device_of_rank=taken.device_of_rank,
        value=taken.value(objective),
        solver=f"two levels, {answer.placed.name}",
        notes=tuple(notes),
    )


def _by_host(topology: Topology) -> NDArray[np.intp]:
    """Positions of the devices, grouped by host, hosts in order."""
    hosts = {host: number for number, host in enumerate(topology.hosts)}
    return np.argsort([hosts[device.host] for device in topology.devices], kind="stable")


def _machine(
    topology: Topology, cost: NDArray[np.float64], devices: NDArray[np.intp]
) -> _core.LargeMachine:
    ordered = (cost + cost.T)[np.ix_(devices, devices)] / 2
    hosts = [topology.devices[int(device)].host for device in devices]
    first = [at for at, host in enumerate(hosts) if at == 0 or host != hosts[at - 1]]
    ends = [*first[1:], len(hosts)]
    within = []
    between = np.zeros((len(first), len(first)))
    for row, (begin, end) in enumerate(zip(first, ends, strict=True)):
        within.append(ordered[begin:end, begin:end].ravel().tolist())
        for column, (low, high) in enumerate(zip(first, ends, strict=True)):
            if row != column:
                between[row, column] = ordered[begin:end, low:high].mean()
    return _core.LargeMachine.grouped(within, between.ravel().tolist())
