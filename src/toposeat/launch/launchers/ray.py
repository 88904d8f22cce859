"""Ray: bundles of a placement group in the order of ranks."""

from __future__ import annotations

import json

from toposeat.errors import UsageError
from toposeat.launch.launchers.seats import Export, Job, LaunchFile

NAME = "ray_bundles.py"
_TEXT = '''"""Bundles of a Ray placement group in the order of ranks. Made by toposeat export."""

import os

import ray
from ray.util.placement_group import placement_group, placement_group_table

HOST_OF_RANK = {hosts}


def create(resources={{"CPU": 1, "GPU": 1}}, **options):
    """A new group: bundle r is on the host of rank r. Every node has a resource of its address."""
    hosts = host_of_node()
    address = {{hosts[n["NodeID"]]: n["NodeManagerAddress"] for n in alive()}}
    bundles = [{{**resources, "node:" + address[host]: 0.001}} for host in HOST_OF_RANK]
    return placement_group(bundles, **options)


def indices(group):
    """Of every rank its bundle in a group that exists and is ready, whatever order Ray gave it."""
    hosts, free = host_of_node(), {{}}
    for bundle, node in sorted(placement_group_table(group)["bundles_to_node_id"].items()):
        free.setdefault(hosts[node], []).append(bundle)
    return [
        on_host.pop(0) if len(on_host) > 1 else on_host[0]
        for on_host in map(free.__getitem__, HOST_OF_RANK)
    ]


def host_of_node():
    """The host of every node; that of a pod, whose own name says nothing, is in TOPOSEAT_NODE."""
    found = {{n["NodeID"]: short(n["NodeManagerHostname"]) for n in alive()}}
    if not set(HOST_OF_RANK) <= set(found.values()):
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        name = ray.remote(lambda: os.environ.get("TOPOSEAT_NODE", ""))
        on = [NodeAffinitySchedulingStrategy(node, soft=False) for node in found]
        said = [name.options(num_cpus=0, scheduling_strategy=each).remote() for each in on]
        found = {{n: short(pod) or own for (n, own), pod in zip(found.items(), ray.get(said))}}
    return found


def alive():
    return [node for node in ray.nodes() if node["Alive"]]


def short(host):
    return host.split(".", 1)[0]


if __name__ == "__main__":
    ray.init(address="auto")
    group = create()
    ray.get(group.ready())
    print(indices(group))
'''


def export(job: Job) -> Export:
    """A module with `create()` and `indices(group)`: Ray has an order of bundles of its own."""
    if not job.hosts:
        raise UsageError(
            "the placement names no hosts, and Ray orders nothing inside of one",
            hint="--launcher env before `ray start` orders the devices of a host",
        )
    hosts = [host.split(".", 1)[0] for host in job.rank_hosts.host_of_rank]
    text = _TEXT.format(hosts=json.dumps(hosts))
    return Export(
        launcher="ray",
        files=(LaunchFile(name=NAME, text=text),),
        command=("python3", NAME),
        notes=(
            "import create() or indices(group) from it; vLLM takes the indices as"
            " VLLM_RAY_BUNDLE_INDICES",
            "Ray hands out the devices of a node itself: only the hosts of ranks are exported",
        ),
    )


LAUNCHERS = ()
EXPORTS = {"ray": ("bundles of a Ray placement group in rank order", export)}
