"""NVLink domains that span hosts, as the fabric manager of NVIDIA's NVSwitches names them.

A GPU says the UUID of its cluster and the number of its clique, once its registration with the
fabric is completed with success. Both together are the domain: cliques are numbered anew in each
cluster, and one number stands for "none" in all of them. A UUID of zeros is that of no cluster.
The rule is that of `IsFabricAttached` of NVIDIA/go-nvlib, and of its node labels.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from toposeat.model.network import Network, NetworkLevel
from toposeat.model.topology import Topology

DOMAIN = "nvlink_domain"  # the member of a node's metadata


def domain_named(cluster: str, clique: str) -> str:
    """`CLUSTER.CLIQUE`; "" where one of them is missing, or where that is no cluster."""
    cluster, clique = cluster.strip().lower(), clique.strip()
    return f"{cluster}.{clique}" if cluster.strip("0-") and clique else ""


def domain_of_node(domains: Iterable[str]) -> dict[str, str]:
    """Metadata of a node by the domains of its GPUs: those of a node that is in one as a whole."""
    found = set(domains)
    name = found.pop() if len(found) == 1 else ""
    return {DOMAIN: name} if name else {}


def with_told_domains(network: Network, nodes: Sequence[Topology]) -> Network:
    """The network with the domains that its hosts, in their order, have said, if it has none."""
    told = [node.metadata.get(DOMAIN, "") for node in nodes]
    if network.domain is not None or len(set(filter(None, told))) == len(list(filter(None, told))):
        return network
    number: dict[str, int] = {}
    keys = (name or f"host {at}" for at, name in enumerate(told))
    groups = tuple(number.setdefault(key, len(number)) for key in keys)
    return replace(network, domain=NetworkLevel(name="NVLink domain", group_of_host=groups))
