"""`borrow`: a job whose ranks use lent devices as if they were local, and the proof that they did.

Every rank is started by toposeat-exec, which points the OpenCL loader to our library and that to
the rank's devices. The library leaves a report of what it reached, and how fast that was.
"""

from __future__ import annotations

import os
import socket
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from ipaddress import ip_address
from pathlib import Path

from msgspec import Struct, ValidationError
from msgspec.json import decode

from toposeat.errors import UsageError
from toposeat.installed import node_path
from toposeat.launch.allocation import all_here, known_allocation
from toposeat.launch.child import run_child
from toposeat.launch.launchers.launcher import LaunchLine
from toposeat.launch.lent_files import KEY_VARIABLE
from toposeat.launch.line import (
    TASK_FILE,
    hand_on,
    torchrun_below,
    wrap_with_exec,
    wrapped_tasks,
)
from toposeat.launch.python_hook import own_folders
from toposeat.launch.run import assignments
from toposeat.model.files import beginning, write_atomically
from toposeat.model.hostlist import short_name
from toposeat.model.lent import BorrowedDevice, BorrowedSeat, DeviceUse, LentDevice, MeasuredWay
from toposeat.model.runs import SeatVerdict
from toposeat.model.topology import ANY_HOST

LIBRARY = "lib/libtoposeat-cl.so"
SEATS_VARIABLE = "TOPOSEAT_BORROW"
_MAX_REPORT = 1 << 20
_MAX_VARIABLE = (1 << 17) - 64  # the kernel's limit of one string


def hosts_of_ranks(line: LaunchLine, environment: Mapping[str, str]) -> tuple[str, ...]:
    """The host of every rank as launchers deal them out, in blocks; `ANY_HOST` if it is not known.

    Raises:
        UsageError: the line does not say how many ranks it starts.
    """
    line = torchrun_below(line) or line
    if line.ranks is None:
        raise UsageError(
            "the line does not say how many ranks it starts",
            hint=f"add their number: {line.launcher[0]} -n 8 ./app",
        )
    if all_here(line, environment):
        return (socket.gethostname(),) * line.ranks
    allocation = known_allocation(line, environment)
    if allocation is None:
        return (ANY_HOST,) * line.ranks
    nodes = line.value(line.table.nodes) or ""
    hosts = allocation.hosts[: int(nodes) if nodes.isdigit() else None]
    per_host = line.value(line.table.per_host) or ""
    if allocation.slots and line.family.limits_slots:
        shares = [allocation.slots.get(host, 1) for host in hosts]
    elif per_host.isdigit():
        shares = [int(per_host)] * len(hosts)
    else:
        share, more = divmod(line.ranks, len(hosts))
        shares = [share + (at < more) for at in range(len(hosts))]
    names = [ANY_HOST if _is_address(host) else host for host in hosts]
    dealt = [host for host, share in zip(names, shares, strict=True) for _ in range(share)]
    return tuple([*dealt, *[ANY_HOST] * line.ranks][: line.ranks])


def _is_address(host: str) -> bool:
    """Ranks know their node's name, not by which address somebody has named it."""
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


def seat_words(seats: Sequence[BorrowedSeat], devices: Sequence[LentDevice]) -> str:
    """What toposeat-exec is told (`launcher/src/borrow.h`).

    Raises:
        UsageError: it is too long for a variable.
    """
    used = dict.fromkeys(own.id for seat in seats for own in seat.devices)
    number = {id: at for at, id in enumerate(used)}
    device_of = {device.id: device for device in devices}
    lent = (device_of[id] for id in used)
    told = " ".join(f"{x.host},{x.socket},{x.address},{x.index}" for x in lent)
    rows: list[tuple[str, list[str]]] = []
    for seat in seats:
        if not rows or rows[-1][0] != seat.host:
            rows.append((seat.host, []))
        rows[-1][1].append("+".join(str(number[own.id]) for own in seat.devices))
    text = f"{told}|" + " ".join(f"{host}={';'.join(own)}" for host, own in rows)
    if len(text) > _MAX_VARIABLE:
        raise UsageError(
            f"{len(seats)} ranks are too many to be told of their devices",
            hint="start the job in parts",
        )
    return text


@dataclass(frozen=True, kw_only=True, slots=True)
class BorrowedLine:
    """The line to start, what is set for it in the open, and its file of programs, if any."""

    argv: tuple[str, ...]
    environment: Mapping[str, str]
    tasks: str | None = None

    @property
    def words(self) -> tuple[str, ...]:
        """For people: variables, then the line."""
        return (*assignments(self.environment), *self.argv)


def borrowed_line(
    line: LaunchLine,
    seats: str,
    environment: Mapping[str, str],
    *,
    folder: Path | None = None,
    local_too: bool = False,
    remote: str = "",
) -> BorrowedLine:
    """The line whose ranks find their devices.

    Args:
        line: the user's.
        seats: `seat_words`.
        environment: of the job.
        folder: where ranks leave reports, None for none.
        local_too: show the devices of the rank's own node as well; it needs a folder.
        remote: see `node_path`.
    """
    line, added = hand_on(line, (KEY_VARIABLE, SEATS_VARIABLE), environment)
    below = torchrun_below(line)
    family = (below or line).family
    words = [node_path("bin/toposeat-exec", remote), "--borrow", node_path(LIBRARY, remote)]
    words += ["--local-rank-env", family.local_rank] if family.local_rank else []
    words += ["--local-too", str(folder)] if local_too else []
    words += [] if folder is None else ["-E", f"TOPOSEAT_CL_REPORT={folder}"]
    folders = [*own_folders(), *([] if folder is None else [folder])]
    tasks = wrapped_tasks(line, words)
    file = TASK_FILE if folder is None else str(folder / TASK_FILE)
    if below is None:
        argv = wrap_with_exec(line, words, file, folders)
    else:
        *srun, _ = wrap_with_exec(replace(line, program=("true",)), (), folders=folders)
        argv = [*srun, *wrap_with_exec(below, words, folders=folders)]
    told = f"{seats}|{os.getpid()}"
    return BorrowedLine(argv=tuple(argv), environment={**added, SEATS_VARIABLE: told}, tasks=tasks)


def run_borrowed(
    borrowed: BorrowedLine, key: str, environment: Mapping[str, str], folder: Path | None
) -> int:
    """Start it and wait; the exit code is the application's. A file of programs needs a folder."""
    if borrowed.tasks is not None and folder is not None:
        write_atomically(folder / TASK_FILE, borrowed.tasks)
    variables = {**environment, **borrowed.environment, KEY_VARIABLE: key}
    return run_child(borrowed.argv, variables)


class _Device(Struct, frozen=True):
    endpoint: str
    index: int = 0
    name: str = ""
    host: str = ""
    round_trip_s: float = 0.0
    bandwidth_to_bytes_per_s: float = 0.0
    bandwidth_from_bytes_per_s: float = 0.0
    bytes_to: float = 0.0
    bytes_from: float = 0.0
    calls: int = 0
    waits: int = 0
    lost: bool = False  # the proxy ended first
    moved_from: str = ""  # where it was at first
    held_by_others: int = 0  # bytes, when it was connected


class _Report(Struct, frozen=True):
    """What the library in a rank's process writes; a rank may have several that use OpenCL."""

    devices: tuple[_Device, ...]
    rank: str | int | None = None
    run_s: float | None = None


def verified(
    seats: Sequence[BorrowedSeat], devices: Sequence[LentDevice], folder: Path
) -> tuple[BorrowedSeat, ...]:
    """The seats with what was seen from inside each rank, and a verdict on each."""
    id_of = {endpoint: device.id for device in devices for endpoint in device.endpoints}
    reports: dict[int, list[tuple[str, _Report]]] = defaultdict(list)
    for path in sorted(folder.glob("cl.*.json")):
        with suppress(ValidationError, ValueError):
            report = decode(beginning(path, _MAX_REPORT), type=_Report)
            host = path.name.removeprefix("cl.").rpartition(".")[0].rpartition(".")[0]
            reports[int(report.rank or 0)].append((host, report))
    return tuple(_verified(seat, reports.get(seat.rank, []), id_of) for seat in seats)


def _verified(
    seat: BorrowedSeat, reports: Sequence[tuple[str, _Report]], id_of: Mapping[str, str]
) -> BorrowedSeat:
    if not reports:
        text = "not checked: no report came: the program asked for no OpenCL device, or this"
        text += " folder is not its node's"
        return replace(seat, verdict=SeatVerdict.NOT_CHECKED, differences=(text,))
    told: dict[str, list[_Device]] = defaultdict(list)
    moved: list[str] = []
    for _, report in reports:
        for device in report.devices:
            full = device.endpoint
            full += "" if "#" in full else f"#{device.index}"
            if device.moved_from:
                moved.append(f"moved to {id_of.get(full, device.host)}")
            full = device.moved_from or full
            told[id_of.get(full, full)].append(device)
    planned = [device.id for device in seat.devices]
    missing = [id for id in planned if id not in told]
    other = [id for id in told if id not in planned]
    instead = f" in place of {' and '.join(missing)}" if missing else ""
    differences = [f"got {id}{instead}, which was not meant for it" for id in other]
    differences += [f"could not reach {id}" for id in missing if not other]
    lost = [id for id in planned if any(each.lost for each in told.get(id, ()))]
    differences += [f"lost {id}: its proxy, or the way to it, ended before it did" for id in lost]
    hosts = list(dict.fromkeys(host for host, _ in reports))
    if seat.host != ANY_HOST and all(short_name(host) != short_name(seat.host) for host in hosts):
        differences.append(f"it ran on {hosts[0]}, where another device may be nearer")
    verdict = SeatVerdict.MISMATCH if differences else SeatVerdict.AS_PLACED
    run_s = max((report.run_s or 0.0 for _, report in reports), default=0.0)
    return replace(
        seat,
        host=hosts[0] if seat.host == ANY_HOST else seat.host,
        devices=tuple(_seen(device, told.get(device.id, ())) for device in seat.devices),
        verdict=SeatVerdict.LOST if lost else verdict,
        differences=(*differences, *moved),
        run_s=run_s if run_s > 0 else None,
    )


def _seen(device: BorrowedDevice, told: Sequence[_Device]) -> BorrowedDevice:
    if not told:
        return device
    first = told[0]
    held = max(each.held_by_others for each in told)
    device = replace(device, is_lost=any(each.lost for each in told), others_bytes=held)
    with suppress(ValueError):  # a process that was killed before it had measured
        device = replace(
            device,
            measured=MeasuredWay(
                round_trip_s=first.round_trip_s,
                to_bytes_per_s=first.bandwidth_to_bytes_per_s,
                from_bytes_per_s=first.bandwidth_from_bytes_per_s,
            ),
        )
    with suppress(ValueError):
        use = DeviceUse(
            bytes_to=sum(each.bytes_to for each in told),
            bytes_from=sum(each.bytes_from for each in told),
            calls=sum(each.calls for each in told),
            waits=sum(each.waits for each in told),
        )
        device = replace(device, use=use)
    return device
