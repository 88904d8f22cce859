"""What runs of one program took with several placements or settings."""

from __future__ import annotations

from dataclasses import dataclass

from toposeat.model.bench import Gain


@dataclass(frozen=True, kw_only=True, slots=True)
class ClockedOrder:
    """One candidate's runs, in the order of the repeats.

    `seconds` are each > 0; `gain` is against the baseline's runs of the same repeat, `predicted`
    what the flow model expects of it (link time only); None where nothing was predicted.
    """

    name: str
    seconds: tuple[float, ...]
    gain: Gain
    predicted: float | None = None


@dataclass(frozen=True, kw_only=True)
class ClockedResult:
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

    def __post_init__(self) -> None:
        if self.predicted_s and len(self.predicted_s) != 1 + len(self.orders):
            raise ValueError("a predicted time for the baseline and each candidate, or none")

    def is_noise(self, order: ClockedOrder) -> bool:
        """Whether the repeats cannot tell a candidate from the baseline."""
        gain = order.gain
        if gain.low is None or gain.high is None:
            return True
        return gain.low <= 0 <= gain.high or abs(self.control.mean) >= abs(gain.mean)
