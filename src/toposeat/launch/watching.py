"""What ranks tell while their job runs: a difference from the plan is said when it is known."""

from __future__ import annotations

import os
import signal
import socket
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from toposeat.launch.child import ChildWatch
from toposeat.launch.realise import Realisation
from toposeat.launch.verification import difference_so_far, rank_so_far, read_reports

_LAST_REPORTS_S = 5.0


class Watch(ChildWatch):
    """Reads what comes into the folder of a job's reports as long as it runs; used as a context.

    The first difference is said in one line. With `strict` the job is ended where a rank's driver
    has taken a list without its device, which nothing can mend: its launcher gets SIGTERM and all
    the time that it takes.

    Args:
        folder: where the rank probe's reports are.
        plan: what the ranks are held against.
        seats: the seat reports that came home, by rank; those in the folder count without it.
        strict: end the job.
        tell: what says a line.
    """

    def __init__(
        self,
        folder: Path,
        plan: Realisation,
        *,
        seats: Callable[[], Mapping[int, str]],
        strict: bool,
        tell: Callable[..., None] | None,
    ) -> None:
        super().__init__()
        self._folder, self._plan, self._seats = folder, plan, seats
        self._strict, self._tell = strict, tell
        self._seen: set[str] = set()
        self._said = False

    def look(self) -> None:
        """Judge what has come since."""
        names = {name for name in os.listdir(self._folder) if name.endswith(".probe")}  # noqa: PTH208
        for name in sorted(names - self._seen):
            self._seen.add(name)
            if not self.has_ended and not name.startswith("."):
                self._judge(self._folder / name)

    def _judge(self, path: Path) -> None:
        found = rank_so_far(path, self._seats())
        if found is None:
            return
        slot, own = found
        difference, is_final = difference_so_far(self._plan.seating, slot, own)
        ends = is_final and self._strict and self.may_end
        if not difference or (self._said and not ends):
            return
        self._said = True
        ending = "; --strict ends the job: its launcher gets SIGTERM" if ends else ""
        if self._tell is not None:
            self._tell(f"Rank {self._plan.rank_of(slot)}: {difference}{ending}")
        if ends:
            self.end(signal.SIGTERM)


def wait_for_last_reports(folder: Path) -> None:
    """Wait a moment for ranks of this node that outlive the program that has started them.

    Nobody waits for the workers of a script that starts its ranks itself but that script, if it
    does; what such a rank had in the end it tells when it ends.
    """
    own = read_reports(folder).ranks.values()
    here = [each for each in own if each.value("host") == socket.gethostname()]
    pids = {int(pid) for each in here if (pid := each.value("pid")) and pid.isdecimal()}
    deadline = time.monotonic() + _LAST_REPORTS_S
    while any(map(_is_alive, pids)) and time.monotonic() < deadline:
        time.sleep(0.02)


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except OSError:  # it has ended, or another user's has its number
        return False
    return True
