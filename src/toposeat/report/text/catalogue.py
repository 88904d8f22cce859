"""Machines as a list with one line each, for `discover --list`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from rich.text import Text

from toposeat.model.known_shapes import KnownShape
from toposeat.model.topology import LinkKind, Topology
from toposeat.report.machine_words import LINK_WORDS, short_device_name
from toposeat.report.text.console import PLAIN, TextStyle, lay_out
from toposeat.report.units import clean

_NAME_LETTERS = 20
_BUILT_IN, _YOURS = "built in", "yours"
_HEADER = ("name", "devices", "links", "from", "source")


def render_catalogue_text(
    machines: Sequence[tuple[Topology, Path | None]],
    style: TextStyle = PLAIN,
    networks: Sequence[KnownShape] = (),
) -> str:
    """Name, devices, links, and who published it or which file of the user's it is from.

    Args:
        machines: each with its file, None if it is built in.
        style: width and colour.
        networks: built-in networks, listed after the machines.
    """
    rows = [_HEADER, *(_row(*each) for each in machines), *map(_network_row, networks)]
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    lines = []
    for row in rows:
        left = "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=False))
        lines.append(
            Text(
                f"{left}  {row[4]}",
                no_wrap=row[3] != _YOURS,  # a path is never cut
                overflow="fold" if row[3] == _YOURS else "ellipsis",
                style="bold" if row is _HEADER else "",
            )
        )
    return lay_out(lines, style)


def _row(machine: Topology, path: Path | None) -> tuple[str, str, str, str, str]:
    source = clean(machine.sources[0]).partition(":")[0] if machine.sources else "-"
    where = (_BUILT_IN, source) if path is None else (_YOURS, clean(str(path)))
    return clean(machine.name), _devices(machine), link_kinds_words(machine), *where


def _network_row(network: KnownShape) -> tuple[str, str, str, str, str]:
    source = network.sources[0].partition(":")[0]
    return network.name, f"{network.hosts} hosts", network.kind, _BUILT_IN, source


def _devices(machine: Topology) -> str:
    names = Counter(short_device_name(d.name, _NAME_LETTERS) for d in machine.devices)
    return " + ".join(f"{count} x {name or 'device'}" for name, count in names.items())


def link_kinds_words(topology: Topology) -> str:
    """`NVLink, PCIe`: the kinds of links in the node, the most device-like first."""
    kinds = {link.kind for link in topology.links} - {LinkKind.SMP}
    return ", ".join(LINK_WORDS[kind] for kind in LinkKind if kind in kinds)
