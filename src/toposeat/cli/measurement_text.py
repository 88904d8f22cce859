"""How `toposeat measure` shows what it found: text for people, a document for programs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from toposeat.model.pair import HostNumbers
    from toposeat.topology.measure import PairResults, SharedLink


def measurement_document(
    pci: Sequence[str],
    protocols: Sequence[str],
    results: PairResults,
    tried: Sequence[SharedLink],
    host: Sequence[HostNumbers],
) -> dict[str, Any]:
    """The whole measurement, with the protocols that pairs fell back to."""
    return {
        "schema": "toposeat/measurement/1",
        "devices": list(pci),
        "protocols": {
            each: {
                "bandwidth_bytes_per_s": _rows(results.bandwidth(each)),
                "latency_s": _rows(results.latency(each)),
                "bandwidth_ratio": _rows(results.bandwidth_ratio(each)),
                "latency_ratio": _rows(results.latency_ratio(each)),
                "both_ways_bytes_per_s": _rows(results.both_ways(each)),
                "both_ways_ratio": _rows(results.both_ways_ratio(each)),
            }
            for each in _used(protocols, results)
        },
        "spread": results.spread(),
        "shared": [
            {
                "devices": sorted(each.inside),
                "out_bytes_per_s": each.out_bytes_per_s,
                "in_bytes_per_s": each.in_bytes_per_s,
                "both_bytes_per_s": each.both_bytes_per_s,
                "limits": each.limits,
            }
            for each in tried
        ],
        "host": [
            {
                "device": int(each.device.removeprefix("GPU")),
                "what": each.what,
                "to_device": each.to_device,
                "from_device": each.from_device,
            }
            for each in host
        ],
    }


def _used(protocols: Sequence[str], results: PairResults) -> list[str]:
    """The protocols asked for, then those that pairs fell back to."""
    return list(dict.fromkeys([*protocols, *sorted({key[2] for key in results.of})]))


def _rows(values: Any) -> list[list[float | None]]:
    return [[None if math.isnan(x) else float(x) for x in row] for row in values]


def measurement_text(
    protocols: Sequence[str],
    results: PairResults,
    tried: Sequence[SharedLink],
    host: Sequence[HostNumbers],
) -> str:
    """Matrices, shared links, host copies, spread."""
    parts = []
    for each in _used(protocols, results):
        parts.append(_matrix(f"{each}: GB/s (measured, 1 to 4 MiB)", results.bandwidth(each) / 1e9))
        parts.append(_matrix(f"{each}: us (measured, 8 bytes)", results.latency(each) * 1e6))
    first = protocols[0]
    parts.append(
        _matrix(f"{first}: bandwidth ratio to the farthest", results.bandwidth_ratio(first))
    )
    parts.append(_matrix(f"{first}: latency ratio to the farthest", results.latency_ratio(first)))
    both = results.both_ways(first)
    if not all(math.isnan(x) for row in both for x in row):
        parts.append(_matrix(f"{first}: GB/s of both directions at once (measured)", both / 1e9))
        parts.append(
            _matrix(
                f"{first}: ratio to the farthest, both directions", results.both_ways_ratio(first)
            )
        )
    parts.append(_shared([each for each in tried if each.limits]))
    parts += [_roomy(each) for each in tried if not each.limits]
    if host:
        parts.append(_host(host))
    parts.append(f"Spread of large transfers (median beyond the fastest): {results.spread():.1%}\n")
    return "\n".join(parts)


def _shared(links: Sequence[SharedLink]) -> str:
    if not links:
        return "No shared link was found.\n"
    lines = ["GPUs that share a link to the others   out    in  both at once (GB/s, measured)"]
    for link in links:
        names = ", ".join(map(str, sorted(link.inside)))
        rates = (link.out_bytes_per_s, link.in_bytes_per_s, link.both_bytes_per_s)
        lines.append(f"{names:<36}" + " ".join(f"{_number(x / 1e9):>5}" for x in rates))
    return "\n".join(lines) + "\n"


def _roomy(link: SharedLink) -> str:
    """A set whose GPUs together do not fill the link between them and the others."""
    names = ", ".join(map(str, sorted(link.inside)))
    rates = (link.out_bytes_per_s, link.in_bytes_per_s)
    out, into = (_number(x / 1e9) for x in rates)
    return (
        f"Not a bottleneck: the connection of GPUs {names} to the others carries all that they"
        f" send and\nreceive together ({out} GB/s out, {into} in, measured); its capacity cannot be"
        " measured with them.\n"
    )


def _host(host: Sequence[HostNumbers]) -> str:
    lines = ["Pinned host memory   to device  from device (measured)"]
    for each in host:
        factor, unit = (1e9, "GB/s") if each.what == "bandwidth" else (1e-6, "us")
        rates = [math.nan if x is None else x for x in (each.to_device, each.from_device)]
        cells = " ".join(f"{_number(x / factor):>10}" for x in rates)
        name = each.device.replace("GPU", "G")
        lines.append(f"{f'{name} {unit}':<18}{cells}")
    return "\n".join(lines) + "\n"


def _matrix(title: str, values: Any) -> str:
    cells = [
        ["X" if i == j else _number(x) for j, x in enumerate(row)] for i, row in enumerate(values)
    ]
    width = max(4, *(len(cell) for row in cells for cell in row))
    head = " " * 4 + " ".join(f"{f'G{j}':>{width}}" for j in range(len(cells)))
    lines = [title, head]
    for i, row in enumerate(cells):
        lines.append(f"{f'G{i}':<4}" + " ".join(f"{cell:>{width}}" for cell in row))
    return "\n".join(lines) + "\n"


def _number(value: float) -> str:
    return "-" if math.isnan(value) else f"{value:.3g}"
