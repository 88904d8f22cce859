"""Runs: what a program took with several orders or settings, what each rank got, how it goes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from math import prod
from types import MappingProxyType

from msgspec import field

from toposeat.model.record import Record


class ClockedOrder(Record, frozen=True, kw_only=True):
    """One candidate's runs, in the order of the repeats.

    `seconds` are each > 0; `gain` is against the baseline's runs of the same repeat, `predicted`
    what the flow model expects of it (link time only); None where nothing was predicted.
    """

    name: str
    seconds: tuple[float, ...]
    gain: Gain
    predicted: float | None = None


class ClockedResult(Record, frozen=True, kw_only=True):
    """Runs of a launch line that took turns: baseline, each candidate, baseline again.

    Attributes:
        what: which time it is, in words.
        command: the launch line as the user typed it.
        default_s, again_s: the baseline's two runs of every repeat.
        control: the second against the first; whatever differs from 0 is noise.
        orders: one entry per candidate.
        emulated: name of the stand-in machine the runs were on; empty on a real one.
        notes: what a reader of the numbers must know.
        baseline: name of what the candidates are compared with.
        predicted_s: link time of what is clocked, predicted for the baseline and each candidate;
            empty where it is not known how much of the program a run is.
    """

    what: str
    command: tuple[str, ...]
    host: str
    started_at: str
    default_s: tuple[float, ...]
    again_s: tuple[float, ...]
    control: Gain
    orders: tuple[ClockedOrder, ...]
    emulated: str = ""
    notes: tuple[str, ...] = ()
    baseline: str = "default"
    predicted_s: tuple[float, ...] = ()

    def is_noise(self, order: ClockedOrder) -> bool:
        """Whether the repeats cannot tell a candidate from the baseline."""
        gain = order.gain
        if gain.low is None or gain.high is None:
            return True
        return gain.low <= 0 <= gain.high or abs(self.control.mean) >= abs(gain.mean)


class Gain(Record, frozen=True, kw_only=True):
    """Share of the default's time that another order saves (negative: it is slower).

    `low` and `high` are the 95 % interval of the mean over `count` pairs; None for a single one.
    """

    mean: float
    deviation: float | None = None
    low: float | None = None
    high: float | None = None
    count: int = 1


class ClockedPattern(Record, frozen=True, kw_only=True):
    """All message sizes of one pattern on one machine: the microbenchmark program in turns.

    Attributes:
        pattern, ranks, topology: what was run, and on what.
        device_of_rank: of the placed order, the first of each result's orders.
        is_default_kept: the placed order is the default's.
        randoms: how many random orders took turns in the second of the orders, if there is one.
        buffers: host or device.
        algorithm: of a collective, in the prediction; the MPI chose its own.
        mpi: what ran it.
        sizes, results: bytes of a message, and one result for each.
        notes: what a reader of the numbers must know.
    """

    pattern: str
    ranks: int
    topology: str
    device_of_rank: tuple[int, ...]
    is_default_kept: bool
    randoms: int
    buffers: str
    algorithm: str
    mpi: str
    sizes: tuple[int, ...]
    results: tuple[ClockedResult, ...]
    notes: tuple[str, ...] = ()


# By collective the names of its algorithms in the flow model and the simulator; default first.
COLLECTIVES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "alltoall": ("linear", "pairwise", "bruck"),
        "allgather": ("ring", "bruck", "recursive-doubling"),
        "allreduce": ("ring", "recursive-doubling"),
        "bcast": ("binomial",),
    }
)


class GridExchange(Record, frozen=True, kw_only=True):
    """A pattern string taken apart. The grid is row-major: the first dimension varies slowest.

    A collective (`COLLECTIVES`) runs in every line of the grid along its first dimension at once.
    `name` is the pattern's, `bytes` the message size that its text asks for. A message of a halo is
    `layers` times the size; messages along the first dimension are `weight` times it.
    """

    name: str
    grid: tuple[int, ...]
    bytes: int
    wrap: bool = False
    diagonals: bool = False
    weight: float = 1.0
    layers: int = 1

    @property
    def ranks(self) -> int:
        """How many ranks take part."""
        return prod(self.grid)

    @property
    def is_collective(self) -> bool:
        """Whether an MPI's own algorithm decides who sends what to whom."""
        return self.name in COLLECTIVES

    @property
    def groups(self) -> tuple[tuple[int, ...], ...]:
        """The ranks of each line along the first dimension, in the order of its communicator."""
        stride = self.ranks // self.grid[0]
        return tuple(tuple(range(first, self.ranks, stride)) for first in range(stride))

    def text(self, size: int | None = None) -> str:
        """The pattern string, with `bytes=size` if a size is given."""
        words = [f"{self.name}:{'x'.join(map(str, self.grid))}"]
        if self.diagonals:
            words.append("diagonals")
        if self.wrap and self.name != "halo":
            words.append("wrap")
        if self.weight != 1:
            words.append(f"weight={self.weight!r}")
        if self.name == "halo":
            words.append(f"layers={self.layers}")
        if size is not None:
            words.append(f"bytes={size}")
        return ",".join(words)


class SeatVerdict(StrEnum):
    """Outcome of comparing what a rank got with what it was promised."""

    AS_PLACED = "as placed"
    MISMATCH = "mismatch"
    LOST = "lost its device"  # which it had borrowed
    NOT_CHECKED = "not checked"  # no evidence either way, e.g. no GPU driver to ask


class RealisedSeat(Record, frozen=True, kw_only=True):
    """One rank as seen from inside it."""

    rank: int
    host: str = ""
    local_rank: int | None = None
    pid: int | None = None
    pci_bus_id: str | None = None
    visible_devices: str | None = None  # the visibility variable's value
    cpus: str | None = None
    memory_policy: str | None = None  # e.g. "bind:0", "default"
    nic: str | None = None
    verdict: SeatVerdict = SeatVerdict.NOT_CHECKED
    used_device: bool | None = None  # by its driver; None where that could not be asked
    differences: tuple[str, ...] = ()


def verdict_of_job(seats: Sequence[RealisedSeat]) -> SeatVerdict | None:
    """One verdict for all ranks: as placed only if that is sure of each; None without any.

    A rank that used no device has nothing to prove.
    """
    if not seats:
        return None
    if any(seat.verdict is SeatVerdict.MISMATCH for seat in seats):
        return SeatVerdict.MISMATCH
    sure = all(seat.verdict is SeatVerdict.AS_PLACED or seat.used_device is False for seat in seats)
    return SeatVerdict.AS_PLACED if sure else SeatVerdict.NOT_CHECKED


class RunRecord(Record, frozen=True, kw_only=True):
    """One `toposeat run`: command, environment, realised placement, wall time, exit code.

    `verdict` is that of the job; None where no rank was asked.
    """

    command: tuple[str, ...]
    launched: tuple[str, ...]  # the exact line that was started
    placement: str  # path of the placement file; empty where the launcher alone placed ranks
    visibility: str
    host: str
    started_at: str  # ISO 8601, UTC
    wall_s: float
    exit_code: int
    environment: Mapping[str, str] = field(default_factory=dict)
    verdict: SeatVerdict | None = None
    seats: tuple[RealisedSeat, ...] = ()
    repeats: int = 1
    notes: tuple[str, ...] = ()
    launch_files: Mapping[str, str] = field(default_factory=dict)  # that the line reads, by name
