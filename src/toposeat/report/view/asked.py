"""What to ask of a scheduler: the size of blocks and their level, why, and the words."""

from __future__ import annotations

import re
from collections.abc import Sequence

from toposeat.model.asked import Asked, Block, Request
from toposeat.model.plural import plural
from toposeat.report.parts import Fact, Part, Table, sentences, to_copy
from toposeat.report.text import PLAIN, TextStyle, lay_out
from toposeat.report.units import clean, format_gain, format_seconds


def render_asked_text(
    asked: Asked, requests: Sequence[Request], style: TextStyle = PLAIN, *, verbose: bool = False
) -> str:
    """The answer, what is predicted, the words for schedulers, why; all sizes with `verbose`."""
    parts: list[Part] = [Fact("Ask", _ask(asked)), Fact("Predicted", _predicted(asked))]
    parts += [
        to_copy(f"{'' if at else request.scheduler:<10}{words}")
        for request in requests
        for at, words in enumerate(request.words)
    ]
    parts += sentences(asked.why)
    if verbose and asked.tried:
        rows = [
            [str(each.nodes), _where(asked, each), format_seconds(each.predicted_s)]
            for each in sorted(asked.tried, key=lambda each: (each.nodes, each.height))
        ]
        header = ("nodes", "of a block, which lie", "predicted at worst, in rank order")
        parts += ["", Table(header, rows, right=(0,))]
    return lay_out(parts, style)


def _ask(asked: Asked) -> str:
    nodes = plural(asked.nodes, "node")
    if asked.nodes == 1:
        return f"{nodes}: the job fits in"
    if asked.chosen is None:
        return f"{nodes}, anywhere: that they are near each other gains nothing"
    where = _where(asked, asked.chosen)
    if asked.blocks == 1:
        return f"{nodes}, all {where}"
    return f"{nodes} in {asked.blocks} blocks of {asked.chosen.nodes}, each {where}"


def _predicted(asked: Asked) -> str:
    scattered = format_seconds(asked.scattered_s)
    if asked.chosen is None:
        return f"{scattered} of messages wherever the nodes are"
    found = asked.chosen.predicted_s
    return (
        f"{format_seconds(found)} of messages in rank order, {scattered} on scattered nodes"
        f" ({format_gain(asked.scattered_s, found)})"
    )


def _where(asked: Asked, block: Block) -> str:
    switch = re.fullmatch(r"level (\d+)", block.level)
    if block.level.startswith("NVLink domain"):
        return f"in one {clean(block.level)}"
    if switch is None:
        return f"in one group of {clean(block.level)}"
    if switch[1] != "0":
        return f"under one switch of level {switch[1]}"
    return "in one block of Slurm" if asked.kind == "block" else "under one leaf switch"
