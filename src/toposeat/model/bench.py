"""What a communication microbenchmark found: times of several orders of the devices."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum


class BenchSource(StrEnum):
    """Where the times are from. They are never mixed in one result."""

    MEASURED = "measured"  # wall time of a real MPI job
    PREDICTED = "predicted"  # this project's flow model


class BenchOrder(StrEnum):
    """Which order of the devices a run used."""

    DEFAULT = "default"
    AGAIN = "default again"  # the control: whatever differs from `default` is noise
    PLACED = "placed"
    RANDOM = "random"


@dataclass(frozen=True, kw_only=True, slots=True)
class BenchRun:
    """One run over all sizes; runs of one `repeat` ran one after the other.

    `seconds[i]` is the time of one exchange of size i: of the slowest rank, and the median over the
    samples of the run.
    """

    order: BenchOrder
    device_of_rank: tuple[int, ...]
    repeat: int
    seconds: tuple[float, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Gain:
    """Share of the default's time that another order saves (negative: it is slower).

    `low` and `high` are the 95 % interval of the mean over `count` pairs; None for a single one.
    """

    mean: float
    deviation: float | None = None
    low: float | None = None
    high: float | None = None
    count: int = 1


@dataclass(frozen=True, kw_only=True, slots=True)
class BenchRow:
    """One message size. Seconds are means over repeats; `control` is the default against itself."""

    bytes: int
    default_s: float
    placed_s: float
    placed: Gain
    random: Gain | None = None
    control: Gain | None = None
    # By the flow model, beside measured times: the gain, and seconds of both orders.
    predicted: float | None = None
    predicted_default_s: float | None = None
    predicted_placed_s: float | None = None

    @property
    def is_noise(self) -> bool:
        """Whether repeats cannot tell the placed order from the default.

        The interval has zero in it, or the control found as much between two equal runs.
        """
        gain, control = self.placed, self.control
        if gain.low is None or gain.high is None:
            return False
        if gain.low <= 0 <= gain.high:
            return True
        return control is not None and abs(control.mean) >= abs(gain.mean)


@dataclass(frozen=True, kw_only=True)
class BenchResult:
    """All sizes of one pattern on one machine."""

    pattern: str
    ranks: int
    topology: str
    source: BenchSource
    device_of_rank: tuple[int, ...]  # placed
    rows: tuple[BenchRow, ...]
    runs: tuple[BenchRun, ...]
    repeats: int
    randoms: int
    buffers: str = ""
    algorithm: str = ""  # of a collective, by the flow model
    mpi: str = ""
    host: str = ""
    started_at: str = ""
    command: tuple[str, ...] = ()  # of the default order; empty where nothing was run
    notes: tuple[str, ...] = field(default_factory=tuple)

    @property
    def is_default_kept(self) -> bool:
        """Whether the placed order is the default's."""
        default = next(run for run in self.runs if run.order is BenchOrder.DEFAULT)
        return default.device_of_rank == self.device_of_rank
