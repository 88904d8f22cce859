"""The ledger of a job: what its line asks for, and what was heard of what it started.

A verdict on a job that went wrong is read off it: the first entry that does not add up, and nothing
that is not known. A launcher that ended says why in its own words.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from msgspec import field

from toposeat.errors import ToposeatError
from toposeat.launch.allocation import ranks_asked
from toposeat.launch.home import Home
from toposeat.launch.home_wire import PORTS_VARIABLE
from toposeat.launch.launchers.launcher import LaunchLine, version_of
from toposeat.launch.line import torchrun_below
from toposeat.model.plural import plural
from toposeat.model.record import Record

REFUSED_ON_NODES = 125  # what toposeat-exec ends with where it starts nothing
OPEN_PORTS = f"let that port through, or name open ones of this host: {PORTS_VARIABLE}=FROM-TO"


class Fault(Record, frozen=True):
    """An entry that does not add up, and what to do about it; "" where that is not sure."""

    cause: str
    hint: str = ""


class Ledger(Record, frozen=True, kw_only=True):
    """What is known of a job that has ended.

    Attributes:
        line: what was started.
        exit_code: of the launcher.
        address: where the job's processes were to report, in words; "" nowhere but on this node.
        heard: whether any of them has.
        lost: files that came and could not be kept, by cause.
    """

    line: LaunchLine
    exit_code: int
    address: str = ""
    heard: bool = True
    lost: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, line: LaunchLine, exit_code: int, home: Home | None) -> Ledger:
        """The ledger of a job whose home is closed; it has none where all of it is on this node."""
        if home is None:
            return cls(line=line, exit_code=exit_code)
        port, _, addresses = home.words.split(":", 2)
        return cls(
            line=line,
            exit_code=exit_code,
            address="" if addresses.startswith("/") else f"{addresses}, port {port}",
            heard=home.heard,
            lost=home.lost,
        )

    @property
    def starter(self) -> str:
        """What was started, by name."""
        return (self.line.launcher or self.line.program)[0]

    def ended(self) -> Fault | None:
        """Where the launcher failed before any process of the job had spoken."""
        if self.heard or self.exit_code == 0:
            return None
        return Fault(
            f"{self.starter} ended with exit code {self.exit_code} before any process of the job"
            " spoke",
            "what it said is above",
        )

    def unreached(self) -> Fault | None:
        """Where processes that speak when they start have not been heard."""
        if self.heard or not self.address:
            return None
        return Fault(f"no node has reached this host at {self.address}", OPEN_PORTS)

    def not_kept(self, folder: Path) -> Fault | None:
        """Where files came home and this host had no room for them."""
        for cause, count in self.lost.items():
            return Fault(
                f"{plural(count, 'file')} of the job could not be kept on this host, in"
                f" {folder.parent}: {cause}",
                "make room there",
            )
        return None


def worlds_fault(
    line: LaunchLine, ranks: int, environment: Mapping[str, str], *, alone: int = 0
) -> Fault | None:
    """Where the world of a program is smaller than its line asks for.

    Args:
        line: what was started.
        ranks: of the largest world.
        environment: of the job, which may say how many ranks the line starts.
        alone: how many processes were a world of one rank each, if all were.
    """
    line = torchrun_below(line) or line
    asked = ranks_asked(line, environment)
    if ranks >= (asked or alone):
        return None
    asks = f"the line starts {asked} ranks" if asked else f"{alone} processes were heard"
    if ranks > 1:
        return Fault(
            f"{asks}, and the largest world of the program had {ranks}",
            f"start {ranks}, if that is what is meant",
        )
    starter = line.launcher[0] if line.launcher else line.kind
    return Fault(
        f"{asks}, and each was a world of its own: the program's MPI does not know {starter}",
        line.family.singletons,
    )


def deciding_worlds(line: LaunchLine, environment: Mapping[str, str]) -> tuple[str, ...]:
    """What decides, beside the program, of what worlds the ranks of a line are."""
    line = torchrun_below(line) or line
    if line.family.worlds is not None:
        return line.family.worlds(line, environment)
    return tuple(map(str, version_of(line.launcher[0]))) if line.family.answer else ()


def refuse_fewer(
    line: LaunchLine, ranks: int, environment: Mapping[str, str], *, alone: int = 0
) -> None:
    """Refuse such a world: what is planned for it would start fewer ranks."""
    fault = worlds_fault(line, ranks, environment, alone=alone)
    if fault is not None:
        raise ToposeatError(fault.cause, hint=fault.hint)
