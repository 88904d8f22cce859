"""Two profiles side by side: what grew, and what moved between pairs of ranks and nodes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from toposeat.model.traffic import PairTable, Traffic
from toposeat.report.parts import Fact, Part, Table, Words, facts, sentences, titled_list
from toposeat.report.text import PLAIN, TextStyle, lay_out
from toposeat.report.units import (
    clean,
    format_bytes,
    format_change,
    format_count,
    format_percent,
    format_seconds,
    plural,
    span,
    three_digits,
)
from toposeat.report.view.traffic import (
    NOT_TIMED,
    bytes_of,
    gain_share,
    is_timed,
    kind_words,
    mpi_share,
    time_parts,
    traffic_sentence,
)

_UNITS: Mapping[str, Callable[[float], str]] = {
    "bytes": format_bytes,
    "seconds": format_seconds,
    "share": format_percent,
    "count": format_count,
    "mean": three_digits,
}
_CHANGED = 0.0005  # a smaller relative change is none
_WORTH_NAMING = 0.01  # of all of its kind


class Figure(Struct, frozen=True, kw_only=True):
    """A number of both runs; 0 where a run has nothing of it, None where it is not known.

    `unit` is a key of `_UNITS`. With `summed`, the number is over all ranks: of runs with different
    numbers of ranks, what one rank has says more.
    """

    name: str
    unit: str
    before: float | None
    after: float | None
    summed: bool = True


class Move(Struct, frozen=True, kw_only=True):
    """Bytes from one end to another, before and after: ranks, or nodes."""

    source: str
    target: str
    before: int
    after: int


class Moves(Struct, frozen=True, kw_only=True):
    """What left directed pairs, and what came to others; `most` are those that changed most."""

    pairs_left: int
    bytes_left: int
    pairs_came: int
    bytes_came: int
    most: tuple[Move, ...]


class ProfileChange(Struct, frozen=True, kw_only=True):
    """Two profiles, figure by figure.

    `groups` are figures under a title. `ranks` and `nodes` are None where the runs have different
    numbers of them, or of nodes none is known: then they are not compared one by one.
    """

    names: tuple[str, str]
    profiles: tuple[Traffic, Traffic]
    groups: Mapping[str, tuple[Figure, ...]]
    ranks: Moves | None
    nodes: Moves | None

    @property
    def same_ranks(self) -> bool:
        """Whether both runs have the same number of ranks."""
        return self.profiles[0].ranks == self.profiles[1].ranks


def compare_profiles(
    before: Traffic, after: Traffic, names: tuple[str, str], most: int = 8
) -> ProfileChange:
    """The change from one profile to another; `most` pairs of each kind are named."""
    both = (before, after)
    nodes = [_nodes(each) for each in both]
    are_known = all(len(each) for each in nodes)
    groups = {
        "Time": _times(both),
        "Bytes and messages": _sizes(both),
        "Collectives": _collectives(both),
        "Nodes": _within(both, nodes) if are_known else (),
        "Phases": _phases(both),
    }
    by_node, labels = [], [""]
    if are_known and len(nodes[0]) == len(nodes[1]) > 1:
        by_node = [_between_nodes(each, of) for each, of in zip(both, nodes, strict=True)]
        labels = [span(a, b, joint=" / ") for a, b in zip(*nodes, strict=True)]
    tables = [each.table() for each in both]
    return ProfileChange(
        names=names,
        profiles=both,
        groups={title: figures for title, figures in groups.items() if figures},
        ranks=_moves(tables, None, most) if before.ranks == after.ranks else None,
        nodes=_moves(by_node, labels, most) if by_node else None,
    )


# ---- figures


def _times(both: tuple[Traffic, Traffic]) -> tuple[Figure, ...]:
    if not all(map(is_timed, both)):
        return ()
    wall = [max(info.wall_s for info in each.rank_info) for each in both]
    parts = [{part.name: part for part in time_parts(each)} for each in both]
    found = [
        _own("run, slowest rank", "seconds", *wall),
        _own("of it in MPI", "share", *map(mpi_share, both)),
        _own("of it that placement could shorten", "share", *map(gain_share, both)),
    ]
    names = dict.fromkeys(name for each in parts for name in each)
    for name in names:
        spent = [each[name].seconds if name in each else 0.0 for each in parts]
        found.append(Figure(name=name, unit="seconds", before=spent[0], after=spent[1]))
    for name in names:
        calls = [(each[name].calls or 0) if name in each else 0 for each in parts]
        if any(calls):
            words = f"{name}: calls"
            found.append(Figure(name=words, unit="count", before=calls[0], after=calls[1]))
    return tuple(found)


def _own(name: str, unit: str, before: float | None, after: float | None) -> Figure:
    return Figure(name=name, unit=unit, before=before, after=after, summed=False)


def _sizes(both: tuple[Traffic, Traffic]) -> tuple[Figure, ...]:
    tables = [
        {kind_words(kind.value, space): t for (kind, space), t in each.tables.items()}
        for each in both
    ]
    sizes = [{name: int(t.bytes.sum()) for name, t in each.items()} for each in tables]
    counts = [{name: int(t.messages.sum()) for name, t in each.items()} for each in tables]
    partners = [len(each.mapped_table()) / each.ranks for each in both]
    return (
        *_figures("bytes", sizes),
        *_figures("count", counts, ": messages"),
        _own("partners that a rank sends to", "mean", *partners),
    )


def _collectives(both: tuple[Traffic, Traffic]) -> tuple[Figure, ...]:
    calls: list[Counter[str]] = [Counter(), Counter()]
    given: list[Counter[str]] = [Counter(), Counter()]
    for each, of_calls, of_bytes in zip(both, calls, given, strict=True):
        for event in each.collectives:
            name = kind_words(event.operation, event.space)
            of_calls[name] += event.calls
            of_bytes[name] += event.calls * event.bytes
    return (*_figures("count", calls, ": calls"), *_figures("bytes", given, ": bytes given"))


def _phases(both: tuple[Traffic, Traffic]) -> tuple[Figure, ...]:
    lasts: list[dict[str, float]] = [{}, {}]
    sizes: list[Counter[str]] = [Counter(), Counter()]
    for each, of_time, of_bytes in zip(both, lasts, sizes, strict=True):
        for phase in each.phases:
            name = clean(phase.label) or f"phase {phase.index}"
            of_time[name] = of_time.get(name, 0.0) + phase.active_s
            of_bytes[name] += bytes_of(phase.tables)
    return (*_figures("seconds", lasts), *_figures("bytes", sizes, ": bytes"))


def _figures(unit: str, both: Sequence[Mapping[str, float]], suffix: str = "") -> list[Figure]:
    """A figure for each name that either run has something of, the largest first."""
    before, after = both
    names = sorted(
        dict.fromkeys((*before, *after)),
        key=lambda name: -max(before.get(name, 0), after.get(name, 0)),
    )
    return [
        Figure(name=name + suffix, unit=unit, before=before.get(name, 0), after=after.get(name, 0))
        for name in names
        if before.get(name) or after.get(name)
    ]


def _nodes(traffic: Traffic) -> list[str]:
    """Names of the nodes in the order of their first ranks; [] where a rank's is not known."""
    hosts = {info.rank: clean(info.host) for info in traffic.rank_info if info.host}
    return [*dict.fromkeys(hosts.values())] if len(hosts) == traffic.ranks else []


def _between_nodes(traffic: Traffic, nodes: Sequence[str]) -> PairTable:
    """Bytes and messages by number of node, those within a node too."""
    number = {name: at for at, name in enumerate(nodes)}
    of_rank = np.zeros(traffic.ranks, np.int64)
    for info in traffic.rank_info:
        of_rank[info.rank] = number[clean(info.host)]
    table = traffic.table()
    return PairTable.from_pairs(
        of_rank[table.source], of_rank[table.target], table.bytes, table.messages
    )


def _within(both: tuple[Traffic, Traffic], nodes: Sequence[Sequence[str]]) -> tuple[Figure, ...]:
    inside, outside = [], []
    for each, names in zip(both, nodes, strict=True):
        table = _between_nodes(each, names)
        is_inside = table.source == table.target
        inside.append(int(table.bytes[is_inside].sum()))
        outside.append(int(table.bytes[~is_inside].sum()))
    shares = [b / (a + b) if a + b else None for a, b in zip(inside, outside, strict=True)]
    counts = [len(each) for each in nodes]
    if max(counts) == 1:
        return ()
    return (
        _own("nodes", "count", *counts),
        Figure(name="within nodes", unit="bytes", before=inside[0], after=inside[1]),
        Figure(name="between nodes", unit="bytes", before=outside[0], after=outside[1]),
        _own("of all, between nodes", "share", *shares),
    )


def _moves(both: Sequence[PairTable], labels: Sequence[str] | None, most: int) -> Moves:
    """What left pairs and what came to pairs; ends are called by `labels`, else by number."""
    ends = [np.stack([table.source, table.target], axis=1) for table in both]
    pairs, at = np.unique(np.concatenate(ends), axis=0, return_inverse=True)
    at = at.reshape(-1)
    split = len(ends[0])
    sizes: list[NDArray[np.int64]] = []
    for table, place in zip(both, (at[:split], at[split:]), strict=True):
        size = np.zeros(len(pairs), np.int64)
        np.add.at(size, place, table.bytes)
        sizes.append(size)
    change = sizes[1] - sizes[0]
    order = np.argsort(-np.abs(change), kind="stable")[:most]
    name: Callable[[int], str] = str if labels is None else labels.__getitem__
    return Moves(
        pairs_left=int((change < 0).sum()),
        bytes_left=int(-change[change < 0].sum()),
        pairs_came=int((change > 0).sum()),
        bytes_came=int(change[change > 0].sum()),
        most=tuple(
            Move(
                source=name(int(pairs[n, 0])),
                target=name(int(pairs[n, 1])),
                before=int(sizes[0][n]),
                after=int(sizes[1][n]),
            )
            for n in order
            if change[n]
        ),
    )


# ---- words


def render_profiles_text(change: ProfileChange, style: TextStyle = PLAIN) -> str:
    """Two profiles side by side."""
    return lay_out([*change_summary(change), *change_tables(change)], style)


def change_summary(change: ProfileChange) -> list[Part]:
    """The verdict, what grew most, and what both profiles are."""
    names = [clean(name) for name in change.names]
    before, after = change.profiles
    return [
        *facts(Verdict=change_words(change), Grew=_grown(change, 1), Shrank=_grown(change, -1)),
        "",
        Fact("Before", f"{names[0]}: {traffic_sentence(before)}"),
        Fact("After", f"{names[1]}: {traffic_sentence(after)}"),
        *_patterns(change),
    ]


def change_tables(change: ProfileChange) -> list[Part]:
    """A table for each group of figures, what moved, and what could not be compared."""
    parts: list[Part] = []
    for title, figures in change.groups.items():
        parts += ["", _figure_table(title, figures, change)]
    parts += _moved("pairs of ranks", change.ranks, "rank")
    parts += _moved("pairs of nodes", change.nodes, "")
    return [*parts, *_notes(change)]


def change_words(change: ProfileChange) -> str:
    """`bytes 10.0 MiB to 20.0 MiB (+100 %); run 10.0 s to 14.0 s (+40 %), in MPI 40 % to 55 %`."""
    before, after = change.profiles
    whose = ""
    sizes = [float(each.table().bytes.sum()) for each in change.profiles]
    said = []
    if not change.same_ranks:
        said.append(f"{before.ranks} ranks to {after.ranks}")
        sizes = [size / each.ranks for size, each in zip(sizes, change.profiles, strict=True)]
        whose = " of a rank"
    said.append(_from_to(f"bytes{whose}", "bytes", *sizes))
    times = change.groups.get("Time")
    if times:
        run, *shares = times[:2]
        inside = span(*(_value(each, v) for each in shares for v in (each.before, each.after)))
        said.append(f"{_from_to('run', 'seconds', run.before, run.after)}, in MPI {inside}")
    else:
        said.append(f"time {NOT_TIMED} in both")
    return "; ".join(said)


def _from_to(name: str, unit: str, before: float | None, after: float | None) -> str:
    assert before is not None
    assert after is not None
    form = _UNITS[unit]
    if not _differs(before, after):
        return f"{name} {form(after)} in both"
    return f"{name} {form(before)} to {form(after)} ({format_change(before, after)})"


def _grown(change: ProfileChange, sign: int) -> str:
    """What grew (1) or shrank (-1) most: of time, of bytes and of calls the largest change.

    Of runs with different numbers of ranks: what a rank has.
    """
    said = []
    for title, unit in (
        ("Time", "seconds"),
        ("Bytes and messages", "bytes"),
        ("Collectives", "count"),
        ("Nodes", "bytes"),
    ):
        figures = [
            _scaled(each, change)
            for each in change.groups.get(title, ())
            if each.unit == unit and each.summed
        ]
        whole = max(sum(row[1] for row in figures), sum(row[2] for row in figures))
        name, before, after = max(
            figures, key=lambda row: sign * (row[2] - row[1]), default=("", 0.0, 0.0)
        )
        by = sign * (after - before)
        if by > _WORTH_NAMING * whole:
            form = three_digits if unit == "count" and by < 10 else _UNITS[unit]
            said.append(f"{name} {'+' if sign > 0 else '-'}{form(by)} ({_change(before, after)})")
    whose = "" if change.same_ranks else " a rank"
    return "; ".join(said) + (whose if said else "")


def _scaled(figure: Figure, change: ProfileChange) -> tuple[str, float, float]:
    """Name and both values, of a rank where the runs have different numbers of them."""
    values = [figure.before or 0.0, figure.after or 0.0]
    if not change.same_ranks:
        values = [value / each.ranks for value, each in zip(values, change.profiles, strict=True)]
    return figure.name, values[0], values[1]


def _figure_table(title: str, figures: Sequence[Figure], change: ProfileChange) -> Table:
    """Before, after, and the change; of what all ranks have together, that of one rank."""
    rows: list[Sequence[Words]] = [
        (
            each.name,
            _value(each, each.before),
            _value(each, each.after),
            _figure_change(each, change),
        )
        for each in figures
    ]
    header = (title.lower(), "before", "after", "change" if change.same_ranks else "of a rank")
    return Table(header, rows, right=(1, 2, 3), fold=(0,))


def _figure_change(figure: Figure, change: ProfileChange) -> str:
    if figure.before is None or figure.after is None:
        return "-"
    if figure.unit == "share":
        return f"{100 * (figure.after - figure.before):+.0f} points"
    if figure.summed:
        return _change(*_scaled(figure, change)[1:])
    return _change(figure.before, figure.after)


def _value(figure: Figure, value: float | None) -> str:
    return "-" if value is None else _UNITS[figure.unit](value)


def _change(before: float, after: float) -> str:
    if not before and after:
        return "new"
    if before and not after:
        return "gone"
    return format_change(before, after)


def _differs(before: float, after: float) -> bool:
    return abs(after - before) > _CHANGED * max(abs(before), abs(after))


def _moved(what: str, moves: Moves | None, of: str) -> list[Part]:
    """What left pairs and came to others, and the pairs that changed most."""
    if moves is None:
        return []
    if not moves.most:
        return ["", f"No change: {what} carry the same bytes in both."]
    said = (
        f"{format_bytes(moves.bytes_left)} left {_counted(moves.pairs_left, what)},"
        f" {format_bytes(moves.bytes_came)} came to {_counted(moves.pairs_came, what)}"
    )
    rows = [
        (
            f"{of} {each.source} -> {each.target}".strip(),
            format_bytes(each.before),
            format_bytes(each.after),
            _change(each.before, each.after),
        )
        for each in moves.most
    ]
    header = (f"{what}, most changed", "before", "after", "change")
    return ["", said, Table(header, rows, right=(1, 2, 3), fold=(0,))]


def _counted(count: int, what: str) -> str:
    first, _, rest = what.partition(" ")
    return f"{plural(count, first.removesuffix('s'))} {rest}"


def _patterns(change: ProfileChange) -> list[Part]:
    before, after = (clean(each.metadata.get("pattern", "")) for each in change.profiles)
    if before == after:
        return facts(Pattern=before)
    return facts(Pattern=f"before: {before or 'none'}; after: {after or 'none'}")


def _notes(change: ProfileChange) -> list[Part]:
    """What could not be compared, and the doubts of either profile."""
    said = []
    if not change.same_ranks:
        said.append("Runs of different numbers of ranks: pairs are not compared one by one.")
    untimed = [
        name for name, each in zip(change.names, change.profiles, strict=True) if not is_timed(each)
    ]
    if untimed:
        said.append(f"Times are not compared: none in {' and '.join(map(clean, untimed))}.")
    doubts = [
        f"{clean(name)}: {doubt}"
        for name, each in zip(change.names, change.profiles, strict=True)
        for doubt in each.report
    ]
    lines = sentences(said)
    more = titled_list("Doubts", doubts)
    return [*([""] if lines or more else []), *lines, *more]
