"""Machines in one line each: what `discover --list` shows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from rich.text import Text

from toposeat.model.known_shapes import KnownShape
from toposeat.model.topology import LinkKind, Topology
from toposeat.report.text.console import TextStyle, lay_out
from toposeat.report.units import clean
from toposeat.report.words import LINK_WORDS, short_device_name

_NAME_LETTERS = 20
_HEADER = ("name", "devices", "links", "source")


def render_catalogue_text(
    machines: Sequence[Topology],
    style: TextStyle | None = None,
    networks: Sequence[KnownShape] = (),
) -> str:
    """Name, devices, links and who published the facts; the last is cut where the line ends."""
    style = style or TextStyle()
    rows = [_HEADER, *map(_row, machines), *map(_network_row, networks)]
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    lines = []
    for row in rows:
        left = "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=False))
        lines.append(
            Text(
                f"{left}  {row[3]}",
                no_wrap=True,
                overflow="ellipsis",
                style="bold" if row is _HEADER else "",
            )
        )
    return lay_out(lines, style)


def _row(machine: Topology) -> tuple[str, str, str, str]:
    source = clean(machine.sources[0]).partition(":")[0] if machine.sources else "-"
    return clean(machine.name), _devices(machine), link_kinds_words(machine), source


def _network_row(network: KnownShape) -> tuple[str, str, str, str]:
    source = network.sources[0].partition(":")[0]
    return network.name, f"{network.hosts} hosts", network.kind, source


def _devices(machine: Topology) -> str:
    names = Counter(short_device_name(d.name, _NAME_LETTERS) for d in machine.devices)
    return " + ".join(f"{count} x {name or 'device'}" for name, count in names.items())


def link_kinds_words(topology: Topology) -> str:
    """`NVLink, PCIe`: the kinds of links in the node, the most device-like first."""
    kinds = {link.kind for link in topology.links} - {LinkKind.SMP}
    return ", ".join(LINK_WORDS[kind] for kind in LinkKind if kind in kinds)
