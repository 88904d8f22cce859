"""What a placement keeps of the answer that it was made from.

Words for people stand in lines of their own; one line of JSON has what cannot be computed again.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import replace
from math import isclose

import msgspec

from toposeat import evaluation, report
from toposeat.errors import InputError
from toposeat.model.evaluation import Certificate, MappingResult
from toposeat.model.files import parse_json
from toposeat.model.map_options import METRICS, OBJECTIVES
from toposeat.model.placement import ANSWER_KEY, PROOF_KEY, RANGE_KEY, VERDICT_KEY, Placement
from toposeat.model.quantity import Premises
from toposeat.model.record import Record
from toposeat.model.topology import Topology
from toposeat.model.transport import Transport

_SAME = 1e-6  # share by which a prediction differs that is computed again


class Kept(Record, frozen=True, kw_only=True):
    """Members of a mapping result that its machine, its traffic and its order do not say."""

    certificate: Certificate
    objective: str
    metric: str
    solver: str
    solve_seconds: float
    seed: int
    uniform: bool
    notes: tuple[str, ...] = ()
    premises: Premises | None = None
    transport: Transport | None = None
    cpu_ranks: tuple[int, ...] = ()


class Answer(Kept, frozen=True, kw_only=True):
    """What is kept of a mapping result, and by what it is known again.

    Attributes:
        is_listed: whether it is of listed devices, or of slots.
        seconds: predicted of the default and of the placement: of others this is not the answer.
        order: a digest of the device of each rank.
        default: the device of each rank by default, where options made that another one.
    """

    is_listed: bool
    seconds: tuple[float, float]
    order: str
    default: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        if self.objective not in OBJECTIVES or self.metric not in METRICS:
            raise ValueError("no objective or metric of ours")

    def default_on(self, ranks: int, devices: int) -> tuple[int, ...] | None:
        """The default of the answer, where a machine of so many devices can have it."""
        row = self.default
        fits = row is not None and len(row) == ranks and all(0 <= each < devices for each in row)
        return row if fits else None

    def is_of(self, result: MappingResult) -> bool:
        """Whether machine, traffic and order are still those of the answer."""
        pairs = zip(self.seconds, _seconds(result), strict=True)
        is_same = self.order == _digest(result.device_of_rank)
        return is_same and all(isclose(old, new, rel_tol=_SAME) for old, new in pairs)

    def given_by(self, result: MappingResult) -> MappingResult:
        """The same order on the same machine, with what was kept."""
        return replace(result, **{name: getattr(self, name) for name in Kept.__struct_fields__})


def answer_lines(result: MappingResult, machine: Topology | None) -> dict[str, str]:
    """Metadata of the placement that a result is saved as; `machine` where devices are listed."""
    ranks = result.ranks
    usual = range(ranks) if machine is None else evaluation.default_placement(ranks, machine)
    default = result.default.device_of_rank
    answer = Answer(
        **{name: getattr(result, name) for name in Kept.__struct_fields__},
        is_listed=result.is_listed,
        seconds=_seconds(result),
        order=_digest(result.device_of_rank),
        default=None if default == tuple(usual) else default,
    )
    text = json.dumps(msgspec.to_builtins(answer), allow_nan=False).replace("\x7f", "\\u007f")
    words = {
        VERDICT_KEY: report.verdict_words(result),
        RANGE_KEY: report.range_words(result.premises),
        PROOF_KEY: report.proof_words(result, reasoned=False),
    }
    return {key: said for key, said in words.items() if said} | {ANSWER_KEY: text}


def answer_in(placement: Placement) -> Answer | None:
    """The answer that a placement keeps; None where it keeps none that can be read."""
    try:
        text = placement.metadata.get(ANSWER_KEY, "")
        found = parse_json(text, "placement", hint="map again")
        return msgspec.convert(found, Answer, strict=True)
    except (InputError, ValueError):
        return None


def _seconds(result: MappingResult) -> tuple[float, float]:
    return result.default.predicted_s, result.placed.predicted_s


def _digest(row: Sequence[int]) -> str:
    return hashlib.sha256(",".join(map(str, row)).encode()).hexdigest()[:16]
