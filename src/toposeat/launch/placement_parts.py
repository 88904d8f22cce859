"""The lines of a placement that each node of a job needs: its own, and what concerns all."""

from __future__ import annotations

from collections.abc import Iterable

from toposeat.model.hostlist import short_name
from toposeat.model.topology import ANY_HOST

_OF_ALL = (b"vendor:", b"costs:")  # what the launcher reads of the other `#` lines
_DEVICES = b"devices "


class PlacementParts:
    """A placement file, taken apart by host.

    Args:
        text: the file, as `placement_file` writes it.
    """

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
