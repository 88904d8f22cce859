"""The part of a network that a job has: its hosts, in its order, under the names that it uses."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from toposeat.errors import InputError
from toposeat.model.network import Network
from toposeat.topology.networks.builder import few


def allocated(network: Network, names: Sequence[str]) -> Network:
    """The network with these hosts only. Domains and upper case do not tell hosts apart.

    Raises:
        InputError: a host that the network does not have, or that is named twice.
    """
    exact = set(network.host_names)
    loose: dict[str, str | None] = {}
    for name in network.host_names:
        key = _loose(name)
        loose[key] = None if key in loose else name
    found = [name if name in exact else loose.get(_loose(name)) for name in names]
    missing = [name for name, host in zip(names, found, strict=True) if host is None]
    if missing:
        raise InputError(
            f"the network {network.name} has no host {few(missing)}",
            hint=f"its hosts are called like {few(network.host_names[:3])}",
        )
    chosen = [host for host in found if host is not None]
    twice = sorted(host for host, count in Counter(chosen).items() if count > 1)
    if twice:
        raise InputError(f"host {few(twice)} is named twice", hint="name each host once")
    part = network.restricted_to(chosen)
    return replace(
        part,
        hosts=tuple(replace(host, name=name) for host, name in zip(part.hosts, names, strict=True)),
    )


def _loose(name: str) -> str:
    return name.split(".", 1)[0].lower()
