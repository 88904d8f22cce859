"""One node of a job says what it is: `python -m toposeat.pipeline.node_discovery HOME`."""

from __future__ import annotations

import json
import os
import re
import socket
import sys
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

from toposeat.errors import ToposeatError, UnavailableError
from toposeat.launch.home_wire import send_home
from toposeat.launch.ledger import REFUSED_ON_NODES
from toposeat.model.topology import Device, Topology
from toposeat.topology import discover_this, own_part, parse_topology, topology_text

_ERROR = ".error"


def discovery_command(home: str, named_by: str = "") -> list[str]:
    """What to start on every node; `home` is `Home.words`, `named_by` of the line's launcher."""
    return [sys.executable, "-P", "-m", __name__, home, named_by]


def nodes_of_answers(answers: Mapping[str, bytes]) -> dict[str, Topology]:
    """The nodes that answered, by host name.

    Raises:
        UnavailableError: a node has no GPU for this job.
        ToposeatError: an answer is damaged.
    """
    nodes, failed = {}, {}
    for name, data in answers.items():
        host = name.removesuffix(_ERROR)
        if name.endswith(_ERROR):
            failed[host] = json.loads(data)
        else:
            node = parse_topology(data.decode("utf-8"), Path(f"what {host} answered"))
            nodes[host] = replace(
                node, devices=_on(host, node.devices), others=_on(host, node.others)
            )
    if failed:
        host, (cause, hint) = next(iter(failed.items()))
        more = f" (and {len(failed) - 1} more nodes)" if len(failed) > 1 else ""
        raise UnavailableError(f"{host}{more}: {cause}", hint=hint)
    return nodes


def _on(host: str, devices: Iterable[Device]) -> tuple[Device, ...]:
    return tuple(replace(each, host=host) for each in devices)


def main() -> int:
    """Discover this node and send it home."""
    host = re.sub(r"[^A-Za-z0-9._-]", "-", os.environ.get(sys.argv[2]) or socket.gethostname())
    try:
        machine = own_part(discover_this(), os.environ)
        name, data = host, topology_text(machine).encode("utf-8")
    except ToposeatError as error:
        name, data = host + _ERROR, json.dumps([error.message, error.hint]).encode("utf-8")
    return 0 if send_home(sys.argv[1], name, data) else REFUSED_ON_NODES


if __name__ == "__main__":
    sys.exit(main())
