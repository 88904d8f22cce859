"""JSON files of mapping results and run records."""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct, structs

from toposeat.errors import InputError
from toposeat.model.evaluation import (
    Candidate,
    Certificate,
    Evaluation,
    HostGroup,
    LevelLoad,
    LinkLoad,
    MappingResult,
    PhaseTime,
)
from toposeat.model.explanation import Bottleneck, Explanation, Move
from toposeat.model.files import decode_json, encode_json, write_atomically
from toposeat.model.runs import RunRecord

MAPPING_SCHEMA = "toposeat/mapping/3"
RUN_SCHEMA = "toposeat/run/1"
_ON_NODES = "toposeat/mapping/2"  # until 2026: of machines whose devices were listed
_AT_SCALE = "toposeat/scale/2"  # and of the others

_AGAIN = "print it again: toposeat map TRAFFIC -t SRC --json"


def parse_mapping(text: str, path: str | Path) -> MappingResult:
    """A mapping result from the text of its file, or from an older one."""
    head = text[:200]
    if f'"{_AT_SCALE}"' in head:
        result = _renewed(decode_json(text, _AtScale, schema=_AT_SCALE, path=path))
    else:
        schema = _ON_NODES if f'"{_ON_NODES}"' in head else MAPPING_SCHEMA
        result = decode_json(text, MappingResult, schema=schema, path=path)
    _check(result, path)
    return result


def is_mapping(head: str) -> bool:
    """Whether a file that begins like this holds a mapping result, of whatever version."""
    names = (MAPPING_SCHEMA, _AT_SCALE)
    return any(f'"{name.rpartition("/")[0]}/' in head for name in names)


class _LevelMove(Struct, frozen=True):
    levels_before: tuple[str, ...]
    levels_after: tuple[str, ...]
    pairs: int
    bytes: int


class _ScaleExplanation(Struct, frozen=True):
    moves: tuple[_LevelMove, ...]
    kinds_of_moves: int
    moved_pairs: int
    moved_bytes: int
    before: Bottleneck
    after: Bottleneck


class _ScaleEvaluation(Struct, frozen=True):
    cost: float
    max_congestion_s: float
    mean_congestion_s: float
    hop_bytes: float
    predicted_s: float
    links: tuple[LinkLoad, ...]
    levels: tuple[LevelLoad, ...]
    phases: tuple[PhaseTime, ...] = ()
    hosts_s: tuple[float, ...] = ()
    stages_s: tuple[tuple[float, ...], ...] = ()

    def renewed(self, row: tuple[int, ...]) -> Evaluation:
        """Of groups it said what all of them take at once; today it is their sum."""
        members = structs.asdict(self)
        if self.phases:
            members["predicted_s"] = sum(phase.seconds for phase in self.phases)
        return Evaluation(device_of_rank=row, **members)


class _AtScale(Struct, frozen=True):
    """What an older version wrote of a large machine."""

    topology: str
    slots_per_host: int
    hosts: tuple[str, ...]
    objective: str
    device_of_rank: tuple[int, ...]
    default: _ScaleEvaluation
    placed: _ScaleEvaluation
    candidates: tuple[Candidate, ...]
    solver: str
    solve_seconds: float
    seed: int
    peak_memory_bytes: int
    notes: tuple[str, ...] = ()
    explanation: _ScaleExplanation | None = None
    stages: tuple[tuple[HostGroup, ...], ...] = ()


def _renewed(old: _AtScale) -> MappingResult:
    placed = old.placed.renewed(old.device_of_rank)
    values = {"cost": placed.cost, "congestion": placed.max_congestion_s}
    why = old.explanation
    return MappingResult(
        device_of_rank=old.device_of_rank,
        default=old.default.renewed(tuple(range(len(old.device_of_rank)))),
        placed=placed,
        certificate=Certificate(
            objective=old.objective,
            proved=False,
            value=values.get(old.objective, placed.predicted_s),
            lower_bound=None,
            gap=None,
        ),
        objective=old.objective,
        metric="bandwidth",
        solver=old.solver,
        solve_seconds=old.solve_seconds,
        seed=old.seed,
        notes=old.notes,
        explanation=None
        if why is None
        else Explanation(
            moves=tuple(
                Move(
                    links_before=move.levels_before,
                    links_after=move.levels_after,
                    pairs=move.pairs,
                    bytes=move.bytes,
                )
                for move in why.moves
            ),
            kinds_of_moves=why.kinds_of_moves,
            moved_pairs=why.moved_pairs,
            moved_bytes=why.moved_bytes,
            before=why.before,
            after=why.after,
        ),
        topology=old.topology,
        hosts=old.hosts,
        slots_per_host=old.slots_per_host,
        candidates=old.candidates,
        peak_memory_bytes=old.peak_memory_bytes,
        stages=old.stages,
    )


def _check(result: MappingResult, path: str | Path) -> None:
    """Refuse a result whose hosts, devices, groups and levels do not go together.

    A machine of many hosts has no groups to draw, and one whose hosts differ none at all.
    """
    hosts, rows = range(len(result.hosts)), (result.default, result.placed)
    sizes = [len(stage) for stage in result.stages]
    names = [[load.level for load in each.levels] for each in rows]
    fits = {
        "devices and ranks": len(result.default.device_of_rank) == result.ranks
        and result.placed.device_of_rank == result.device_of_rank,
        "hosts and devices of ranks": result.slots_per_host >= 0
        and (
            not result.slots_per_host
            or all(0 <= device < result.slots for device in result.device_of_rank)
        ),
        "groups of hosts and their loads": all(
            sorted(host for group in stage for host in group.hosts) == [*hosts]
            and all(group.hosts for group in stage)
            for stage in result.stages
        )
        and all(
            [len(stage) for stage in each.stages_s] == sizes
            and len(each.hosts_s) == (len(hosts) if sizes else 0)
            for each in rows
        ),
        "levels of links by default and as placed": names[0] == names[1],
    }
    for what, is_right in fits.items():
        if not is_right:
            raise InputError(f"the {what} do not go together", path=path, hint=_AGAIN)


def save_mapping(result: MappingResult, path: str | Path, *, overwrite: bool = False) -> None:
    """Write a mapping result, whole or not at all."""
    write_atomically(path, encode_json(result, schema=MAPPING_SCHEMA), overwrite=overwrite)


def parse_run(text: str, path: str | Path) -> RunRecord:
    """A run record from the text of its file; `path` is for messages only."""
    return decode_json(text, RunRecord, schema=RUN_SCHEMA, path=path)


def save_run(record: RunRecord, path: str | Path, *, overwrite: bool = False) -> None:
    """Write a run record, whole or not at all."""
    write_atomically(path, encode_json(record, schema=RUN_SCHEMA), overwrite=overwrite)
