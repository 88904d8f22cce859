"""The page's part on a profile: verdict, pairs, sizes, time, phases, devices, other worlds."""

from __future__ import annotations

from collections.abc import Sequence

from toposeat.model.traffic import Traffic
from toposeat.report.html.figures import View
from toposeat.report.html.tables import Table, totals
from toposeat.report.svg.profile import histogram_legend
from toposeat.report.svg.profile_chart import part_class, share_bar, size_histogram, time_bars
from toposeat.report.units import format_percent
from toposeat.report.view.traffic import (
    COLLECTIVE_HEADER,
    DEVICE_HEADER,
    GROUP_HEADER,
    NOT_TIMED,
    PAIR_HEADER,
    PHASE_HEADER,
    WORLD_HEADER,
    choice_words,
    collective_rows,
    device_rows,
    gain_words,
    group_rows,
    is_timed,
    pair_rows,
    phase_rows,
    time_parts,
    time_rows,
    unfinished_words,
    world_rows,
)

_TOP = 8


def profile_parts(traffic: Traffic) -> View:
    """Everything on a traffic but its heat maps."""
    # What share of the run could gain at all; nothing for a pattern, which no run is behind.
    of_a_run = not traffic.timed or bool(traffic.rank_info)
    modelled = traffic.collective_model
    tables = [
        _table("Heaviest pairs", PAIR_HEADER, pair_rows(traffic, _TOP), (1, 2, 3)),
        _table("Collectives (all ranks)", COLLECTIVE_HEADER, collective_rows(traffic), (2, 3)),
        _table("Groups that a library orders itself", GROUP_HEADER, group_rows(traffic), (4,)),
        _table(
            "Phases (measured)" if traffic.rank_info else "Phases",
            PHASE_HEADER,
            phase_rows(traffic),
            (1, 2, 3, 4, 5),
        ),
        _table("Devices by rank", DEVICE_HEADER, device_rows(traffic), (0, 2, 5)),
    ]
    worlds = _table("Other worlds", WORLD_HEADER, world_rows(traffic), (1, 3, 4, 5))
    return {
        "gain": gain_words(traffic) if of_a_run else "",
        "totals": totals(traffic),
        "modelled": f"Collective bytes are modelled edges: {modelled}" if modelled else "",
        "sizes": _sizes(traffic),
        "time": _run_time(traffic),
        "tables_before_choice": [table for table in tables if table is not None],
        "choice": choice_words(traffic),
        "tables_after_choice": [] if worlds is None else [worlds],
    }


def _table(
    caption: str, header: Sequence[str], rows: Sequence[Sequence[str]], numbers: Sequence[int]
) -> Table | None:
    return Table(header, rows, numbers=numbers, caption=caption) if rows else None


def _sizes(traffic: Traffic) -> View | None:
    """The histogram of message sizes, if it was recorded."""
    legend, series = histogram_legend(traffic)
    chart = size_histogram(series) if series else None
    return None if chart is None else {"legend": legend, "chart": chart}


def _run_time(traffic: Traffic) -> View | None:
    """Share of the run and time per rank, if the traffic comes from a timed run."""
    if not is_timed(traffic):
        heading = f"Time in MPI: {NOT_TIMED}"
        return {"heading": heading, "share": None} if traffic.rank_info else None
    parts = time_parts(traffic)
    rows = [row[:3] for row in time_rows(traffic)]
    return {
        "heading": "Share of the run's time (measured while profiling)",
        "legend": [(part_class(p), f"{p.name} ({format_percent(p.share)})") for p in parts[:-1]],
        "share": share_bar(parts),
        "table": Table(("all ranks", "time", "of the run"), rows, numbers=(1, 2)),
        "ranks": time_bars(traffic.rank_info),
        "unfinished": unfinished_words(traffic),
    }
