"""torchrun's rendezvous with node ranks in the order of a plan: `--rdzv-backend=toposeat`.

It is torch's own c10d rendezvous, with the same store, end point and `--rdzv-conf`; only the node
ranks of a round are others. torch finds it by the entry point of this folder, which toposeat puts
on PYTHONPATH: the Python of torchrun seldom has toposeat, so nothing but torch and the standard
library is used here.

TOPOSEAT_NODES holds the plan as JSON: `order`, host names by node rank, and `groups`, by host name
the groups of the network that it is in, coarse ones first, also of hosts outside the plan. Each
node tells its host, and its switches by Slurm (SLURM_TOPOLOGY_ADDR), in the store before it joins.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import json
import os
import re
import socket
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NoReturn

_NAME = "toposeat"  # torch compares it with that of the line
_PLAN = "TOPOSEAT_NODES"
_NUMBERS = re.compile(r"(\d+)")
# A host, its groups by the plan, and its switches by Slurm; coarse ones first.
Node = tuple[str, tuple[str, ...], tuple[str, ...]]


def creator() -> Callable[[Any], Any]:
    """What the entry point is: it returns the function that makes a handler."""
    return create


def create(parameters: Any) -> Any:
    """The handler of one torchrun.

    Args:
        parameters: torch's `RendezvousParameters`.

    Raises:
        SystemExit: there is no plan, or this torch works in another way inside.
    """
    order, groups = _plan(os.environ.get(_PLAN, ""))
    try:
        from torch.distributed.elastic.rendezvous import (  # noqa: PLC0415
            c10d_rendezvous_backend,
            dynamic_rendezvous,
        )

        backend, store = c10d_rendezvous_backend.create_backend(parameters)
        handler = dynamic_rendezvous.create_handler(store, backend, parameters)
        executor, own = handler._op_executor, handler._this_node
        complete, handler._backend_name = executor._mark_rendezvous_complete, _NAME
        _separate_starts(handler)
    except (ImportError, AttributeError) as error:
        _refuse(f"this torch has another rendezvous inside ({error}): use --rdzv-backend=c10d")
    host = os.environ.get("TOPOSEAT_NODE") or socket.gethostname()  # the name of a pod says nothing
    told = [host, groups.get(_short(host), ()), _slurm()]
    store.set(_key(parameters.run_id, own), json.dumps(told))
    node_of = functools.cache(functools.partial(_node_of, store, parameters.run_id))

    def mark_complete() -> None:
        complete()  # in the order of addresses
        participants = executor._state.participants
        try:
            nodes = {each: node_of(each) for each in sorted(participants)}
            ranks = {each: rank for rank, each in enumerate(in_order(nodes, order))}
        except Exception as error:
            print(f"toposeat: nodes are in the order of their names: {error!r}", file=sys.stderr)  # noqa: T201
            return
        participants.update(ranks)

    executor._mark_rendezvous_complete = mark_complete
    return handler


def _separate_starts(handler: Any) -> None:
    """Give the ranks of every start a store of their own.

    In one that agents keep, ranks that start anew find what the last ones left; or, in older
    versions, keys that are named by a count of starts, which differs between nodes.
    """
    ranks = importlib.import_module("torch.distributed.rendezvous")
    if "TORCHELASTIC_RESTART_COUNT" in inspect.getsource(ranks):
        os.environ["TORCH_DISABLE_SHARE_RDZV_TCP_STORE"] = "1"
    next_rendezvous = handler.next_rendezvous

    def next_round() -> Any:
        handler._bootstrap_store_info = handler._shared_tcp_store_server = None
        return next_rendezvous()

    handler.next_rendezvous = next_round


def in_order(nodes: Mapping[Any, Node], order: Sequence[str]) -> list[Any]:
    """The keys of `nodes` by node rank.

    Hosts of the plan keep its order, whichever of them are there. Another one comes right behind
    the host that is nearest to it: in most of its groups, and next by the number in its name.
    """
    position = {_short(host): at for at, host in enumerate(order)}
    known = [key for key, (host, *_) in nodes.items() if _short(host) in position]
    found = sorted(known, key=lambda key: position[_short(nodes[key][0])])
    others = [key for key in nodes if key not in found]
    for key in sorted(others, key=lambda key: (nodes[key][1:], _parts(nodes[key][0]))):
        near = [_nearness(nodes[key], nodes[each]) for each in found]
        last = len(near) - near[::-1].index(max(near)) if near else 0
        found.insert(last, key)
    return found


def _nearness(one: Node, other: Node) -> tuple[int, int, int, int]:
    """More is nearer: groups, switches, parts of the name in common; less what numbers differ."""
    names = list(zip(_parts(one[0]), _parts(other[0]), strict=False))
    same = _alike(names)
    apart = abs(names[same][0][0] - names[same][1][0]) if same < len(names) else 0
    groups, switches = (_alike(zip(one[at], other[at], strict=False)) for at in (1, 2))
    return groups, switches, same, -apart


def _alike(pairs: Iterable[tuple[Any, Any]]) -> int:
    """How many pairs are alike before the first that is not."""
    count = 0
    for first, second in pairs:
        if first != second:
            break
        count += 1
    return count


def _parts(host: str) -> list[tuple[int, str]]:
    """The name with its numbers as numbers, so that n2 is before n10."""
    parts = _NUMBERS.split(_short(host))
    return [(int(part), "") if part.isdigit() else (-1, part) for part in parts]


def _short(host: str) -> str:
    return host.partition(".")[0].lower()


def _slurm() -> tuple[str, ...]:
    """The switches above this node, where Slurm has a topology: `spine.leaf1.n2`."""
    names = os.environ.get("SLURM_TOPOLOGY_ADDR_PATTERN", "").count(".")
    return tuple(os.environ.get("SLURM_TOPOLOGY_ADDR", "").split(".", names)[:-1])


def _key(run: str, node: Any) -> str:
    return f"toposeat/{run}/{node!r}"


def _node_of(store: Any, run: str, node: Any) -> Node:
    """What a participant told of itself; its address, where it has another handler."""
    key = _key(run, node)
    if not store.check([key]):
        return node.addr, (), ()
    host, groups, switches = json.loads(store.get(key))
    return host, tuple(groups), tuple(switches)


def _plan(text: str) -> tuple[list[str], dict[str, tuple[str, ...]]]:
    if not text and os.environ.get("TOPOSEAT_PROFILE_DIR"):
        return [], {}  # it is recorded, to make a plan
    try:
        plan = json.loads(text)
        order = [str(host) for host in plan["order"]]
        groups = {_short(host): tuple(map(str, own)) for host, own in plan["groups"].items()}
    except (ValueError, TypeError, KeyError, AttributeError):
        _refuse(f"{_PLAN} holds no order of nodes: start torchrun by 'toposeat run' or its export")
    return order, groups


def _refuse(why: str) -> NoReturn:
    raise SystemExit(f"toposeat: error: --rdzv-backend={_NAME}: {why}")
