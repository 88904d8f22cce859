"""What else reads the order of hosts, and what is done so that it agrees with the placement.

A placement says where each rank goes. Programs take the host where they meet from elsewhere:
MASTER_ADDR, or the first host of the scheduler's list (docs/explanation/launch.md has the table).
Where rank 0 is on another host, they wait for each other until a timeout.
"""

from __future__ import annotations

import socket
from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from toposeat.launch.allocation import allocation_of
from toposeat.launch.launchers.launcher import LauncherKind, LaunchLine
from toposeat.launch.launchers.seats import in_natural_order
from toposeat.launch.line import torchrun_below
from toposeat.launch.realise import Realisation
from toposeat.model.hostlist import compress_hostlist, short_name
from toposeat.model.record import Record
from toposeat.model.topology import ANY_HOST

_MEETING_HOST = "MASTER_ADDR"
# Slurm's lists of hosts in the ranks' environment, and their first host's address.
_LISTS = ("SLURM_JOB_NODELIST", "SLURM_NODELIST", "SLURM_STEP_NODELIST")
_ADDRESS = "SLURM_LAUNCH_NODE_IPADDR"


class Agreement(Record, frozen=True, kw_only=True):
    """What ranks are given besides their seat, and what is told before the start."""

    variables: Mapping[str, str]
    lines: tuple[str, ...] = ()


def agree(plan: Realisation, line: LaunchLine, environment: Mapping[str, str]) -> Agreement:
    """Let what reads the order of hosts find rank 0 where the placement has it.

    `line` is as the user typed it.
    """
    found = _about_rank_0(plan, environment)
    per_node = line.value(line.table.per_host)
    if line.kind is not LauncherKind.SRUN or per_node is None or plan.line.has(line.table.per_host):
        return found
    # Slurm tells ranks so only where the line says it; Lightning starts none without.
    return replace(found, variables={**found.variables, "SLURM_NTASKS_PER_NODE": per_node})


def _about_rank_0(plan: Realisation, environment: Mapping[str, str]) -> Agreement:
    first = _host_of_rank_0(plan)
    line = plan.line
    if first == ANY_HOST or torchrun_below(line) is not None or line.family.starts_here:
        return Agreement(variables={})  # torchrun's own end point is a word of its line
    hosts = _hosts_in_order(plan, environment)
    if not hosts or short_name(hosts[0]) == short_name(first):
        return Agreement(variables={})
    variables, given = {}, []
    set_host = _set_for(line, _MEETING_HOST, environment)
    if set_host is None or not _is_same(set_host, first):
        variables[_MEETING_HOST] = first
        given.append(f"{_MEETING_HOST}={first}" + (f", not {set_host}," if set_host else ""))
    if line.kind is LauncherKind.SRUN or "SLURM_JOB_ID" in environment:
        named = ",".join(_in_order_of_ranks(plan, hosts))
        variables |= {**dict.fromkeys(_LISTS, named), _ADDRESS: first}
        given.append(f"{_LISTS[0]}={_short(named)}")
    if not given:
        return Agreement(variables={})
    said = f"Rank 0    is on {first}, not on {hosts[0]}, the job's first host: ranks get "
    said += " and ".join(given).removesuffix(",")
    return Agreement(variables=variables, lines=(said,))


def meeting_note(hosts: Sequence[str]) -> str:
    """For files that start a job without `run`: where rank 0 is, if not on the first host by name.

    `hosts` are in the order of their first ranks; "" where there is nothing to say.
    """
    if not hosts or in_natural_order(hosts)[0] == hosts[0]:
        return ""
    return (
        f"rank 0 is on {hosts[0]}: a program that meets on the job's first host needs"
        f" {_MEETING_HOST}={hosts[0]}"
    )


def _host_of_rank_0(plan: Realisation) -> str:
    seats = enumerate(plan.seating.seats)
    return next(seat.host for slot, seat in seats if plan.rank_of(slot) == 0)


def _hosts_in_order(plan: Realisation, environment: Mapping[str, str]) -> tuple[str, ...]:
    """The job's hosts as its scheduler or launcher lists them, which Slurm sorts; () if unknown."""
    allocation = allocation_of(plan.line, environment)
    if plan.line.kind is not LauncherKind.SRUN or (allocation is not None and allocation.in_job):
        return () if allocation is None else allocation.hosts
    hosts = dict.fromkeys(seat.host for seat in plan.seating.seats)
    return tuple(in_natural_order(tuple(hosts) if allocation is None else allocation.hosts))


def _in_order_of_ranks(plan: Realisation, hosts: Sequence[str]) -> tuple[str, ...]:
    """The placement's hosts in the order of their ranks, then those that have none."""
    slots = range(len(plan.seating.seats))
    by_rank = sorted(slots, key=plan.rank_of)
    own = dict.fromkeys(plan.seating.seats[slot].host for slot in by_rank)
    known = {short_name(host) for host in own}
    return (*own, *(host for host in hosts if short_name(host) not in known))


def _set_for(line: LaunchLine, name: str, environment: Mapping[str, str]) -> str | None:
    """What the ranks would have for a variable: of the line, else of the run."""
    start = f"{name}="
    for option in reversed(line.options):
        if name in option.values[:-1]:  # -genv NAME VALUE
            return option.values[option.values.index(name) + 1]
        for word in ",".join(option.values).split(","):  # -x NAME=VALUE, --export=ALL,NAME=VALUE
            if word.startswith(start):
                return word.removeprefix(start)
    return environment.get(name)


def _is_same(address: str, host: str) -> bool:
    """Whether an address is that of a host, as far as names and this host's tables tell."""
    if short_name(address) == short_name(host):
        return True
    try:
        addresses = {each[4][0] for each in socket.getaddrinfo(host, None)}
        return bool(addresses & {each[4][0] for each in socket.getaddrinfo(address, None)})
    except (OSError, UnicodeError):
        return False


def _short(hosts: str) -> str:
    text = compress_hostlist(hosts.split(",")) if hosts.count(",") > 3 else hosts
    return text if len(text) <= 60 else f"{text[:57]}..."
