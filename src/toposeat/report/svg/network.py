"""A large machine as one picture: leaf by leaf, uplinks as wide as they are, hosts one by one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from toposeat.model.cpu_list import format_cpu_list
from toposeat.model.evaluation import Evaluation, HostGroup, MappingResult
from toposeat.model.network import Network
from toposeat.model.plural import plural
from toposeat.model.traffic import Traffic
from toposeat.report.svg.element import (
    Child,
    Markup,
    Picture,
    Sheet,
    drawing,
    element,
    joined,
    rect,
    text_line,
    text_width,
    titled,
    tooltip,
)
from toposeat.report.svg.machine import congestion_step
from toposeat.report.units import clean, format_rate
from toposeat.report.view.loads import (
    busy_words,
    level_bars,
    load_cells,
    placements_of,
    times_words,
)
from toposeat.report.view.mapping import said_of
from toposeat.report.view.network import network_words, rate_lines
from toposeat.report.view.traffic import traffic_sentence

WIDTH = 1208.0
_ROOM = 420.0  # height of one picture, of the two that a screen should show
_GAP = 7.0
_NECK = 18.0  # height of an uplink
_BAR = 19.0
_LEAST_TILE = 28.0
_TALLEST_ROW = 15.0
_SMALL = 9.5  # size of letters
_MARK = 4.0  # width of the mark of a host's NICs
_LEAST_CELL, _WIDEST_CELL = 4.0, 40.0
_LEAST_NAMED = 12.0  # height of a row that has room for letters
_FAINTEST = 0.14  # opacity of rank 0


@dataclass(frozen=True)
class _Grid:
    """How leaves are dealt to bands, and hosts to the columns of a leaf."""

    bands: tuple[tuple[int, ...], ...]  # leaves, by number
    tile: float
    columns: int
    rows: int
    row: float
    levels: int  # of switches that are drawn
    words: float  # room for the name and the ranks of a host; 0: there is none

    @property
    def head(self) -> float:
        """Height of the switches of a band, leaves included."""
        return self.levels * (_BAR + _NECK) + _BAR + 2

    @property
    def pitch(self) -> float:
        """From a band to the next one."""
        return self.head + self.rows * self.row + 14


_Stages = Sequence[Sequence[HostGroup]]


@dataclass(frozen=True)
class _Shown:
    """The hosts of a machine; with a placement on it the congestion that the colours end at."""

    hosts: Sequence[str]
    devices: int  # per host
    stages: _Stages
    ranks: int = 0
    ranks_of_host: Sequence[Sequence[int]] = ()  # by device; -1: no rank
    evaluation: Evaluation | None = None
    top_s: float = 0.0

    def words(self, host: int) -> str:
        """The name of a host and its ranks."""
        return f"{clean(self.hosts[host])} {self.listed(host)}".strip()

    def listed(self, host: int) -> str:
        """The ranks of a host, in ranges."""
        ranks = self.ranks_of_host[host] if self.ranks_of_host else ()
        return format_cpu_list(rank for rank in ranks if rank >= 0)


def network_svg(result: MappingResult, name: str, *, label: str) -> Markup:
    """The machine under one placement, `default` or `placed`, as an inline `<svg>`.

    Both are drawn alike, and colours of links end at the busiest one of both.
    """
    both = {each: _shown(result, each) for each in ("default", "placed")}
    return _picture(both[name], list(both.values()), label)


def _picture(shown: _Shown, alike: Sequence[_Shown], label: str) -> Markup:
    """One of several pictures that are drawn alike."""
    texts = (each.words(host) for each in alike for host in range(len(each.hosts)))
    grid = _grid(shown, max(text_width(text, _SMALL) for text in texts) + 6)
    parts = [_band(shown, grid, at, leaves) for at, leaves in enumerate(grid.bands)]
    height = len(grid.bands) * grid.pitch
    return drawing("machine network", (WIDTH, height), label, *parts)


def bare_network_svg(network: Network, stages: _Stages) -> Markup:
    """A network without a placement, as an inline `<svg>`; `stages` are its groups of hosts."""
    shown = _Shown(network.host_names, network.devices_per_host or 1, stages)
    return _picture(shown, [shown], network_words(network))


def network_file(
    network: Network, stages: _Stages, notes: Sequence[str] = (), *, created: str = ""
) -> str:
    """A standalone SVG file: title, source, every host and uplink, what they carry, notes.

    `stages` are the network's groups of hosts, the smallest first; empty: there are too many to
    draw.
    """
    title = network_words(network)
    by = f" ({', '.join(map(clean, network.sources))})" if network.sources else ""
    said = f"Source: {clean(network.origin)}{by}" + (f". Drawn {created}" if created else "")
    sheet = Sheet(title, WIDTH + 32)
    sheet.list_line(title, "title")
    facts = [*rate_lines(network), *notes]
    for words, look in ((said, "axis"), *((words, "") for words in facts)):
        sheet.line(words, look)
        sheet.list_line(words, look)
    if not stages:
        sheet.line(f"{len(network.hosts)} hosts are too many to be drawn one by one.")
        return sheet.svg(title)
    sheet.line(PICTURE_WORDS, "axis")
    sheet.chart(bare_network_svg(network, stages))
    for group in stages[0][:_LISTED]:
        sheet.list_line(_group_words(group))
    if len(stages[0]) > _LISTED:
        sheet.list_line(f"and {len(stages[0]) - _LISTED} more")
    return sheet.svg(title)


PICTURE_WORDS = (
    "Each strip is a host. Above a group of hosts, the coloured part of the bar is what its"
    " uplinks carry of what its hosts can send."
)
_LISTED = 64


def _group_words(group: HostGroup) -> str:
    words = f"{clean(group.name)}: {plural(len(group.hosts), 'host')}"
    if group.out_bytes_per_s > 0:
        words += f", out {_out_words(group)}"
    return words


def _out_words(group: HostGroup) -> str:
    out, own = group.out_bytes_per_s, group.hosts_bytes_per_s
    taper = f", 1:{own / out:.3g}" if own > out * 1.001 else ""
    return f"{format_rate(out)} of {format_rate(own)}{taper}" if own > 0 else format_rate(out)


def top_seconds(result: MappingResult) -> float:
    """Congestion of the busiest link that a picture shows, under either placement."""
    both = (result.default, result.placed)
    return max(value for each in both for row in (each.hosts_s, *each.stages_s) for value in row)


def _shown(result: MappingResult, name: str) -> _Shown:
    rank_of_slot = np.full(result.slots, -1)
    evaluation = result.placed if name == "placed" else result.default
    rank_of_slot[list(evaluation.device_of_rank)] = np.arange(result.ranks)
    ranks = rank_of_slot.reshape(-1, result.slots_per_host).tolist()
    return _Shown(
        result.hosts,
        result.slots_per_host,
        result.stages,
        result.ranks,
        ranks,
        evaluation,
        top_seconds(result),
    )


def _grid(shown: _Shown, words: float) -> _Grid:
    """As few bands as leave each leaf legible, and rows as high as fit the room."""
    leaves, most = shown.stages[0], max(len(group.hosts) for group in shown.stages[0])
    least = max(_LEAST_TILE, 2.0 * shown.devices + 10)
    bands = -(-len(leaves) // max(1, int((WIDTH + _GAP) // (least + _GAP))))
    order = _order(shown.stages)
    each = -(-len(leaves) // bands)
    tile = min((WIDTH + _GAP) / each - _GAP, WIDTH)
    levels = len(shown.stages) if any(group.out_bytes_per_s for group in leaves) else 0
    room = max(60.0, _ROOM / bands - levels * (_BAR + _NECK) - _BAR - 16)
    fit = max(1, int(tile // max(least, 40.0)))  # columns of hosts
    columns = min(fit, max(1, -(-most // int(room / 8.0))))
    rows = -(-most // columns)
    row = min(_TALLEST_ROW, max(4.0, room / rows))
    strip = (tile + 4) / columns - 5 - _MARK
    fits = row >= _LEAST_NAMED and words + 6 * shown.devices <= strip
    return _Grid(
        bands=tuple(tuple(order[at : at + each]) for at in range(0, len(order), each)),
        tile=tile,
        columns=columns,
        rows=rows,
        row=row,
        levels=levels,
        words=words if fits else 0.0,
    )


def _order(stages: Sequence[Sequence[HostGroup]]) -> list[int]:
    """Leaves so that those of one pod stand together."""
    keys = [
        tuple(_group_of(stage, leaf.hosts[0]) for stage in reversed(stages[1:]))
        for leaf in stages[0]
    ]
    return sorted(range(len(keys)), key=lambda at: (keys[at], at))


def _group_of(stage: Sequence[HostGroup], host: int) -> int:
    return next(at for at, group in enumerate(stage) if host in group.hosts)


def _band(shown: _Shown, grid: _Grid, at: int, leaves: Sequence[int]) -> Markup:
    """A row of leaves with the switches above them."""
    top = at * grid.pitch
    x_of = {leaf: place * (grid.tile + _GAP) for place, leaf in enumerate(leaves)}
    right = max(x_of.values()) + grid.tile
    parts = [_bar((0.0, top, right), "network")] if grid.levels else []
    y = top + (_BAR if grid.levels else -_NECK)
    stages = shown.stages
    for level in range(len(stages) - 1, 0, -1):
        groups = [_group_of(stages[level], stages[0][leaf].hosts[0]) for leaf in leaves]
        cuts = [0, *(k for k, (a, b) in enumerate(pairwise(groups), 1) if a != b), len(groups)]
        for start, end in pairwise(cuts):
            left, last = x_of[leaves[start]], x_of[leaves[end - 1]] + grid.tile
            parts.append(_group(shown, level, groups[start], (left, y, last - left)))
        y += _NECK + _BAR
    for leaf, x in x_of.items():
        parts.append(_group(shown, 0, leaf, (x, y, grid.tile)))
        parts.append(_hosts(shown, grid, stages[0][leaf], (x, top + grid.head)))
    return joined(parts)


def _group(shown: _Shown, level: int, at: int, place: tuple[float, float, float]) -> Markup:
    """A switch with its uplinks: the track is as wide as what its hosts send, they what they are.

    `place` is its left edge, the top of the uplinks, and its width.
    """
    x, y, width = place
    group = shown.stages[level][at]
    own = group.hosts_bytes_per_s
    share = group.out_bytes_per_s / own if own else 1.0
    if shown.evaluation is None:
        look, busy, predicted = "uplink", format_rate(group.out_bytes_per_s), ""
    else:
        seconds = shown.evaluation.stages_s[level][at]
        look = f"flow-{congestion_step(seconds, shown.top_s)}"
        busy = busy_words(seconds)
        predicted = f"predicted: busiest link out or in {busy}"
    says = tooltip(
        f"{group.name}: {plural(len(group.hosts), 'host')}",
        f"NICs {format_rate(own)}, out {format_rate(group.out_bytes_per_s)} per direction",
        predicted,
    )
    parts: list[Child] = []
    name = group.name
    if group.out_bytes_per_s > 0:
        inner, wide = width - 8, min(1.0, share) * (width - 8)
        over = f"1:{1 / share:.3g}, {busy}" if share < 1 else busy
        if shown.evaluation is None:
            fits = (w for w in (_out_words(group), over, busy) if text_width(w, _SMALL) <= inner)
            beside: Markup | None = text_line(x + width / 2, y + 13, next(fits, ""), "small stated")
        else:
            beside = _beside((over, busy), (x + 4 + wide, y + 13), inner - wide)
        parts += [
            rect("track", x + 4, y, inner, _NECK),
            rect(look, x + 4, y, wide, _NECK),
            beside,
        ]
        if beside is None and text_width(f"{name}, {busy}", _SMALL) + 6 <= width:
            name = f"{name}, {busy}"
    parts.append(_bar((x, y + _NECK, width), name, says))
    return joined(parts)


def _beside(texts: Sequence[str], place: tuple[float, float], room: float) -> Markup | None:
    """The first of the texts that fits the free part of the track."""
    for text in texts:
        if text_width(text, _SMALL) + 6 <= room:
            return _small(text, place[0] + 4, place[1])
    return None


def _bar(place: tuple[float, float, float], name: str, says: Markup | None = None) -> Markup:
    x, y, width = place
    last = name.split()[-1:]  # most often a number
    shown = next((n for n in (name, *last) if text_width(n, _SMALL) + 4 <= width), "")
    bar = rect(None, x, y, width, _BAR, rx=4)
    return element(
        "g", {"class": "part"}, says, bar, text_line(x + width / 2, y + 13, shown, "small")
    )


def _hosts(shown: _Shown, grid: _Grid, leaf: HostGroup, place: tuple[float, float]) -> Markup:
    x, y = place
    column = (grid.tile + 4) / grid.columns
    hosts = []
    for at, host in enumerate(leaf.hosts):
        across, down = divmod(at, grid.rows)
        spot = (x + across * column, y + down * grid.row, column - 4)
        hosts.append(_host(shown, grid, host, spot))
    return joined(hosts)


def _host(shown: _Shown, grid: _Grid, host: int, place: tuple[float, float, float]) -> Markup:
    """A strip of devices, darker with the rank; on its left how busy the NICs are."""
    x, y, width = place
    devices, evaluation = shown.devices, shown.evaluation
    mark, said, runs = "uplink", "", []
    height = grid.row - (3 if grid.row >= 10 else 1)
    left = x + _MARK + 1
    cell = min((width - _MARK - 1 - grid.words) / devices, _WIDEST_CELL)
    slots = [(left, cell * devices)]
    if evaluation is None and cell >= _LEAST_CELL:
        slots = [(left + at * cell, cell) for at in range(devices)]
    if evaluation is not None:
        seconds, listed = evaluation.hosts_s[host], shown.listed(host)
        mark = f"flow-{congestion_step(seconds, shown.top_s)}"
        ranks = f"ranks {listed}" if listed else "no rank"
        said = f": {ranks}\npredicted: busiest NIC {busy_words(seconds)}"
        runs = _runs_of_ranks(shown.ranks_of_host[host], shown.ranks, (left, y, cell, height))
    says = tooltip(*f"{shown.hosts[host]}{said}".split("\n"))
    return titled(
        says,
        rect(mark, x, y, _MARK, height),
        *(rect("slots", spot, y, wide, height) for spot, wide in slots),
        *runs,
        _small(shown.words(host), left + cell * devices + 5, y + 9.5) if grid.words else None,
        look="host",
    )


def _small(words: str, x: float, y: float) -> Markup:
    return text_line(x, y, words, "small start")


def _runs_of_ranks(
    ranks: Sequence[int], most: int, place: tuple[float, float, float, float]
) -> list[Markup]:
    """One rectangle for ranks that follow each other on devices that do."""
    x, y, cell, height = place
    starts = [
        at
        for at, rank in enumerate(ranks)
        if rank >= 0 and (at == 0 or ranks[at - 1] < 0 or rank != ranks[at - 1] + 1)
    ]
    found = []
    for start in starts:
        end = start + 1
        while end < len(ranks) and ranks[end] == ranks[end - 1] + 1:
            end += 1
        opacity = shade((ranks[start] + ranks[end - 1]) / 2, most - 1)
        width = (end - start) * cell
        found.append(rect("rank", x + start * cell, y, width, height, fill_opacity=opacity))
    return found


def shade(rank: float, last: int) -> float:
    """The opacity of a rank: the last one is not seen through."""
    return _FAINTEST + (1 - _FAINTEST) * rank / max(1, last)


_LINKS = 6
_LOOKS = {"default": "fill-before", "placed": "fill-after"}


def network_pictures(result: MappingResult) -> list[Picture]:
    """The machine by default and, if it differs, as placed; nothing where no hosts are near."""
    if not (result.stages and result.default.hosts_s and result.placed.hosts_s):
        return []
    kept = "Default placement, kept" if result.kept_default else "Default placement"
    pictures = []
    for (name, each), heading in zip(placements_of(result), (kept, "Placed"), strict=False):
        words = f"predicted: {times_words(each)}"
        svg = network_svg(result, name, label=f"{heading}: {words}")
        pictures.append(Picture(heading, words, svg))
    return pictures


def network_sheet(result: MappingResult, traffic: Traffic, created: str = "") -> str:
    """A standalone SVG file: picture, levels and busiest links. Every number is predicted."""
    shown = placements_of(result)
    sheet = Sheet(clean(result.topology), WIDTH + 32)
    sheet.line(traffic_sentence(traffic))
    for said in said_of(result):
        sheet.line(said.words, said.look)
    if created:
        sheet.line(f"Drawn {created}", "axis")
    for name, each in shown:
        words = f"{name}, predicted: {times_words(each)}"
        sheet.line(words, sample=rect(_LOOKS[name], 0, 1, 28, 11))
    for picture in network_pictures(result):
        sheet.picture(picture)
    sheet.heading("Busiest link of each level (predicted)")
    for row in level_bars(result):
        sheet.bars(row.name, row.bars)
    for name, each in shown:
        sheet.heading(f"Busiest links, {name} (predicted)")
        for load in each.links[:_LINKS]:
            sheet.line(f"{clean(load.link)}: {load_cells(load)[1]}")
    return sheet.svg(f"placement on {clean(result.topology)}")
