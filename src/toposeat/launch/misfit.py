"""What keeps a plan from being realised by a launch line, refused in one message."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from toposeat.errors import InputError
from toposeat.launch.allocation import Allocation
from toposeat.launch.hosts.rank_hosts import HostWords, RankHosts, in_natural_order
from toposeat.launch.hosts.words import oversubscribes
from toposeat.launch.launch_line import LaunchLine
from toposeat.launch.launchers import LauncherKind
from toposeat.launch.line_options import Option
from toposeat.model.hostlist import compress_hostlist
from toposeat.model.placement import Placement
from toposeat.model.shell_words import shell_line, shell_word


class Misfit:
    """Collects what does not fit, to refuse it in one message."""

    def __init__(self, line: LaunchLine, placement: Placement, plan: RankHosts) -> None:
        self._line = line
        self._placement = placement
        self._plan = plan
        self._causes: list[str] = []
        self._hints: list[str] = []
        self._conflicts: list[Option] = []
        self.names_hosts = False  # that are missing, so that no words are needed

    def add(self, cause: str, hint: str) -> None:
        """Keep one cause, and what to type instead."""
        self._causes.append(cause)
        if hint and hint not in self._hints:
            self._hints.append(hint)

    def hosts(self, missing: Sequence[str], allocation: Allocation) -> None:
        """Hosts of the plan that the launcher may not use."""
        self.names_hosts = True
        hosts = compress_hostlist(allocation.hosts)
        self.add(
            f"the placement is for {_few(missing)}, and {allocation.source} has {_few_of(hosts)}",
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
        each = self._line.value({"c", "cpus-per-task"}) if self._of(LauncherKind.SRUN) else None
        cpus = int(each) if each is not None and each.isdigit() else 1
        full = [
            f"{host} has {allocation.slots[host] // cpus} for {count}"
            for host, count in plan.counts.items()
            if count * cpus > allocation.slots.get(host, count * cpus)
        ]
        if full:
            per_host = max(plan.counts.values())
            self.add(
                f"{allocation.source} leaves too few places for ranks: {_some(full)}",
                f"ask for the job with: salloc -N {len(plan.hosts)} --ntasks-per-node={per_host}"
                if allocation.source.startswith("SLURM")
                else f"give every host {per_host} places, or let the launcher oversubscribe",
            )

    def orders(self, plan: RankHosts) -> None:
        """Options with which the line says another number of hosts, ranks or another order."""
        table = self._line.table
        if table is None:
            return
        for option in self._line.options:
            value = option.values[-1] if option.values else ""
            if option.name in table.nodes and not _is_count(value, len(plan.hosts)):
                self._conflict(option, f"the plan has {len(plan.hosts)} hosts")
            elif option.name in table.per_host and value != str(plan.per_host):
                self._conflict(option, f"the plan has {_per_host(plan)} ranks on each host")
            elif option.name in table.ordering and not _restates(option, plan):
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
        own = self._line.value({"m", "distribution"})
        if not self._of(LauncherKind.SRUN) or own is None or "-m" not in words.options:
            return
        wanted = words.options[words.options.index("-m") + 1]
        if own.partition(":")[0] not in (wanted, "arbitrary", "*"):
            option = next(o for o in self._line.options if o.name in ("m", "distribution"))
            self._conflict(option, f"this plan is -m {wanted}")

    def refuse(self) -> None:
        """Raise what was found, if anything was."""
        if self._conflicts:
            without = {option.name for option in self._conflicts}
            line = self._line.changed((), without)
            self._hints.append(f"type: toposeat run -p PLACE -- {shell_line(line.argv)}")
        if self._causes:
            raise InputError(
                "nothing was started, the plan cannot be realised: " + "; ".join(self._causes),
                hint=". ".join(self._hints),
            )

    def _conflict(self, option: Option, why: str) -> None:
        self._causes.append(f"the line says {shell_line(option.words)}, and {why}")
        self._conflicts.append(option)

    def _of(self, kind: LauncherKind) -> bool:
        return self._line.kind is kind

    @property
    def _traffic(self) -> str:
        return shell_word(self._placement.metadata.get("traffic", "TRAFFIC"))


def _is_count(text: str, count: int) -> bool:
    """Whether `4`, `2-4` or `1:4` (torchrun) allows this number."""
    parts = text.replace(":", "-").split("-")
    if not all(part.isascii() and part.isdigit() for part in parts) or len(parts) > 2:
        return True  # 1k and the like: the launcher judges it
    return int(parts[0]) <= count <= int(parts[-1])


def _per_host(plan: RankHosts) -> str:
    return "/".join(str(count) for count in sorted(set(plan.counts.values())))


def _restates(option: Option, plan: RankHosts) -> bool:
    """Whether an ordering option of the line says no more than the plan."""
    if option.name in ("m", "distribution"):
        return True  # judged when the words are known
    if option.name in ("map-by", "mapby"):
        policy = option.values[-1].lower().partition(":oversubscribe")[0]
        return policy in ("", "slot", f"ppr:{plan.per_host}:node")
    return option.name in ("rank-by", "rankby") and option.values[-1].lower() == "slot"


def _few(hosts: Sequence[str]) -> str:
    return _few_of(compress_hostlist(in_natural_order(hosts)))


def _few_of(text: str) -> str:
    return text if len(text) <= 80 else f"{text[:77]}..."


def _some(texts: Sequence[str]) -> str:
    return ", ".join(texts[:4]) + (f" and {len(texts) - 4} more" if len(texts) > 4 else "")
