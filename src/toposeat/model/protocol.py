"""Which way an MPI stack moves device messages, and what could change it."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING

from msgspec import Struct

from toposeat.model.route import CopyProtocol

if TYPE_CHECKING:
    from toposeat.model.runs import ClockedResult


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


class Statement(Struct, frozen=True):
    """A statement about a stack: how sure it is, and where it is from."""

    text: str
    basis: Basis
    source: str = ""


class ProtocolRule(Struct, frozen=True, kw_only=True):
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


class Setting(Struct, frozen=True, kw_only=True):
    """Variables that make a stack move data in another way.

    `name` is short, for tables; `source` says where the variables are documented; `caution` what a
    user should know before setting them, "" if nothing.
    """

    name: str
    variables: Mapping[str, str]
    rule: ProtocolRule
    source: str = ""
    caution: str = ""


class Stack(Struct, frozen=True, kw_only=True):
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


class Advice(Struct, frozen=True, kw_only=True):
    """What could be set, what was run, and what follows.

    Attributes:
        stack: what the ranks communicate with.
        skipped: why a setting of the stack cannot be tried, by its name.
        clocked: runs of all others; None: nothing was run.
        recommended: what was verified to be faster; None: nothing.
    """

    stack: Stack
    skipped: Mapping[str, str]
    clocked: ClockedResult | None = None
    recommended: Setting | None = None

    @property
    def tried(self) -> tuple[Setting, ...]:
        """The settings that can be tried."""
        return tuple(each for each in self.stack.settings if each.name not in self.skipped)
