"""Hosts in the same places, against every choice of hosts."""

import random
from dataclasses import replace
from itertools import permutations

import pytest

from toposeat.model.network import NetworkKind, NetworkLevel
from toposeat.topology import hosts_in_same_places
from toposeat.topology.networks.builder import HostPath, NetworkBuilder


def tree(paths):
    builder = NetworkBuilder()
    builder.hang([HostPath(host, path) for host, path in paths.items()])
    return builder.build(name="tree", origin="test")


def drawn(rng, hosts):
    """Hosts at random below two to four leaves below one or two spines."""
    leaves = rng.randint(2, 4)
    paths = {}
    for number in range(hosts):
        leaf = rng.randrange(leaves)
        paths[f"n{number}"] = ("core", f"spine{leaf % 2}", f"leaf{leaf}")
    return tree(paths)


def meeting(network, a, b):
    """How many levels have both hosts in one group."""
    at, other = network.host_names.index(a), network.host_names.index(b)
    return sum(level.group_of_host[at] == level.group_of_host[other] for level in network.levels)


def is_alike(network, kinds, given):
    names = list(given)
    return (
        len(set(given.values())) == len(names)
        and all(kinds[name] == kinds[given[name]] for name in names)
        and all(
            meeting(network, a, b) == meeting(network, given[a], given[b])
            for a in names
            for b in names
        )
    )


@pytest.mark.parametrize("seed", range(150))
def test_against_every_choice(seed):
    rng = random.Random(seed)
    network = drawn(rng, 8)
    names = list(network.host_names)
    kinds = {name: rng.choice((0, 0, 1)) for name in names}
    hosts = rng.sample(names, rng.randint(2, 4))
    free = rng.sample(names, rng.randint(len(hosts), 6))
    choices = (dict(zip(hosts, chosen, strict=True)) for chosen in permutations(free, len(hosts)))
    possible = any(is_alike(network, kinds, choice) for choice in choices)
    found = hosts_in_same_places(network, hosts, free, kinds.__getitem__)
    assert (found is not None) == possible
    if found is not None:
        assert is_alike(network, kinds, dict(found))
        assert set(found.values()) <= set(free)


def test_free_hosts_stand_for_themselves():
    network = tree({f"n{i}": ("core", f"leaf{i // 2}") for i in range(8)})
    found = hosts_in_same_places(network, ["n2", "n3", "n6"], ["n0", "n2", "n3", "n7"])
    assert found == {"n2": "n2", "n3": "n3", "n6": "n7"}
    assert hosts_in_same_places(network, ["n2", "n3"], ["n0", "n5", "n7"]) is None


def test_what_is_no_tree_tells_no_places():
    network = tree({f"n{i}": ("core", f"leaf{i // 2}") for i in range(4)})
    graph = replace(network, kind=NetworkKind.GRAPH)
    assert hosts_in_same_places(graph, ["n0"], ["n2"]) is None
    assert hosts_in_same_places(network, ["n0"], ["x"]) is None
    crossed = replace(network, domain=NetworkLevel(name="domain", group_of_host=(0, 1, 1, 0)))
    assert hosts_in_same_places(crossed, ["n0"], ["n2"]) is None
