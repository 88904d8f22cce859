"""Plans that a launcher can start which only deals ranks out to hosts: `srun --mpi=pmi2`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from toposeat import evaluation, mapping
from toposeat.errors import ToposeatError
from toposeat.launch import Dealing
from toposeat.mapping import Machine
from toposeat.model.evaluation import MappingResult
from toposeat.model.map_options import MapOptions
from toposeat.model.topology import Topology
from toposeat.model.traffic import Traffic
from toposeat.pipeline.stack_path import StackPath, map_on_path

_FINALISTS = 2  # orders within whose hosts devices are searched for


def dealt(
    machine: Machine,
    traffic: Traffic,
    options: MapOptions,
    path: StackPath,
    best: MappingResult,
    *,
    dealing: Dealing,
) -> tuple[MappingResult, tuple[str, ...]]:
    """The best plan that the line can start, and what to say; `best` itself if it is one.

    All orders are compared with devices in rank order; where devices are listed, they are searched
    for within the hosts of the best ones. The bound stays that of all plans.
    """
    topology = path.listed(machine, options)
    if topology is None:
        assert machine.shape is not None, "a machine has one form or both"
        return _dealt_in_order(machine.shape, traffic, options, best, dealing)
    return _dealt_with_devices((topology, traffic), options, path, best, dealing)


def _dealt_with_devices(
    job: tuple[Topology, Traffic],
    options: MapOptions,
    path: StackPath,
    best: MappingResult,
    dealing: Dealing,
) -> tuple[MappingResult, tuple[str, ...]]:
    """With devices searched for within the hosts of the best orders."""
    machine, traffic = job
    hosts = [machine.devices[device].host for device in best.device_of_rank]
    default = [machine.devices[device].host for device in best.default.device_of_rank]
    plans = dealing.plans(default, hosts)
    if not plans or options.is_fixed:
        return best, ()
    used = path.machine_for(machine, traffic)
    evaluator = evaluation.Evaluator(used, traffic, metric=options.metric)

    def in_rank_order(name: str) -> float:
        left: dict[str, Iterator[int]] = {
            host: iter([d for d in best.default.device_of_rank if machine.devices[d].host == host])
            for host in dealing.order
        }
        row = [next(left[host]) for host in plans[name]]
        return evaluator.evaluate(row).value(options.objective)

    found: dict[str, MappingResult] = {}
    for name in sorted(plans, key=in_rank_order)[:_FINALISTS]:
        kept = replace(options.constraints, hosts=plans[name])
        try:
            found[name] = map_on_path(
                Machine.of(machine),
                traffic,
                replace(options, constraints=kept),
                path,
            )
        except ToposeatError:  # the user's own constraints allow no such plan
            continue
    if not found:
        return best, ()
    name = min(found, key=lambda each: found[each].placed.value(options.objective))
    taken = found[name]
    value, bound = taken.placed.value(options.objective), best.certificate.lower_bound
    certificate = replace(
        best.certificate,
        proved=False,
        value=value,
        gap=max(0.0, value / bound - 1) if bound else None,
        reason="the line starts no plan that is better",
        everywhere=False,
    )
    before = best.default.value(options.objective)
    saved, could = (_saved(before, each.placed.value(options.objective)) for each in (taken, best))
    name = "block" if taken.device_of_rank == best.default.device_of_rank else name
    return (
        replace(taken, certificate=certificate, uniform=False),
        dealing.words(name, options.objective, saved, could),
    )


def _dealt_in_order(
    shape: mapping.Shape,
    traffic: Traffic,
    options: MapOptions,
    best: MappingResult,
    dealing: Dealing,
) -> tuple[MappingResult, tuple[str, ...]]:
    """With devices in rank order within each host."""
    per_host, number = shape.slots_per_host, {host: at for at, host in enumerate(shape.hosts)}
    names = [shape.hosts[slot // per_host] for slot in range(traffic.ranks)]
    hosts = [shape.hosts[number] for number in best.host_numbers]
    plans = dealing.plans(names, hosts)
    if not plans or options.is_fixed:
        return best, ()
    evaluator = mapping.SlotEvaluator(shape, traffic)
    found = {}
    for name, plan in plans.items():
        local: Counter[str] = Counter()
        slots = np.empty(traffic.ranks, np.uint32)
        for rank, host in enumerate(plan):
            slots[rank] = number[host] * per_host + local[host]
            local[host] += 1
        found[name] = evaluator.evaluate(slots)
    name = min(found, key=lambda each: found[each].value(options.objective))
    placed = found[name]
    before = best.default.value(options.objective)
    kept = mapping.why_keep_default(best.default, placed, options)
    if kept:
        name, placed = "block", best.default
    saved, could = (_saved(before, each.value(options.objective)) for each in (placed, best.placed))
    taken = replace(
        best,
        device_of_rank=placed.device_of_rank,
        placed=placed,
        certificate=replace(best.certificate, value=placed.value(options.objective)),
        solver=f"{options.solver} ({name})",
        notes=(*best.notes, *([kept] if kept else [])),
        explanation=None,
    )
    return taken, dealing.words(name, options.objective, saved, could)


def _saved(before: float, after: float) -> float:
    """How much less, in per cent."""
    return 100 * (1 - after / before) if before > 0 else 0.0
