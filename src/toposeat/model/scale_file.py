"""What `map -t NETWORK --json` printed, read back."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from toposeat.errors import InputError
from toposeat.model.files import decode_json
from toposeat.model.scale_result import (
    HostGroup,
    ScaleEvaluation,
    ScaleExplanation,
    ScaleResult,
)

SCALE_SCHEMA = "toposeat/scale/2"


@dataclass(frozen=True, kw_only=True)
class _Form:
    """The members of the JSON that make a `ScaleResult`; others are for readers of JSON."""

    topology: str
    slots: int
    slots_per_host: int
    hosts: tuple[str, ...]
    device_of_rank: tuple[int, ...]
    default: ScaleEvaluation
    placed: ScaleEvaluation
    candidates: tuple[ScaleEvaluation, ...]
    kept_default: bool
    objective: str
    solver: str
    solve_seconds: float
    peak_memory_bytes: int
    seed: int
    notes: tuple[str, ...] = ()
    explanation: ScaleExplanation | None = None
    stages: tuple[tuple[HostGroup, ...], ...] = ()


def _groups_fit(form: _Form) -> bool:
    """Whether each stage has every host once, and each evaluation a load for each group and host.

    A machine of many hosts has none of them.
    """
    hosts = list(range(len(form.hosts)))
    groups = [len(stage) for stage in form.stages]
    return all(
        sorted(host for group in stage for host in group.hosts) == hosts
        and all(group.hosts for group in stage)
        for stage in form.stages
    ) and all(
        [len(stage) for stage in each.stages_s] == groups
        and len(each.hosts_s) == (len(hosts) if groups else 0)
        for each in (form.default, form.placed)
    )


def parse_scale(text: str, path: str | Path) -> ScaleResult:
    """The mapping of a large job from its JSON; `path` is for messages only.

    Raises:
        InputError: with file and line, if it is damaged, of another schema, or contradicts itself.
    """
    form = decode_json(text, _Form, schema=SCALE_SCHEMA, path=path)
    slots = np.array(form.device_of_rank, np.int64)
    fits = form.slots_per_host > 0 and form.slots == form.slots_per_host * len(form.hosts)
    if not fits or (slots.size and not 0 <= slots.min() <= slots.max() < form.slots):
        raise InputError(
            "hosts, slots and devices of ranks do not go together",
            path=path,
            hint="print it again: toposeat map TRAFFIC -t NETWORK --node SRC --json",
        )
    if not _groups_fit(form):
        raise InputError(
            "the groups of hosts and their loads do not go together",
            path=path,
            hint="print it again: toposeat map TRAFFIC -t NETWORK --node SRC --json",
        )
    levels = [[load.level for load in each.levels] for each in (form.default, form.placed)]
    if levels[0] != levels[1]:
        raise InputError(
            "default and placed have other levels of links",
            path=path,
            hint="print it again: toposeat map TRAFFIC -t NETWORK --node SRC --json",
        )
    return ScaleResult(
        shape=form.topology,
        slots=form.slots,
        slots_per_host=form.slots_per_host,
        hosts=form.hosts,
        slot_of_rank=slots.astype(np.uint32),
        default=form.default,
        placed=form.placed,
        candidates=form.candidates,
        kept_default=form.kept_default,
        objective=form.objective,
        solver=form.solver,
        solve_seconds=form.solve_seconds,
        peak_memory_bytes=form.peak_memory_bytes,
        seed=form.seed,
        notes=form.notes,
        explanation=form.explanation,
        stages=form.stages,
    )
