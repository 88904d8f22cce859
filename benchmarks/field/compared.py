"""Published comparisons of sets and orders of GPUs, each beside what we predict of it."""

from __future__ import annotations

import csv
import math
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

from benchmarks.field.machines import MACHINES, text_of

import toposeat
from toposeat.errors import ToposeatError
from toposeat.model.processor import CPU_KEY, CPU_NAME
from toposeat.model.topology import FactKind, Topology
from toposeat.topology.processors import family_of

FOUND = Path(__file__).with_name("found.tsv")
FIELD = Path(__file__).resolve().parents[3] / "shared" / "field"
ALIKE = math.log(1.03)  # predictions that differ by less are no opinion
# Rows of the table beside the checkout whose figures our tables of processors and of NCCL's kernels
# quote: what agrees with them is no evidence of these tables.
QUOTED = frozenset(map(str, (3, 5, 7, 11, 19, 25, 27, 33, 35, 37, 47, 49, 51, 55, 59)))
_BYTES = 1 << 30


class Span(NamedTuple):
    """A predicted rate, and the range that its premises leave."""

    rate: float
    low: float
    high: float


class Comparison(NamedTuple):
    """One row of a table: what somebody measured with A and with B; more is better."""

    id: str
    source: str
    date: str
    machine: str
    topology: str
    topology_b: str
    traffic: str
    a: str
    b: str
    measured_a: str
    measured_b: str
    unit: str
    tolerance: str
    kind: str
    note: str
    folder: Path | None  # with the machines' files; None for those that we describe

    @property
    def measured(self) -> float:
        """A over B, as a logarithm."""
        return math.log(float(self.measured_a) / float(self.measured_b))

    @property
    def is_quoted(self) -> bool:
        """Whether our own numbers were made with a look at it."""
        return self.kind == "calibrated" or (self.folder is not None and self.id in QUOTED)


class Compared(NamedTuple):
    """One comparison beside its prediction, or beside the error that there was."""

    row: Comparison
    a: Span | None
    b: Span | None
    known: str
    error: str = ""

    @property
    def predicted(self) -> float:
        """A over B, as a logarithm."""
        assert self.a is not None
        assert self.b is not None
        return math.log(self.a.rate / self.b.rate)

    @property
    def range(self) -> tuple[float, float]:
        """The least and the greatest ratio of A over B."""
        assert self.a is not None
        assert self.b is not None
        return self.a.low / self.b.high, self.a.high / self.b.low

    @property
    def verdict(self) -> str:
        """`right`, `missed` (no opinion), `invented` (measured alike), `reversed` or `error`."""
        if self.error:
            return "error"
        tolerance = math.log1p(float(self.row.tolerance) / 100)
        measured = 0 if abs(self.row.measured) <= tolerance else math.copysign(1, self.row.measured)
        predicted = 0 if abs(self.predicted) <= ALIKE else math.copysign(1, self.predicted)
        if measured == predicted:
            return "right"
        return "missed" if predicted == 0 else "invented" if measured == 0 else "reversed"

    @property
    def off(self) -> float:
        """How far the predicted ratio is from the measured one: 1 is equal, 2 twice or half."""
        return math.exp(abs(self.predicted - self.row.measured))

    @property
    def keeps_bound(self) -> bool:
        """Whether a program gained no more than its links."""
        tolerance = math.log1p(float(self.row.tolerance) / 100)
        return abs(self.row.measured) <= abs(self.predicted) + tolerance


def read_table(path: Path, folder: Path | None) -> list[Comparison]:
    with path.open(encoding="utf-8") as file:
        return [
            Comparison._make([*(row[name] for name in _HEADER), folder])
            for row in csv.DictReader(file, delimiter="\t")
        ]


_HEADER = (
    *("id", "source", "date", "machine", "topology", "topology_b", "traffic", "A", "B"),
    *("measured_A", "measured_B", "unit", "tolerance", "kind", "note"),
)


def compared(row: Comparison) -> Compared:
    try:
        machine_a = _machine(row.folder, row.topology)
        machine_b = _machine(row.folder, row.topology_b or row.topology)
        a = _predicted(machine_a, row.traffic, row.a)
        b = _predicted(machine_b, row.traffic, row.b)
    except (ToposeatError, ValueError) as error:
        return Compared(row, None, None, "", str(error))
    return Compared(row, a, b, known_of(machine_a))


@cache
def _machine(folder: Path | None, name: str) -> Topology:
    if folder is not None:
        file = folder / "machines" / f"{name}.txt"
        return toposeat.read_topology(file if file.is_file() else name)
    with tempfile.TemporaryDirectory() as made:
        path = Path(made) / f"{name}.txt"
        path.write_text(text_of(MACHINES[name]), encoding="utf-8")
        return toposeat.read_topology(path)


def known_of(machine: Topology) -> str:
    """What its source tells of a machine that rates depend on."""
    told = machine.metadata
    family = family_of(told.get(CPU_KEY, ""), told.get(CPU_NAME, ""))
    parts = [f"processor {'untold' if family.name == 'unknown' else family.name}"]
    parts.append("P2P told" if FactKind.PEER_ACCESS in machine.tells else "P2P untold")
    if any(d.pcie and d.pcie.width for d in machine.devices):
        parts.append("widths told")
    if not all(device.name for device in machine.devices):
        parts.append("products untold")
    return ", ".join(parts)


def _predicted(machine: Topology, traffic: str, what: str) -> Span:
    if traffic == "group":
        group = toposeat.group_rate(machine, sorted(map(int, what.split(","))))
        rate = group.bytes_per_s
        return Span(rate, group.low or rate, group.high or rate)
    if traffic == "copies":
        flows = [(int(a), int(b)) for a, b in (each.split(">") for each in what.split(","))]
        devices = sorted({device for flow in flows for device in flow})
        found = toposeat.evaluate(machine, _copies(flows, devices), devices)
        rate = _BYTES / found.predicted_s
        return Span(rate, *sorted(_BYTES / s for s in _seconds(found)))
    pattern = toposeat.read_traffic(traffic)
    if what in ("map", "default"):
        result = toposeat.map_traffic(machine, pattern, toposeat.MapOptions(min_gain=0))
        found = result.placed if what == "map" else result.default
    else:
        found = toposeat.evaluate(machine, pattern, list(map(int, what.split(","))))
    return Span(1 / found.predicted_s, *sorted(1 / s for s in _seconds(found)))


def _seconds(found: toposeat.Evaluation) -> Iterator[float]:
    yield getattr(found, "low", found.predicted_s)
    yield getattr(found, "high", found.predicted_s)


def _copies(flows: list[tuple[int, int]], devices: list[int]) -> toposeat.Traffic:
    """Equal copies that run together, as a matrix of the devices in use."""
    at = {device: number for number, device in enumerate(devices)}
    matrix = [[0] * max(len(devices), 2) for _ in range(max(len(devices), 2))]
    for a, b in flows:
        matrix[at[a]][at[b]] += _BYTES
    with tempfile.TemporaryDirectory() as made:
        path = Path(made) / "copies.csv"
        lines = (",".join(map(str, row)) for row in matrix)
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
        return toposeat.read_traffic(path)
