"""A placement's hosts in the launcher's own words, or the reasons why it cannot have them."""

from __future__ import annotations

import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from toposeat.errors import ToposeatError, UsageError
from toposeat.launch.allocation import Allocation, allocation_of
from toposeat.launch.hosts.rank_hosts import HostWords, RankHosts
from toposeat.launch.hosts.words import Launch, order_in_job, words_for
from toposeat.launch.launch_file import LaunchFile
from toposeat.launch.launch_line import LaunchLine
from toposeat.launch.launchers import LauncherKind
from toposeat.launch.misfit import Misfit
from toposeat.launch.nested import on_all_hosts, torchrun_below
from toposeat.model.hostlist import short_name
from toposeat.model.placement import Placement
from toposeat.model.placement_file import format_placement
from toposeat.model.topology import ANY_HOST

SEATS_NAME = "seats.place"


@dataclass(frozen=True, kw_only=True)
class Realisation:
    """A launch line that starts every rank on its host.

    `seating` is the placement as processes will find themselves: host names as the launcher has
    them, local ranks as it numbers them, rows in the order in which it starts processes.
    """

    line: LaunchLine
    seating: Placement
    orders_ranks: bool = False  # by words of its own, so that nothing else need say it
    files: tuple[LaunchFile, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    rank_of_slot: tuple[int, ...] | None = None


def realise(
    line: LaunchLine,
    placement: Placement,
    environment: Mapping[str, str],
    *,
    folder: str = "",
    other_machine: bool = False,
) -> Realisation:
    """The line that starts every rank of a placement on its host.

    Args:
        line: the command as the user typed it.
        placement: which rank goes to which host.
        environment: of the run: a scheduler's job, the launcher's own variables.
        folder: where the files will lie, with a slash at its end; "" for names alone.
        other_machine: put the placement's hosts, in their order, onto those that there are.

    Raises:
        InputError: the plan does not fit these hosts, counts or this launcher; all that does not
            fit is in one message, with what to type instead.
    """
    plan = RankHosts(tuple(seat.host for seat in placement.seats))
    allocation = allocation_of(line, environment)
    if ANY_HOST in plan.counts:
        return _on_any_host(line, placement, plan, allocation)
    misfit = Misfit(line, placement, plan)
    renamed = _renamed(plan, allocation, misfit, other_machine=other_machine)
    if renamed is None:
        misfit.refuse()
        anywhere = _with_hosts(placement, dict.fromkeys(plan.hosts, ANY_HOST))
        return Realisation(line=line, seating=anywhere)
    plan = RankHosts(tuple(renamed[host] for host in plan.host_of_rank))
    seating = _numbered(_with_hosts(placement, renamed))
    launch = Launch(line=line, allocation=allocation, environment=environment, folder=folder)
    below = torchrun_below(line)
    if below is not None:
        return _of_nodes(launch, below, plan, seating, misfit)
    misfit.counts(plan, allocation, environment)
    here = socket.gethostname()
    alone = allocation is None or len(allocation.hosts) == 1
    if len(plan.hosts) == 1 and alone and line.kind not in (LauncherKind.SRUN, LauncherKind.FLUX):
        if allocation is None and short_name(plan.hosts[0]) != short_name(here):
            misfit.elsewhere(here)
        misfit.refuse()
        return Realisation(line=line, seating=seating)
    misfit.orders(plan)
    words = HostWords()
    try:
        words = (
            HostWords()
            if misfit.names_hosts
            else words_for(launch, plan, [seat.cpus for seat in seating.seats])
        )
    except UsageError as error:
        misfit.add(error.message, error.hint)
    misfit.distribution(words)
    misfit.refuse()
    if words.rank_of_slot is not None and line.tasks:
        misfit.add(
            "this MPI numbers ranks by slot, and --multi-prog says programs by slot",
            "start one program that acts by its rank",
        )
        misfit.refuse()
    if words.rank_of_slot is not None:
        seating = _by_slot(seating, words.rank_of_slot)
    return Realisation(
        line=line.changed((*_count(line, words, plan), *words.options), words.replaces),
        seating=seating,
        orders_ranks=bool(words.options),
        files=words.files,
        environment=words.environment,
        notes=words.notes,
        rank_of_slot=words.rank_of_slot,
    )


def _of_nodes(
    launch: Launch, below: LaunchLine, plan: RankHosts, seating: Placement, misfit: Misfit
) -> Realisation:
    """For `srun torchrun`: one task on every host starts the ranks there."""
    tasks = RankHosts(plan.hosts)
    misfit.orders(tasks)
    misfit.refuse()
    own = Misfit(below, seating, plan)
    own.orders(plan)
    try:
        words, below = on_all_hosts(
            below, plan, launch.folder, order=order_in_job(launch, plan.hosts)
        )
    except UsageError as error:
        own.add(error.message, error.hint)
    own.refuse()
    misfit.distribution(words)
    misfit.refuse()
    line = launch.line.changed(words.options, words.replaces)
    return Realisation(
        line=replace(line, program=below.argv),
        seating=seating,
        orders_ranks=True,
        files=words.files,
        environment=words.environment,
    )


def refusal_of(
    line: LaunchLine, placement: Placement, environment: Mapping[str, str]
) -> ToposeatError | None:
    """Why `realise` refuses a placement; None where it does not."""
    try:
        realise(line, placement, environment)
    except ToposeatError as error:
        return error
    return None


def _on_any_host(
    line: LaunchLine, placement: Placement, plan: RankHosts, allocation: Allocation | None
) -> Realisation:
    """A placement for any one host: the line must stay on one."""
    misfit = Misfit(line, placement, plan)
    misfit.orders(plan) if line.kind is LauncherKind.SRUN else None
    misfit.refuse()
    added: tuple[str, ...] = ()
    if line.kind is LauncherKind.SRUN and allocation is not None and len(allocation.hosts) > 1:
        added = ("-N", "1") if not line.has({"N", "nodes"}) else ()
    seating = _numbered(placement)
    return Realisation(line=line.changed(added), seating=seating)


def _renamed(
    plan: RankHosts, allocation: Allocation | None, misfit: Misfit, *, other_machine: bool
) -> dict[str, str] | None:
    """What each host of the plan is called by the launcher; None for "whichever there is"."""
    if allocation is None:
        same = {host: host for host in plan.hosts}
        return None if other_machine and len(same) == 1 else same
    named = {host: allocation.name_of(host) for host in plan.hosts}
    missing = [host for host, name in named.items() if name is None]
    if missing and other_machine and len(allocation.hosts) >= len(plan.hosts):
        return dict(zip(plan.hosts, allocation.hosts, strict=False))
    if missing:
        misfit.hosts(missing, allocation)
    return {host: name or host for host, name in named.items()}


def _with_hosts(placement: Placement, renamed: Mapping[str, str]) -> Placement:
    """The placement with other names for its hosts, where they are other hosts."""
    if all(short_name(old) == short_name(new) for old, new in renamed.items()):
        return placement
    devices = {renamed.get(host, host): own for host, own in placement.devices_of_host.items()}
    seats = (replace(seat, host=renamed[seat.host]) for seat in placement.seats)
    return replace(placement, seats=tuple(seats), devices_of_host=devices)


def _numbered(placement: Placement) -> Placement:
    """Local ranks in the order of ranks, as launchers count them on each host."""
    used: dict[str, int] = {}
    seats = []
    for seat in placement.seats:
        local = used.get(seat.host, 0)
        used[seat.host] = local + 1
        seats.append(seat if seat.local_rank == local else replace(seat, local_rank=local))
    unchanged = all(a is b for a, b in zip(seats, placement.seats, strict=True))
    return placement if unchanged else replace(placement, seats=tuple(seats))


def _by_slot(placement: Placement, rank_of_slot: Sequence[int]) -> Placement:
    """Rows in the order in which processes start, whose number the launcher takes for the rank."""
    seats = [replace(placement.seats[rank], rank=slot) for slot, rank in enumerate(rank_of_slot)]
    return replace(placement, seats=tuple(seats))


def seats_file(seating: Placement) -> LaunchFile:
    """The placement that toposeat-exec reads, where it is not the user's own."""
    return LaunchFile(name=SEATS_NAME, text=format_placement(seating))


def _count(line: LaunchLine, words: HostWords, plan: RankHosts) -> tuple[str, ...]:
    """The number of ranks, where neither the line nor these words say it."""
    table = line.table
    stated = line.ranks is not None or line.further or "-n" in words.options
    return () if stated or table is None or "n" not in table.ranks else ("-n", str(plan.ranks))
