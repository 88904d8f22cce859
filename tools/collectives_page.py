"""The page on which algorithm each MPI is taken to use, from the rules themselves."""

from __future__ import annotations

from toposeat.profile.algorithms import Call, general, mpich, open_mpi
from toposeat.profile.algorithms.open_mpi import Rules

_INTRODUCTION = """# Algorithms of collectives

The algorithm that toposeat assumes for a collective, by operation, number of members and bytes.
[How collectives are expanded](../explanation/collectives.md) explains the names and what was
checked. "Bytes" is the size of one member's block for allgather, allgatherv (mean), alltoall,
gather, scatter and reduce_scatter_block, and of the whole vector otherwise."""

_MEMBERS = (2, 4, 7, 8, 12, 64, 1000)
_SIZES = (8, 1024, 16384, 100_000, 1_000_000)


def collectives_page() -> str:
    """The whole page."""
    parts = [_INTRODUCTION, "\n## Open MPI 4.1 and 5, on one node\n"]
    parts += ["| operation | members | algorithm by bytes |", "|---|---|---|"]
    for operation, rules in sorted(open_mpi.RULES.items()):
        parts += [f"| {operation} | {row} |" for row in _rows(rules)]
    parts += ["\n## MPICH 4 and 5\n", *_samples(mpich.choose)]
    parts += ["\n## Any other MPI\n", "| operation | algorithm |", "|---|---|"]
    for operation in sorted(open_mpi.RULES):
        chosen = general.choose(operation, Call(members=4, size=8))
        parts.append(f"| {operation} | {chosen[0] if chosen else '-'} |")
    return "\n".join(parts) + "\n"


def _rows(rules: Rules) -> list[str]:
    low, rows = 2, []
    for limit, choice in zip((*rules.members, None), rules.choices, strict=True):
        span = f"{low} and more" if limit is None else _span(low, limit - 1)
        words = [choice.names[0]]
        for size, name in zip(choice.limits, choice.names[1:], strict=True):
            words.append(f"from {size}: {name}")
        rows.append(f"{span} | {'; '.join(words)}")
        low = limit or low
    return rows


def _span(low: int, high: int) -> str:
    return f"{low}" if low == high else f"{low} to {high}"


def _samples(choose: open_mpi.Chooser) -> list[str]:
    """Rules that are no table: what they say for some members and sizes."""
    head = " | ".join(f"{size} bytes" for size in _SIZES)
    rows = [f"| operation | members | {head} |", "|---" * (len(_SIZES) + 2) + "|"]
    for operation in sorted(open_mpi.RULES):
        last = ""
        for members in _MEMBERS:
            found = [choose(operation, Call(members=members, size=size)) for size in _SIZES]
            names = " | ".join(each[0] if each else "-" for each in found)
            if names != last:
                rows.append(f"| {operation} | {members} | {names} |")
            last = names
    return rows
