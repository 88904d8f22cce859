"""What a home knows of its job: whether ranks start, each node's seats, its files."""

from __future__ import annotations

import errno
import os
import re
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import BinaryIO

from toposeat.model.hostlist import short_name
from toposeat.model.record import Record
from toposeat.model.topology import ANY_HOST

_MAX_NAMELESS = 64
# After the first rank that cannot be seated the others may still say the same, for one message.
_GATHERING_S = 0.3
# Ranks that never connect: their nodes cannot reach this host, or the job is smaller than its plan.
PATIENCE_S = 20.0
_STRICT_PATIENCE_S = 6.0  # less than nodes wait for home: the verdict comes before they end


class Decision(Enum):
    """Whether the ranks of a job were told to start."""

    OPEN = "open"
    GO = "go"
    STOP = "stop"


class Verdicts(Record, frozen=True, kw_only=True):
    """What the ranks of a job said before it started.

    `reports` are the seat reports by rank, those of `unseated` ranks included; `nameless` are
    reports of processes that do not know their rank.
    """

    reports: Mapping[int, str]
    unseated: frozenset[int]
    nameless: tuple[str, ...]


class StartDecision:
    """Hears ranks, and decides at `due`, a time of `time.monotonic`; None: not yet.

    So many `ranks` have to be heard; None starts nobody. If `strict`, a job is refused of which not
    every one was.
    """

    def __init__(self, ranks: int | None, *, strict: bool) -> None:
        self._ranks, self._strict = ranks, strict
        self._reports: dict[int, str] = {}
        self._unseated: set[int] = set()
        self._nameless: list[str] = []
        self.decision = Decision.OPEN
        self.due: float | None = None

    @property
    def verdicts(self) -> Verdicts:
        """What was heard so far."""
        return Verdicts(
            reports=dict(self._reports),
            unseated=frozenset(self._unseated),
            nameless=tuple(self._nameless),
        )

    def knows(self, rank: int) -> bool:
        """Whether it is a rank of this job."""
        return self._ranks is not None and rank < self._ranks

    def hear(self, rank: int, report: str, *, seated: bool) -> None:
        """Take the report of a process, and set when to decide."""
        if rank in self._reports and seated:
            pass  # it is started anew; what it said first stays
        elif self.knows(rank) and rank not in self._reports:
            self._reports[rank] = report
            if not seated:
                self._unseated.add(rank)
        elif len(self._nameless) < _MAX_NAMELESS:
            self._nameless.append(report)
        if self.decision is not Decision.OPEN:
            return
        now = time.monotonic()
        if len(self._reports) == self._ranks:
            self.due = now
        elif self._unseated or self._nameless:
            soon = now + _GATHERING_S
            self.due = soon if self.due is None else min(self.due, soon)
        else:
            self.due = now + (_STRICT_PATIENCE_S if self._strict else PATIENCE_S)

    def decide(self) -> Decision:
        """What to tell the ranks; once."""
        self.due = None
        missing = len(self._reports) != self._ranks
        refused = bool(self._unseated or self._nameless) or (missing and self._strict)
        self.decision = Decision.STOP if refused else Decision.GO
        return self.decision


MAX_WORLD_BYTES = 600
_WORLD = re.compile(rb"([0-9]{1,9}) .*", re.ASCII | re.DOTALL)
_PATIENCE_S = 10.0  # after the last rank: MPI_Init returns at about the same time everywhere
_LONGEST_S = 60.0  # after the first one; nodes wait for twice as long


class Presence:
    """Hears the ranks of one MPI_COMM_WORLD, and decides at `due`; see `StartDecision`.

    Either all of them can be reordered or none is (`reorder/src/presence.h`).

    Attributes:
        decision: GO once all ranks were heard; never later than nodes wait for it.
        missing: how many ranks were not; None where ranks are there that are too many.
    """

    def __init__(self) -> None:
        self._world = b""
        self._heard: set[int] = set()
        self._end = 0.0
        self.missing: int | None = 0
        self.decision = Decision.OPEN
        self.due: float | None = None

    def hear(self, rank: int, world: bytes, *, may_speak: bool) -> bool:
        """Take one rank in, and set when to decide; whether it is one of this world.

        Args:
            rank: its number, of which each is heard once.
            world: the number of ranks, a blank, and what the world is called.
            may_speak: it comes from where that rank is.

        Raises:
            ValueError: `world` is something else.
        """
        size = _WORLD.fullmatch(world)
        if size is None:
            raise ValueError
        if self.decision is not Decision.OPEN or (self._world and world != self._world):
            return False
        now = time.monotonic()
        if not self._world:
            self._world, self._end = world, now + _LONGEST_S
        if not may_speak or rank in self._heard or rank >= int(size[1]):
            self.missing = None
        self._heard.add(rank)
        if self.missing is not None:
            self.missing = int(size[1]) - len(self._heard)
        self.due = min(now + _PATIENCE_S, self._end) if self.missing else now
        return True

    def decide(self) -> None:
        """Make up one's mind."""
        self.due = None
        self.decision = Decision.GO if self.missing == 0 else Decision.STOP


_OF_ALL = (b"vendor:", b"costs:")  # what the launcher reads of the other `#` lines
_DEVICES = b"devices "


class PlacementParts:
    """The text of a placement file, taken apart by host."""

    def __init__(self, text: bytes) -> None:
        first, *lines = (line + b"\n" for line in text.splitlines())
        head: list[bytes] = []
        seats: dict[str, list[bytes]] = {}
        self._ranks: dict[str, set[int]] = {}
        self._devices: dict[str, list[bytes]] = {}
        for line in lines:
            if not line.startswith(b"#"):
                self._add_seat(line, head, seats)
            elif line[1:].strip().startswith(_DEVICES):
                host = line[1:].strip().removeprefix(_DEVICES).partition(b":")[0]
                self._devices.setdefault(_name(host), []).append(line)
            elif line[1:].strip().startswith(_OF_ALL):
                head.append(line)
        count = sum(len(own) for own in self._ranks.values())
        self._head = b"".join((first, b"# part: %d\n" % count, *head))
        self._seats = {host: b"".join(own) for host, own in seats.items()}

    def _add_seat(self, line: bytes, head: list[bytes], seats: dict[str, list[bytes]]) -> None:
        cells = line.split(b"\t", 2)
        if not cells[0].strip().isdigit():
            head.append(line)  # the names of the columns
            return
        host = _name(cells[1])
        seats.setdefault(host, []).append(line)
        self._ranks.setdefault(host, set()).add(int(cells[0]))

    def of(self, names: Iterable[str]) -> tuple[bytes, frozenset[int]]:
        """The text for a node that goes by these names, and the ranks in it.

        A name that two hosts share but for their domains gives the lines of both: the node tells
        which are its own.
        """
        hosts = dict.fromkeys((ANY_HOST, *(short_name(each) for each in names)))
        devices = [line for host in hosts for line in self._devices.get(host, ())]
        ranks = frozenset[int]().union(*(self._ranks.get(host, set()) for host in hosts))
        found = [self._seats[host] for host in hosts if host in self._seats]
        seats = found[0] if len(found) == 1 else b"".join(_in_rank_order(found))
        return self._head + b"".join(devices) + seats, ranks


def _in_rank_order(parts: list[bytes]) -> list[bytes]:
    lines = [line for part in parts for line in part.splitlines(keepends=True)]
    return sorted(lines, key=lambda line: int(line.partition(b"\t")[0]))


def _name(host: bytes) -> str:
    return short_name(host.decode("ascii", "replace").strip())


MAX_NAME_BYTES = 128
_LEAST_FREE = 1 << 26  # of the file system, for everybody else


class Expected(Record, frozen=True, kw_only=True):
    """What a job may send home.

    Attributes:
        name: what the names match; a group `rank` is the rank that a file speaks for.
        ranks: of the job; names with another rank are refused. None where they are not known.
        max_bytes: of one file.
        max_all_bytes: of all together.
        max_files: of one sender.
        by_sender: files are kept as `N-NAME`, where N counts senders: two nodes may send one name.
    """

    name: re.Pattern[str]
    ranks: int | None = None
    max_bytes: int = 1 << 18
    max_all_bytes: int = 1 << 30
    max_files: int = 1 << 16
    by_sender: bool = False


@dataclass
class Arriving:
    """A file that is being received; without `file` it is read and dropped."""

    remaining: int
    name: str
    file: BinaryIO | None = None


class HomeFiles:
    """The folder where files arrive, this process's own, and what it still takes: None, nothing.

    Nothing there is ever replaced.
    """

    def __init__(self, folder: Path, expected: Expected | None) -> None:
        self._folder, self._expected = folder, expected
        self._bytes_left = 0 if expected is None else expected.max_all_bytes
        self._count = 0
        self._senders: dict[str, int] = {}
        self._files_of: dict[str, int] = {}
        self.lost: Counter[str] = Counter()  # files that this host could not keep, by cause

    @property
    def most_bytes(self) -> int:
        """More than this no file has."""
        return 0 if self._expected is None else self._expected.max_bytes

    def rank_of(self, name: bytes) -> int | None:
        """The rank that a file of this name speaks for, None where it speaks for none."""
        match = self._match(name)
        return int(match["rank"]) if match and "rank" in match.groupdict() else None

    def begin(self, name: bytes, length: int, sender: str) -> Arriving:
        """A file of `length` bytes; one that cannot be kept is read to its end, then denied."""
        arriving = Arriving(length, name.decode("ascii", "replace"))
        count = self._files_of.get(sender, 0)
        expected = self._expected
        if expected is None or not self._match(name) or count >= expected.max_files:
            return arriving
        if length > min(self._bytes_left, expected.max_bytes):
            return arriving
        if not self._has_room(length):
            self.lost[os.strerror(errno.ENOSPC)] += 1
            return arriving
        if expected.by_sender:
            number = self._senders.setdefault(sender, len(self._senders))
            arriving.name = f"{number}-{arriving.name}"
        self._files_of[sender] = count + 1
        self._bytes_left -= length
        self._count += 1
        with suppress(OSError):
            arriving.file = (self._folder / f".bundle-{self._count}").open("xb")
        return arriving

    def _match(self, name: bytes) -> re.Match[str] | None:
        if self._expected is None:
            return None
        match = self._expected.name.fullmatch(name.decode("ascii", "replace"))
        ranks = self._expected.ranks
        if match and ranks is not None and "rank" in match.groupdict():
            return match if int(match["rank"]) < ranks else None
        return match

    def _has_room(self, length: int) -> bool:
        try:
            free = os.statvfs(self._folder)
        except OSError:
            return False
        return length + _LEAST_FREE <= free.f_bavail * free.f_frsize

    def add(self, arriving: Arriving, part: bytes | bytearray) -> None:
        """Write what has come."""
        arriving.remaining -= len(part)
        if arriving.file is not None:
            try:
                arriving.file.write(part)
            except OSError as error:  # the disk is full
                self.lost[os.strerror(error.errno or errno.EIO)] += 1
                self.abandon(arriving)

    def finish(self, arriving: Arriving) -> bool:
        """Give a file that is whole its name, if nothing has it; whether it is kept."""
        if arriving.file is None:
            return False
        try:
            arriving.file.close()
            _give_name(Path(arriving.file.name), self._folder / arriving.name)
        except OSError:
            return False
        finally:
            self.abandon(arriving)
        return True

    @staticmethod
    def abandon(arriving: Arriving) -> None:
        """Remove a file that does not become whole."""
        if arriving.file is not None:
            with suppress(OSError):
                arriving.file.close()
            Path(arriving.file.name).unlink(missing_ok=True)
            arriving.file = None


def _give_name(file: Path, name: Path) -> None:
    """Give a file a name that nothing else has.

    Raises:
        OSError: something has it.
    """
    try:
        os.link(file, name, follow_symlinks=False)
    except OSError as error:
        if error.errno not in (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS) or name.exists():
            raise
        file.rename(name)  # a file system without such links
