"""What was measured between GPUs: matrices, shared links, host copies."""

from __future__ import annotations

import math

from toposeat.model.measurement import Matrix, Measurement, SharedRates
from toposeat.model.pair import HostNumbers
from toposeat.report.parts import Line, Part, Table
from toposeat.report.text import PLAIN, TextStyle, lay_out


def render_measurement_text(found: Measurement, style: TextStyle = PLAIN) -> str:
    """Matrices, shared links, host copies, spread."""
    parts: list[Part] = []
    for name, pairs in found.protocols.items():
        rates, waits = pairs.bandwidth_bytes_per_s, pairs.latency_s
        parts += _matrix(f"{name}: GB/s (measured, 1 to 4 MiB)", rates, 1e-9)
        parts += _matrix(f"{name}: us (measured, 8 bytes)", waits, 1e6)
    name, first = next(iter(found.protocols.items()))
    parts += _matrix(f"{name}: bandwidth ratio to the farthest", first.bandwidth_ratio)
    parts += _matrix(f"{name}: latency ratio to the farthest", first.latency_ratio)
    if not all(math.isnan(x) for row in first.both_ways_bytes_per_s for x in row):
        both = first.both_ways_bytes_per_s
        parts += _matrix(f"{name}: GB/s of both directions at once (measured)", both, 1e-9)
        parts += _matrix(f"{name}: ratio to the farthest, both directions", first.both_ways_ratio)
    parts += _shared([each for each in found.shared if each.limits])
    parts += [_roomy(each) for each in found.shared if not each.limits]
    parts += _host(found.host)
    parts.append(f"Spread of large transfers (median beyond the fastest): {found.spread:.1%}")
    return lay_out(parts, style)


def _matrix(title: str, values: Matrix, factor: float = 1.0) -> list[Part]:
    """A matrix is read as a whole: its lines are never broken."""
    cells = [
        ["X" if i == j else _number(x * factor) for j, x in enumerate(row)]
        for i, row in enumerate(values)
    ]
    width = max(4, *(len(cell) for row in cells for cell in row))
    rows = [[f"G{j}" for j in range(len(cells))], *cells]
    names = ["", *(f"G{i}" for i in range(len(cells)))]
    lines = [
        f"{name:<4}" + " ".join(f"{cell:>{width}}" for cell in row)
        for name, row in zip(names, rows, strict=True)
    ]
    return [title, *(Line((line,), end="keep") for line in lines), ""]


def _shared(links: list[SharedRates]) -> list[Part]:
    if not links:
        return ["No shared link was found.", ""]
    rows = [
        [
            ", ".join(map(str, link.devices)),
            *map(_gb, (link.out_bytes_per_s, link.in_bytes_per_s, link.both_bytes_per_s)),
        ]
        for link in links
    ]
    head = ("GPUs that share a link to the others", "out", "in", "both at once (GB/s, measured)")
    return [Table(head, rows, right=(1, 2, 3)), ""]


def _roomy(link: SharedRates) -> str:
    """A set whose GPUs together do not fill the link between them and the others."""
    names = ", ".join(map(str, link.devices))
    return (
        f"Not a bottleneck: the connection of GPUs {names} to the others carries all that they send"
        f" and receive together ({_gb(link.out_bytes_per_s)} GB/s out, {_gb(link.in_bytes_per_s)}"
        " in, measured); its capacity cannot be measured with them."
    )


def _host(numbers: tuple[HostNumbers, ...]) -> list[Part]:
    if not numbers:
        return []
    rows = []
    for each in numbers:
        factor, unit = (1e-9, "GB/s") if each.what == "bandwidth" else (1e6, "us")
        rates = [math.nan if x is None else x for x in (each.to_device, each.from_device)]
        name = each.device.replace("GPU", "G")
        rows.append([f"{name} {unit}", *(_number(x * factor) for x in rates)])
    head = ("Pinned host memory", "to device", "from device (measured)")
    return [Table(head, rows, right=(1, 2)), ""]


def _gb(bytes_per_s: float) -> str:
    return _number(bytes_per_s / 1e9)


def _number(value: float) -> str:
    return "-" if math.isnan(value) else f"{value:.3g}"
