"""No line that `doctor` prints is slower than the default for a job that its label covers.

The printed text is read as a person reads it: labels with their patterns, then a line of variables.
Evaluating the default and the order, each alone, is the oracle.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.catalogue import CATALOGUE
from toposeat import evaluation, pipeline, profile, report, topology
from toposeat.errors import ToposeatError
from toposeat.model.health import Health, Shape
from toposeat.model.topology import Topology
from toposeat.model.visible_list import order_line
from toposeat.pipeline.gain import kinds_for
from toposeat.topology import read_topology

LABEL = re.compile(r"^For +(?P<kind>.+) \((?P<patterns>[a-z][^()]*)\): saves ")
VARIABLE = re.compile(r"\b(?:CUDA|ROCR)_VISIBLE_DEVICES=(\S+)$")
RECORDED = (
    "nvidia-smi-topo/4gpu-3090-nvlink-pairs-cross.txt",
    "nvidia-smi-topo/8gpu-4090-sys-nic-phb.txt",
    "nccl-xml/azure-ndv4-topo.xml",
)


def printed(machine: Topology) -> tuple[str, Health]:
    gains, orders = pipeline.possible_gains(machine)
    health = Health(wiring=topology.wiring_of(machine), gains=gains, orders=orders)
    return report.render_health_text(machine, health), health


def lines_of(machine: Topology, text: str) -> Iterator[tuple[tuple[str, ...], list[int]]]:
    """The patterns that each printed line is for, and its order as positions of devices."""
    by_bus = sorted(
        range(len(machine.devices)), key=lambda at: machine.devices[at].pci_bus_id or f"{at:08}"
    )
    # Labels that are broken over lines are joined again: what goes on is indented by ten.
    covered: list[str] = []
    for line in re.sub(r"\n {10}", " ", text).splitlines():
        if label := LABEL.match(line):
            covered += label["patterns"].split(" and ")
        if variable := VARIABLE.search(line):
            numbers = [int(number) for number in variable[1].split(",")]
            yield tuple(covered), [by_bus[number] for number in numbers]
        if variable or not line:
            covered = []


def harm_none(machine: Topology) -> None:
    text, health = printed(machine)
    every = [pattern for kind in kinds_for(len(machine.devices)) for pattern in kind.patterns]
    found = list(lines_of(machine, text))
    for patterns, order in found:
        for pattern in patterns or every:
            evaluator = evaluation.Evaluator(machine, profile.pattern_traffic(pattern))
            default = evaluator.predicted_s(evaluator.default)
            placed = evaluator.evaluate(order).predicted_s
            assert placed <= default * (1 + 1e-9), (patterns, pattern, order)
    assert health.wiring is not None
    known = health.wiring.shape is not Shape.UNKNOWN
    orders = [order.device_of_rank for order in health.orders if known]
    told = [order for order in orders if order_line(machine, order)]  # Intel's variable has none
    assert sorted(tuple(order) for _, order in found) == sorted(told)
    assert {each for patterns, _ in found for each in patterns} <= set(every)


@pytest.mark.parametrize("name", CATALOGUE)
def test_of_the_catalogue(name: str) -> None:
    harm_none(read_topology(name))


@pytest.mark.parametrize("name", RECORDED)
def test_of_recorded_machines(name: str, shared_dir: Path) -> None:
    harm_none(read_topology(shared_dir / "machines" / name))


@pytest.mark.deep
def test_of_all_recorded_machines(shared_dir: Path) -> None:
    with (shared_dir / "machines/INDEX.tsv").open(newline="") as handle:
        names = [row["file"] for row in csv.DictReader(handle, delimiter="\t", quoting=3)]
    looked_at = 0
    for name in names:
        try:
            machine = read_topology(shared_dir / "machines" / name)
        except ToposeatError:
            continue
        if len(machine.devices) > 1 and order_line(machine, range(len(machine.devices))):
            harm_none(machine)
            looked_at += 1
    assert looked_at > 50


@pytest.mark.parametrize(
    ("name", "harmed"),
    [("a100-pcie-8-bridged", "tensor-parallel pairs"), ("dgx-1v", "all-to-all in groups")],
)
def test_what_a_line_costs_others_is_said(name: str, harmed: str) -> None:
    """By the model each of these lines makes another kind of job several times slower."""
    machine = read_topology(name)
    _, orders = pipeline.possible_gains(machine)
    worst = min(
        (effect for order in orders for effect in order.costs if effect.kind == harmed),
        key=lambda effect: effect.low,
    )
    assert worst.low < -1
    text, _ = printed(machine)
    assert f"{harmed} up to {-100 * worst.low:.0f} %" in re.sub(r"\n {10}", " ", text)


def test_a_line_without_a_label_is_slower_for_no_kind() -> None:
    """The mesh of a DGX-1V has an order that helps tensor-parallel pairs and harms no pattern."""
    _, orders = pipeline.possible_gains(read_topology("dgx-1v"))
    first, *rest = orders
    assert not first.kinds
    assert not first.costs
    assert "tensor-parallel pairs" in {effect.kind for effect in first.saves}
    assert all(order.kinds for order in rest)
    _, crossed = pipeline.possible_gains(read_topology("rtx-4-crossed-bridges"))
    assert all(order.kinds for order in crossed)
