"""Borrowing: what is lent, which rank gets which of it, the job, and what its ranks saw."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from toposeat import launch, mapping, topology
from toposeat.errors import InputError, ToposeatError, UsageError
from toposeat.model.files import decode_json, read_text
from toposeat.model.hostlist import short_name
from toposeat.model.job_folder import job_folder
from toposeat.model.lent import (
    BORROWED_SCHEMA,
    Borrowed,
    BorrowedDevice,
    BorrowedSeat,
    LentDevice,
)
from toposeat.model.network import Network
from toposeat.model.topology import ANY_HOST


@dataclass(frozen=True, kw_only=True, slots=True)
class BorrowOptions:
    """How a job borrows.

    Attributes:
        each: devices of one rank.
        network: source of the network that joins the hosts; None: not known.
        recorded: a run whose traffic weighs the ways, and is priced.
        share: devices that other jobs have are taken as well, where too few are free.
        remote: where native parts lie on the nodes, "" for as here.
        local_too: ranks see their node's own devices as well.
        verify: let every rank measure its way and report it.
        dry_run: start nothing, and take nothing.
    """

    each: int = 1
    network: str | None = None
    recorded: Path | None = None
    share: bool = False
    remote: str = ""
    local_too: bool = False
    verify: bool = True
    dry_run: bool = False


def lent(environment: Mapping[str, str] = os.environ) -> list[LentDevice]:
    """All devices that this user has lent."""
    return launch.asked(launch.lent_devices(launch.lent_folder(environment))[0])


def load_borrowed(path: str | Path) -> Borrowed:
    """The record of a run, as `borrow -o` writes it."""
    return decode_json(read_text(path), Borrowed, schema=BORROWED_SCHEMA, path=path)


def borrow(
    command: Sequence[str],
    options: BorrowOptions,
    *,
    tell: Callable[[Borrowed], None],
    environment: Mapping[str, str] = os.environ,
) -> Borrowed:
    """Give every rank of a job the nearest free devices, run it, and ask what it got.

    Args:
        command: the launch line.
        options: how.
        tell: is given what will be started, before it is.
        environment: of the job.

    Raises:
        UsageError: the line does not say how many ranks it starts, or more devices are asked for
            than there are.
        ToposeatError: nothing is lent, or all of it is borrowed.
    """
    line = launch.parse_launch_line(command)
    launch.check_exists(line, environment)
    launch.check_ready(line, environment)
    hosts = launch.hosts_of_ranks(line, environment)
    recorded = None if options.recorded is None else load_borrowed(options.recorded)
    root = launch.lent_folder(environment)
    with ExitStack() as stack:
        mark = None if options.dry_run else stack.enter_context(launch.borrowing(root))
        with launch.choosing(root):
            devices, key = launch.lent_devices(root)
            free = _free(launch.asked(devices), options, len(hosts))
            borrowed = _planned(command, hosts, free, options, recorded)
            ids = {own.id for seat in borrowed.seats for own in seat.devices}
            if mark is not None:
                own = [each for each in free if each.id in ids]
                launch.write_borrowed(mark, own, shares=options.share)
        folder = None
        if mark is not None and (options.verify or options.local_too or line.tasks):
            parent = None if launch.all_here(line, environment) else Path.cwd()
            folder = stack.enter_context(job_folder("borrowed", parent=parent))
        started = launch.borrowed_line(
            line,
            launch.seat_words(borrowed.seats, free),
            environment,
            folder=folder,
            local_too=options.local_too,
            remote=options.remote,
        )
        borrowed = replace(borrowed, launched=started.words)
        tell(borrowed)
        if mark is None:
            return borrowed
        begin, clock = datetime.now(UTC), time.perf_counter()
        code = launch.run_borrowed(started, key, environment, folder)
        seats = borrowed.seats
        if folder is not None and options.verify:
            seats = launch.verified(seats, free, folder)
        return replace(
            borrowed,
            seats=seats,
            exit_code=code,
            wall_s=time.perf_counter() - clock,
            started_at=begin.strftime("%Y-%m-%dT%H:%M:%SZ"),
        )


def _free(devices: Sequence[LentDevice], options: BorrowOptions, ranks: int) -> list[LentDevice]:
    """Those that may be taken: what is free and answers, then what fewest jobs share."""
    each = options.each
    if not devices:
        raise ToposeatError(
            "nothing is lent",
            hint="lend first, by srun, mpirun or ssh, and let it run: toposeat lend -- srun -N 2",
        )
    free = [device for device in devices if not device.borrowed_by]
    free = [device for device in free if not device.is_silent] or free
    shared = sorted(
        (x for x in devices if x.jobs and x.room and not x.is_silent), key=lambda x: x.jobs
    )
    if options.share and len(free) < ranks * each:
        free += shared[: ranks * each - len(free)]
    if not free:
        first = devices[0]
        others = f" and {len(devices) - 1} more" if len(devices) > 1 else ""
        raise ToposeatError(
            f"all lent devices are borrowed: {first.id} by {first.borrowed_by}{others}",
            hint="--share takes a device that others share"
            if shared
            else "wait until one is free, or lend more; toposeat borrow lists them",
        )
    if each > len(free):
        raise UsageError(
            f"{each} devices for every rank, and {len(free)} of {len(devices)} are free",
            hint=f"--devices {len(free)}, or lend more",
        )
    return free


def _planned(
    command: Sequence[str],
    hosts: Sequence[str],
    devices: Sequence[LentDevice],
    options: BorrowOptions,
    recorded: Borrowed | None,
) -> Borrowed:
    ways = mapping.Ways(_network_of(options.network, (*hosts, *(each.host for each in devices))))
    past = () if recorded is None else recorded.seats
    uses = mapping.uses_of(len(hosts), past)
    choice = mapping.nearest_devices(hosts, devices, ways, each=options.each, uses=uses)
    seats = tuple(
        BorrowedSeat(rank=rank, host=host, devices=tuple(_own(devices[at]) for at in chosen))
        for rank, (host, chosen) in enumerate(zip(hosts, choice.devices_of_rank, strict=True))
    )
    seats = mapping.with_ways(seats, ways)
    notes = []
    if any(device.predicted is None for seat in seats for device in seat.devices):
        notes.append(
            "in the order of the list where a way is not known"
            + (": name the network with -t NETWORK" if options.network is None else "")
        )
    if choice.is_shared:
        what = "" if options.share else "free "
        free = f"1 {what}device" if len(devices) == 1 else f"{len(devices)} {what}devices"
        notes.append(f"{len(hosts)} ranks share {free}")
    ids = {own.id for seat in seats for own in seat.devices}
    notes += [f"{x.id} is shared with {x.borrowed_by}" for x in devices if x.jobs and x.id in ids]
    if ANY_HOST in hosts:
        notes.append("the launcher decides where ranks run: no device is nearer than another")
    price = mapping.price_of(seats, past) if past else None
    if recorded is not None and price is None:
        notes.append("no price: the record does not say what its ranks did, or a way is not known")
    return Borrowed(
        command=tuple(command), launched=(), seats=seats, notes=tuple(notes), price=price
    )


def _own(device: LentDevice) -> BorrowedDevice:
    return BorrowedDevice(id=device.id, host=device.host, name=device.name)


def _network_of(source: str | None, hosts: Sequence[str]) -> Network | None:
    """The network with those of the hosts that it knows, by these names."""
    if source is None:
        return None
    if not topology.is_network(source):
        raise UsageError(
            f"{source} is no network of hosts",
            hint="give that of the cluster with -t: Slurm's topology.conf, ibnetdiscover, ...",
        )
    network = topology.read_network(source)
    known = {short_name(name) for name in network.host_names}
    names = {short_name(host): host for host in reversed(hosts) if short_name(host) in known}
    if not names:
        raise InputError(
            f"the network {network.name} has none of the hosts of this job",
            hint=f"its hosts are called like {network.host_names[0]}",
        )
    return topology.allocated(network, tuple(names.values()))
