"""The page on which algorithm each MPI is taken to use, from the rules themselves."""

from __future__ import annotations

from toposeat.profile.algorithms import Call
from toposeat.profile.algorithms.rules import RULES, Rules, choose_textbook

_INTRODUCTION = """# Algorithms of collectives

The algorithm that toposeat assumes for a collective, by operation, number of members and bytes.
[What collectives send](../explanation/collectives.md) explains the names and what was
checked. "Bytes" is the size of one member's block for allgather, allgatherv (mean), alltoall,
gather, scatter and reduce_scatter_block, and of the whole vector otherwise: `ring; 1024: bruck` is
ring below 1024 bytes, and bruck from there on."""


def collectives_page() -> str:
    """The whole page."""
    parts = [_INTRODUCTION, "\n## Open MPI 4.1 and 5, on one node\n"]
    parts += ["| operation | members | algorithm by bytes |", "|---|---|---|"]
    for operation, rules in sorted(RULES.items()):
        parts += [f"| {operation} | {row} |" for row in _rows(rules)]
    parts += ["\n## Any other MPI\n", "| operation | algorithm |", "|---|---|"]
    for operation in sorted(RULES):
        chosen = choose_textbook(operation, Call(members=4, size=8))
        parts.append(f"| {operation} | {chosen[0] if chosen else '-'} |")
    return "\n".join(parts) + "\n"


def _rows(rules: Rules) -> list[str]:
    low, rows = 2, []
    for limit, choice in zip((*rules.members, None), rules.choices, strict=True):
        span = f"{low} and more" if limit is None else _span(low, limit - 1)
        words = [choice.names[0]]
        for size, name in zip(choice.limits, choice.names[1:], strict=True):
            words.append(f"{size}: {name}")
        rows.append(f"{span} | {'; '.join(words)}")
        low = limit or low
    return rows


def _span(low: int, high: int) -> str:
    return f"{low}" if low == high else f"{low} to {high}"
