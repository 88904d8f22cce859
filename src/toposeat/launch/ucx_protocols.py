"""What UCX says it does with device messages: the tables that `UCX_PROTO_INFO=y` prints.

[time] [host:pid:thread]   | tagged message by ucp_tag_send*(multi) from cuda/GPU0      |
[time] [host:pid:thread]   |    Range     |      Description      |     Config          |
[time] [host:pid:thread]   |  38974..512K | (?) rendezvous ...    | cuda_ipc/cuda       |
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict

from toposeat.model.protocol import ProtocolRule, rule_of_pieces
from toposeat.model.route import CopyProtocol

_LINE = re.compile(r"\[([^\[\]\s]+?):(\d+)\s*:\d+\]\s+\|(.*)\|\s*$")
_TITLE = re.compile(r"^\s*tagged message by ucp_tag_send\*\S* from (?!host)(\w+)\S*\s*$")
_RANGE = re.compile(r"^\s*(\d+)([KMG]?)(?:\.\.(?:\d+[KMG]?|inf))?\s*$")
_UNIT = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
_MOST_LINES = 200_000


def device_rule(output: str) -> ProtocolRule | None:
    """The rule that most processes print for messages from device memory within a node.

    Whatever is not a copy through `cuda_ipc` goes through host memory.

    Args:
        output: everything that the ranks printed.

    Returns:
        The rule; None if no process printed a table for device memory.
    """
    rules: Counter[ProtocolRule] = Counter()
    pieces: defaultdict[str, list[tuple[int, CopyProtocol]]] = defaultdict(list)
    within: dict[str, bool] = {}
    reading: dict[str, bool] = {}

    def close(process: str) -> None:
        if pieces[process]:
            rules[rule_of_pieces(pieces.pop(process))] += 1

    for line in output.splitlines()[:_MOST_LINES]:
        match = _LINE.search(line)
        if match is None:
            continue
        process, body = f"{match[1]}:{match[2]}", match[3]
        cells = body.split("|")
        if len(cells) == 1:
            close(process)
            if " cfg#" in body:
                within[process] = "intra-node" in body
            reading[process] = within.get(process, False) and _TITLE.match(body) is not None
        elif reading.get(process) and len(cells) == 3:
            place = _RANGE.match(cells[0])
            if place is not None:
                first = int(place[1]) * _UNIT[place[2]]
                pieces[process].append((first, _protocol(cells[1], cells[2])))
    for process in list(pieces):
        close(process)
    return max(rules, key=lambda rule: (rules[rule], rule.pieces)) if rules else None


def _protocol(description: str, config: str) -> CopyProtocol:
    if "cuda_ipc" not in config or "eager" in description or "frag host" in description:
        return CopyProtocol.STAGED
    return CopyProtocol.GET if "read from remote" in description else CopyProtocol.PUT
