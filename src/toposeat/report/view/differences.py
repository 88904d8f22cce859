"""What ranks got that was not planned."""

from __future__ import annotations

import re
from collections.abc import Sequence

from toposeat.model.cpu_list import format_cpu_list
from toposeat.model.lent import BorrowedSeat
from toposeat.model.plural import nouns
from toposeat.model.runs import RealisedSeat

_NAMES = re.compile(r"\S*\d[^\s,;)]*")


def rank_differences(
    seats: Sequence[RealisedSeat] | Sequence[BorrowedSeat], *, alike: bool = False
) -> list[str]:
    """What differs, each once, with the ranks it holds for.

    With `alike`, sentences that differ in devices, CPUs and other names with digits only are one,
    shown as that of the first rank; what most ranks have comes first.
    """
    ranks_of: dict[str, list[int]] = {}
    first: dict[str, str] = {}
    for seat in seats:
        for difference in seat.differences:
            cause = _NAMES.sub("#", difference) if alike else difference
            ranks_of.setdefault(cause, []).append(seat.rank)
            first.setdefault(cause, difference)
    said = []
    for cause, ranks in sorted(ranks_of.items(), key=_commonest) if alike else ranks_of.items():
        who = nouns(len(ranks), "rank")
        own = {d for seat in seats for d in seat.differences if _NAMES.sub("#", d) == cause}
        example = f" (rank {ranks[0]}; the others alike)" if alike and len(own) > 1 else ""
        shown = format_cpu_list(ranks).replace(",", ", ")
        said.append(f"{who} {shown}: {first[cause]}{example}")
    return said


def _commonest(cause: tuple[str, list[int]]) -> tuple[int, int]:
    return -len(cause[1]), cause[1][0]
