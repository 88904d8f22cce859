"""Which way an MPI stack moves device messages, what could change it, and what that is worth."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from toposeat.model.evaluation import MappingResult
from toposeat.model.route import CopyProtocol
from toposeat.model.topology import Topology

if TYPE_CHECKING:
    from toposeat.model.clocked import ClockedResult

LEAST_GAIN = 0.01  # share of the link time: less is not worth runs


class StackKind(StrEnum):
    """What moves device buffers between the ranks of one node."""

    OPENMPI_UCX = "openmpi-ucx"
    OPENMPI_OB1 = "openmpi-ob1"  # point-to-point layer ob1 with its shared-memory GPU transport
    MPICH = "mpich"  # ch4: its own GPU IPC within a node, whatever the network module
    CRAY_MPICH = "cray-mpich"
    INTEL_MPI = "intel-mpi"


class Basis(StrEnum):
    """How sure a statement about a stack is."""

    KNOWN = "known"  # documented, or said by the installation itself
    ASSUMED = "assumed"  # inferred from defaults or versions
    MEASURED = "measured"  # the stack said so in a run on this machine


@dataclass(frozen=True, slots=True)
class Statement:
    """A statement about a stack: how sure it is, and where it is from."""

    text: str
    basis: Basis
    source: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class ProtocolRule:
    """Protocol by message size: `(first size in bytes, protocol)`, from size 0 on, rising."""

    pieces: tuple[tuple[int, CopyProtocol], ...]

    def __post_init__(self) -> None:
        firsts = [first for first, _ in self.pieces]
        if not firsts or firsts[0] != 0 or firsts != sorted(set(firsts)):
            raise ValueError(f"sizes {firsts} do not rise from 0")

    def protocol_of(self, message_bytes: float) -> CopyProtocol:
        """The protocol of a message of this size."""
        at = bisect_right([first for first, _ in self.pieces], message_bytes)
        return self.pieces[max(at, 1) - 1][1]

    @property
    def protocols(self) -> frozenset[CopyProtocol]:
        """All protocols of the rule."""
        return frozenset(protocol for _, protocol in self.pieces)


def rule_of(
    large: CopyProtocol, *, threshold_bytes: int = 0, small: CopyProtocol = CopyProtocol.STAGED
) -> ProtocolRule:
    """One protocol from a size on, another one below it."""
    if threshold_bytes <= 0 or small is large:
        return ProtocolRule(pieces=((0, large),))
    return ProtocolRule(pieces=((0, small), (threshold_bytes, large)))


def rule_of_pieces(pieces: Sequence[tuple[int, CopyProtocol]]) -> ProtocolRule:
    """A rule of pieces in any order, neighbours with the same protocol joined.

    Empty messages are moved like those of one byte.
    """
    started = [(first, protocol) for first, protocol in sorted(pieces) if first <= 1]
    joined = [(0, started[-1][1])] if started else []
    for first, protocol in sorted(pieces):
        if first > 1 and (not joined or joined[-1][1] is not protocol):
            joined.append((first, protocol))
    return ProtocolRule(pieces=tuple(joined))


@dataclass(frozen=True, kw_only=True, slots=True)
class Setting:
    """Variables that make a stack move data in another way.

    `name` is short, for tables; `source` says where the variables are documented; `caution` what a
    user should know before setting them, "" if nothing.
    """

    name: str
    variables: Mapping[str, str]
    rule: ProtocolRule
    source: str = ""
    caution: str = ""


@dataclass(frozen=True, kw_only=True)
class Stack:
    """An MPI stack as found, and what it will do in the user's present environment.

    Attributes:
        kind: which stack it is.
        version: of the MPI; "" if not known.
        transport: what moves device buffers, with its version, e.g. "UCX 1.22.0".
        variables: those of the user's environment and launch line that steer it.
        rule: what it does with them.
        statements: what `rule` rests on.
        settings: what could be set instead, in the order of the documentation.
        fixed: variables that the launch line sets, so that the environment cannot.
        piece_bytes: size of the pieces in which it stages a message; 0 if not known.
    """

    kind: StackKind
    version: str
    transport: str
    variables: Mapping[str, str]
    rule: ProtocolRule
    statements: tuple[Statement, ...] = ()
    settings: tuple[Setting, ...] = ()
    fixed: frozenset[str] = frozenset()
    piece_bytes: int = 0


@dataclass(frozen=True, kw_only=True)
class Prediction:
    """One setting with one placement.

    Attributes:
        setting: without variables: the present environment.
        device_of_rank: positions in `Topology.devices`.
        predicted_s: link time; None where `lacking` says why there is none.
        gain: share of the present environment's time with the given placement that is saved.
        lacking: what would be needed for a prediction, or why the setting cannot be tried.
    """

    setting: Setting
    device_of_rank: tuple[int, ...] = ()
    predicted_s: float | None = None
    gain: float | None = None
    lacking: str = ""


@dataclass(frozen=True, kw_only=True)
class JointOption:
    """The best placement that was found under one setting of a stack.

    `machine` is the topology as this setting uses it; `result` is None where `lacking` says why.
    """

    setting: Setting
    machine: Topology | None = None
    result: MappingResult | None = None
    lacking: str = ""


@dataclass(frozen=True, kw_only=True)
class JointChoice:
    """Placement and protocol chosen together: the option with the least predicted time.

    `stack` is the name of the stack, or "per-pair" for one that takes the best protocol of each
    pair. `options` has the present environment first where there is one.
    """

    stack: str
    options: tuple[JointOption, ...]
    chosen: JointOption

    @property
    def taken(self) -> tuple[MappingResult, Topology]:
        """The mapping that was chosen, and the machine that it is for."""
        assert self.chosen.result is not None
        assert self.chosen.machine is not None
        return self.chosen.result, self.chosen.machine


@dataclass(frozen=True, kw_only=True)
class PairNote:
    """What the protocols are worth for a pair of ranks of the placement: seconds of one message."""

    source: int
    target: int
    bytes: int
    message_bytes: int
    seconds: Mapping[str, float]
    present: str  # protocol in the present environment


@dataclass(frozen=True, kw_only=True)
class Advice:
    """What was predicted, what was run, and what follows.

    Attributes:
        stack: what the ranks communicate with.
        present: the environment as it is.
        candidates: the settings of the stack, the fastest prediction first.
        envelope_s: predicted with the best protocol for each pair and size, which no setting of the
            stack chooses: a bound.
        pairs: the pairs with most bytes.
        tried: names of the candidates that were clocked.
        clocked: their runs; None: nothing was run.
        recommended: what was verified to be faster; None: nothing.
        notes: what a reader must know.
    """

    stack: Stack
    present: Prediction
    candidates: tuple[Prediction, ...]
    envelope_s: float | None
    pairs: tuple[PairNote, ...] = ()
    tried: tuple[str, ...] = ()
    clocked: ClockedResult | None = None
    recommended: Setting | None = None
    notes: tuple[str, ...] = ()

    @property
    def promising(self) -> tuple[Prediction, ...]:
        """Candidates that are predicted to save at least `LEAST_GAIN`, and can be tried."""
        return tuple(
            each for each in self.candidates if not each.lacking and (each.gain or 0.0) > LEAST_GAIN
        )
