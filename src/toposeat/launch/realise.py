"""A placement's hosts in the launcher's own words, or the reasons why it cannot have them."""

from __future__ import annotations

import socket
from collections.abc import Mapping, Sequence

from msgspec import field
from msgspec.structs import replace

from toposeat.errors import InputError, ToposeatError, UsageError
from toposeat.launch.allocation import allocation_of
from toposeat.launch.launchers import slurm, slurm_gpus, torchrun
from toposeat.launch.launchers.launcher import Launch, LauncherKind, LaunchLine, Option
from toposeat.launch.launchers.seats import (
    Allocation,
    HostWords,
    LaunchFile,
    RankHosts,
    in_natural_order,
)
from toposeat.launch.line import torchrun_below
from toposeat.launch.visibility import visibility_of
from toposeat.model.few import cut, few
from toposeat.model.hostlist import compress_hostlist, short_name
from toposeat.model.placement import Placement
from toposeat.model.placement_file import format_placement
from toposeat.model.record import Record
from toposeat.model.shell_words import shell_line, shell_word
from toposeat.model.topology import ANY_HOST

SEATS_NAME = "seats.place"


class Realisation(Record, frozen=True, kw_only=True):
    """A launch line that starts every rank on its host.

    `seating` is the placement as processes will find themselves: host names as the launcher has
    them, local ranks as it numbers them, rows in the order in which it starts processes. `warnings`
    are to be told before the start. `node_start` are the words in front of a torchrun below srun.
    """

    line: LaunchLine
    seating: Placement
    orders_ranks: bool = False  # by words of its own, so that nothing else need say it
    files: tuple[LaunchFile, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    node_start: tuple[str, ...] = ()
    rank_of_slot: tuple[int, ...] | None = None

    def rank_of(self, slot: int) -> int:
        """The rank of the process that reports under the number of its slot."""
        ranks = self.rank_of_slot
        return slot if ranks is None or slot >= len(ranks) else ranks[slot]


def realise(
    line: LaunchLine,
    placement: Placement,
    environment: Mapping[str, str],
    *,
    folder: str = "",
    other_machine: bool = False,
    shows_devices: bool = True,
) -> Realisation:
    """The line that starts every rank of a placement on its host.

    Args:
        line: the command as the user typed it.
        placement: which rank goes to which host.
        environment: of the run: a scheduler's job, the launcher's own variables.
        folder: where the files will lie, with a slash at its end; "" for names alone.
        other_machine: put the placement's hosts, in their order, onto those that there are.
        shows_devices: ranks get the devices of the plan, and not those that they choose.

    Raises:
        InputError: the plan does not fit these hosts, counts or this launcher; all that does not
            fit is in one message, with what to type instead.
    """
    plan = RankHosts(tuple(seat.host for seat in placement.seats))
    allocation = allocation_of(line, environment)
    misfit = Misfit(line, placement, plan)
    if shows_devices:
        misfit.devices(environment)
    if ANY_HOST in plan.counts:
        around = Launch(line=line, allocation=allocation, environment=environment)
        return _on_any_host(around, placement, plan, misfit)
    renamed = _renamed(plan, allocation, misfit, other_machine=other_machine)
    if renamed is None:
        misfit.refuse()
        anywhere = _with_hosts(placement, dict.fromkeys(plan.hosts, ANY_HOST))
        return Realisation(line=line, seating=anywhere)
    plan = RankHosts(tuple(renamed[host] for host in plan.host_of_rank))
    seating = _numbered(_with_hosts(placement, renamed))
    launch = Launch(
        line=line,
        allocation=allocation,
        environment=environment,
        folder=folder,
        cpus=tuple(seat.cpus for seat in seating.seats),
    )
    below = torchrun_below(line)
    if below is not None:
        return _of_nodes(launch, below, plan, seating, misfit)
    misfit.counts(plan, allocation, environment)
    here = socket.gethostname()
    alone = allocation is None or len(allocation.hosts) == 1
    if len(plan.hosts) == 1 and alone and not line.family.any_host:
        if allocation is None and short_name(plan.hosts[0]) != short_name(here):
            misfit.elsewhere(here)
        misfit.refuse()
        return Realisation(line=line, seating=seating)
    misfit.orders(plan)
    words = HostWords()
    try:
        words = HostWords() if misfit.names_hosts else line.family.words(launch, plan)
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
        warnings=words.warnings,
        rank_of_slot=words.rank_of_slot,
    )


def _of_nodes(
    launch: Launch, below: LaunchLine, plan: RankHosts, seating: Placement, misfit: Misfit
) -> Realisation:
    """For `srun torchrun`: a task on every host, numbered by node rank, starts its ranks."""
    tasks = RankHosts(plan.hosts)
    misfit.orders(tasks)
    misfit.refuse()
    own = Misfit(below, seating, plan)
    own.orders(plan)
    try:
        order = launch.order_in_job(plan.hosts)
        words = slurm.srun(
            tasks, launch.folder, order=order or plan.hosts, pmi="none", exact=bool(order)
        )
        node = torchrun.on_all_hosts(launch, below, plan)
        start = torchrun.as_node_of_task(launch, below, plan.hosts)
        below = below.changed(node.options, node.replaces)
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
        warnings=node.warnings,
        node_start=start,
    )


def refusal_of(
    line: LaunchLine, placement: Placement, environment: Mapping[str, str]
) -> ToposeatError | None:
    """Why `realise` refuses a placement; None where it does not."""
    try:
        shows = visibility_of(placement, None)[0] != "cpu-only"
        realise(line, placement, environment, shows_devices=shows)
    except ToposeatError as error:
        return error
    return None


def _on_any_host(
    launch: Launch, placement: Placement, plan: RankHosts, misfit: Misfit
) -> Realisation:
    """A placement for any one host: the line must stay on one."""
    line, allocation = launch.line, launch.allocation
    added: tuple[str, ...] = ()
    if line.family.on_one_host:
        misfit.orders(plan)
    misfit.refuse()
    if line.family.on_one_host:
        several = allocation is not None and len(allocation.hosts) > 1
        added = line.family.on_one_host if several and not line.has(line.table.nodes) else ()
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
        misfit.hosts(allocation)
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
    stated = line.ranks is not None or line.further or "-n" in words.options
    return () if stated or "n" not in line.table.ranks else ("-n", str(plan.ranks))


def oversubscribes(line: LaunchLine, environment: Mapping[str, str]) -> bool:
    """Whether the launcher may start more ranks on a host than it has places there."""
    ask = line.family.oversubscribes
    return ask is not None and ask(line, environment)


class Misfit:
    """Collects what does not fit, to refuse it in one message."""

    def __init__(self, line: LaunchLine, placement: Placement, plan: RankHosts) -> None:
        self._line = line
        self._placement = placement
        self._plan = plan
        self._causes: list[str] = []
        self._hints: list[str] = []
        self._conflicts: list[Option] = []
        self._instead: list[str] = []  # of what conflicts
        self._unset: list[str] = []  # variables that conflict
        self.names_hosts = False  # that are missing, so that no words are needed

    def add(self, cause: str, hint: str) -> None:
        """Keep one cause, and what to type instead."""
        self._causes.append(cause)
        if hint and hint not in self._hints:
            self._hints.append(hint)

    def hosts(self, allocation: Allocation) -> None:
        """Hosts of the plan that the launcher may not use."""
        self.names_hosts = True
        hosts = compress_hostlist(allocation.hosts)
        self.add(
            f"the placement is for {_few(self._plan.hosts)}, and {allocation.source} has"
            f" {cut(hosts, 80)}",
            f"map for these hosts: toposeat map {self._traffic} -t NETWORK --node SRC --hosts"
            f" {shell_word(hosts)} -o PLACE; --other-machine takes them in this order",
        )

    def elsewhere(self, here: str) -> None:
        """A plan for one host, started on another."""
        self.add(
            f"the placement is for {_few(self._plan.hosts)}, and this is {here}",
            f"start it there, or map for this machine: toposeat map {self._traffic} -t this;"
            " --other-machine runs it here",
        )

    def counts(
        self, plan: RankHosts, allocation: Allocation | None, environment: Mapping[str, str]
    ) -> None:
        """Ranks that the job has no room for."""
        if allocation is None or oversubscribes(self._line, environment):
            return
        each = self._line.value(self._line.table.cpus)
        cpus = int(each) if each is not None and each.isdigit() else 1
        full = [
            f"{host} has {allocation.slots[host] // cpus} for {count}"
            for host, count in plan.counts.items()
            if count * cpus > allocation.slots.get(host, count * cpus)
        ]
        if full:
            self.add(
                f"{allocation.source} leaves too few places for ranks: {few(full, 4)}",
                allocation.how_to_get(len(plan.hosts), max(plan.counts.values())),
            )

    def devices(self, environment: Mapping[str, str]) -> None:
        """GPUs of the plan that the launcher would not show its ranks."""
        for option in self._line.options:
            if option.name in self._line.table.devices:
                self._conflict(option, "each rank then sees the next GPUs by number alone")
        if self._line.kind != LauncherKind.SRUN:
            return
        seats, hosts = self._placement.seats, self._plan.hosts
        own = {host: tuple(s.index for s in seats if s.host == host) for host in hosts}
        found = slurm_gpus.conflicts(
            self._line,
            environment,
            tasks=1 if torchrun_below(self._line) else max(self._plan.counts.values()),
            used=max(len(set(indices)) for indices in own.values()),
            in_all=sum(len(set(indices)) for indices in own.values()),
            devices=next(iter(own.values())) if len(set(own.values())) == 1 else (),
        )
        for each in found:
            self._causes.append(f"{each.said}: {each.why}")
            self._conflicts += [] if each.option is None else [each.option]
            self._unset += [each.variable] if each.variable else []
        stays = {option.name for option in self._line.options} - {o.name for o in self._conflicts}
        if found and "gpus-per-node" not in stays:
            listed = self._placement.devices_of_host.values()
            most = max([*map(len, listed), *(1 + max(indices) for indices in own.values())])
            self._instead.append(f"--gpus-per-node={most}")

    def orders(self, plan: RankHosts) -> None:
        """Options with which the line says another number of hosts, ranks or another order."""
        table = self._line.table
        for option in self._line.options:
            value = option.values[-1] if option.values else ""
            if option.name in table.nodes and not _is_count(value, len(plan.hosts)):
                self._conflict(option, f"the plan has {len(plan.hosts)} hosts")
            elif option.name in table.per_host and value != str(plan.per_host):
                counts = "/".join(map(str, sorted(set(plan.counts.values()))))
                self._conflict(option, f"the plan has {counts} ranks on each host")
            elif option.name in table.ordering and not self._restates(option, plan):
                self._conflict(option, "the placement says which rank goes where")
        placing = table.hosts | table.host_files | table.nodes | table.per_host | table.ordering
        for each in self._line.further:
            own = [option for option in each.options if option.name in placing]
            if own:
                said = shell_line(word for option in own for word in option.words)
                self.add(
                    f"{each.program[0]} behind ':' has {said}, and the placement says which rank"
                    " goes where",
                    f"leave {said} out",
                )

    def distribution(self, words: HostWords) -> None:
        """`-m` of srun, where the words for this plan are others."""
        names = self._line.table.dealing
        own = self._line.value(names)
        if own is None or "-m" not in words.options:
            return
        wanted = words.options[words.options.index("-m") + 1]
        if own.partition(":")[0] not in (wanted, "arbitrary", "*"):
            option = next(o for o in self._line.options if o.name in names)
            self._conflict(option, f"this plan is -m {wanted}")

    def refuse(self) -> None:
        """Raise what was found, if anything was."""
        if self._conflicts or self._unset:
            without = {option.name for option in self._conflicts}
            line = self._line.changed(self._instead, without)
            unset = [word for name in self._unset for word in ("-u", name)]
            words = [*(["env", *unset] if unset else []), *line.argv]
            self._hints.append(f"type: toposeat run -p PLACE -- {shell_line(words)}")
        if self._causes:
            raise InputError(
                "nothing was started, the plan cannot be realised: " + "; ".join(self._causes),
                hint=". ".join(self._hints),
            )

    def _conflict(self, option: Option, why: str) -> None:
        self._causes.append(f"the line says {shell_line(option.words)}, and {why}")
        self._conflicts.append(option)

    def _restates(self, option: Option, plan: RankHosts) -> bool:
        """Whether an ordering option of the line says no more than the plan."""
        if option.name in self._line.table.dealing:
            return True  # judged when the words are known
        if option.name in ("map-by", "mapby"):
            policy = option.values[-1].lower().partition(":oversubscribe")[0]
            return policy in ("", "slot", f"ppr:{plan.per_host}:node")
        return option.name in ("rank-by", "rankby") and option.values[-1].lower() == "slot"

    @property
    def _traffic(self) -> str:
        return shell_word(self._placement.metadata.get("traffic", "TRAFFIC"))


def _is_count(text: str, count: int) -> bool:
    """Whether `4`, `2-4` or `1:4` (torchrun) allows this number."""
    parts = text.replace(":", "-").split("-")
    if not all(part.isascii() and part.isdigit() for part in parts) or len(parts) > 2:
        return True  # 1k and the like: the launcher judges it
    return int(parts[0]) <= count <= int(parts[-1])


def _few(hosts: Sequence[str]) -> str:
    return cut(compress_hostlist(in_natural_order(hosts)), 80)
