"""The state of a machine: how it is wired, what is wrong, what a better order could gain."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

from toposeat.model.quantity import WORTH_SAYING, Premises
from toposeat.model.record import Record
from toposeat.model.transport import Transport


class Severity(StrEnum):
    """How bad a finding is, worst last: FAULT makes a machine unhealthy, UNTOLD incomplete."""

    OK = "ok"
    INFO = "info"  # worth knowing
    DOUBT = "doubt"  # may be wrong, or intended
    UNTOLD = "untold"  # not known, and it may decide which order is good
    FAULT = "fault"  # broken, degraded or out of reach


class Verdict(StrEnum):
    """The conclusion about a machine."""

    HEALTHY = "healthy"
    INCOMPLETE = "incomplete"  # a fact that decides is untold: nothing is proved
    UNHEALTHY = "not healthy"


class Shape(StrEnum):
    """How the devices of a machine are joined, as far as the order of ranks is concerned."""

    SINGLE = "single"  # one device
    UNIFORM = "uniform"  # every pair alike
    PAIRED = "paired"  # device links join two and two
    CROSSED = "crossed"  # device links join other pairs than PCIe does
    ISLANDS = "islands"  # groups of more than two, alike inside
    MESH = "mesh"  # device links join all, unequally or not directly
    SWITCHED = "switched"  # PCIe switches make some pairs nearer
    SPLIT = "split"  # only host bridges and sockets make some pairs nearer
    UNKNOWN = "unknown"  # the source says nothing of pairs


class Finding(Record, frozen=True, kw_only=True):
    """One thing that `doctor` has checked.

    `code` is stable over versions, `subject` is what it is about (a device as `D3`, a NIC's name, a
    variable; "" for the whole machine), `hint` is what to do ("" where nothing is to be done).
    """

    severity: Severity
    code: str
    subject: str
    detail: str
    hint: str = ""


class Wiring(Record, frozen=True, kw_only=True):
    """The shape of one machine, and a sentence that gives the reason."""

    shape: Shape
    reason: str


class PossibleGain(Record, frozen=True, kw_only=True):
    """What the best placement found saves of the default's time for one pattern; all predicted.

    `kind` is the kind of job that the pattern stands for.
    `bound_s` is a time that no placement can beat with nominal numbers, None where none is known;
    `proved` says whether the best found is the best in every scenario.
    `device_of_rank` is the best found: positions in `Topology.devices`.
    """

    pattern: str
    kind: str
    default_s: float
    placed_s: float
    bound_s: float | None
    proved: bool
    device_of_rank: tuple[int, ...]
    premises: Premises | None = None

    @property
    def share(self) -> float:
        """Share of the default's time that the best placement found saves, 0 to 1."""
        return 1 - self.placed_s / self.default_s if self.default_s > 0 else 0.0

    @property
    def share_bound(self) -> float | None:
        """Largest share of the default's time that any placement could save, 0 to 1."""
        doubt = self.premises is not None and self.premises.is_doubtful
        if self.proved:
            return self.premises.gain_range[1] if self.premises else self.share
        if doubt or self.bound_s is None or self.default_s <= 0:
            return None
        return max(self.share, 1 - self.bound_s / self.default_s)


TOLERANCE = 1e-9  # of shares that are computed in another order


class OrderEffect(Record, frozen=True, kw_only=True):
    """What an order saves of the default's time for one kind of job; below 0 it is slower.

    `ranges` are the least and the largest share of each pattern that stands for the kind, over all
    machines that the sources allow; predicted.
    """

    kind: str
    patterns: tuple[str, ...]
    ranges: tuple[tuple[float, float], ...]

    @property
    def low(self) -> float:
        """The least share of all patterns."""
        return min(low for low, _ in self.ranges)

    @property
    def high(self) -> float:
        """The largest share of all patterns."""
        return max(high for _, high in self.ranges)

    @property
    def middle(self) -> float:
        """The mean of all patterns, each between its two shares."""
        return sum(low + high for low, high in self.ranges) / 2 / len(self.ranges)

    @property
    def slower(self) -> tuple[tuple[float, float], ...]:
        """Those of the patterns for which the order is or may be slower."""
        return tuple(each for each in self.ranges if each[0] < -TOLERANCE)

    @property
    def faster(self) -> tuple[tuple[float, float], ...]:
        """Those of the patterns for which it saves, or may save, what is worth saying."""
        return tuple(each for each in self.ranges if each[1] >= WORTH_SAYING)

    @property
    def is_gain(self) -> bool:
        """Whether it is slower for no pattern, and saves what is worth saying for one."""
        return bool(self.faster) and not self.slower


class JobOrder(Record, frozen=True, kw_only=True):
    """An order of ranks that is worth a line, and what it does to each kind of job.

    `kinds` are those that the line is for: none where it is slower for no kind, and so for all.
    `device_of_rank` has positions in `Topology.devices`.
    """

    device_of_rank: tuple[int, ...]
    effects: tuple[OrderEffect, ...]
    kinds: tuple[str, ...] = ()

    @property
    def saves(self) -> tuple[OrderEffect, ...]:
        """What it saves for the kinds that the line is for."""
        return tuple(
            each
            for each in self.effects
            if each.is_gain and (not self.kinds or each.kind in self.kinds)
        )

    @property
    def costs(self) -> tuple[OrderEffect, ...]:
        """The kinds for which it is or may be slower than the default."""
        return tuple(each for each in self.effects if each.slower)


class Health(Record, frozen=True, kw_only=True):
    """The whole verdict on a machine.

    `wiring` is None where there is no machine; `gains` are by pattern, the largest first; `orders`
    are those worth a line, that for all kinds of jobs first; `transport` is that of a group of all
    devices. `findings` are about the machine, `node` about the software and environment of the
    node.
    """

    wiring: Wiring | None = None
    gains: tuple[PossibleGain, ...] = ()
    orders: tuple[JobOrder, ...] = ()
    transport: Transport | None = None
    findings: tuple[Finding, ...] = ()
    node: tuple[Finding, ...] = ()

    @property
    def severity(self) -> Severity:
        """The worst of all findings."""
        return worst((*self.findings, *self.node))

    @property
    def verdict(self) -> Verdict:
        """The conclusion from the worst finding."""
        words = {Severity.FAULT: Verdict.UNHEALTHY, Severity.UNTOLD: Verdict.INCOMPLETE}
        return words.get(self.severity, Verdict.HEALTHY)


def worst(findings: Iterable[Finding]) -> Severity:
    """The worst severity among findings; OK where there is none."""
    order = list(Severity)
    return max((f.severity for f in findings), key=order.index, default=Severity.OK)
