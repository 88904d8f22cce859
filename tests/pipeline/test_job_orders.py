"""No line that `doctor` prints is slower for a kind of job than is said above it.

The printed text is read as a person reads it: labels, costs, then a line of variables. Evaluating
the default and the order for each pattern of a kind, each alone, is the oracle.
"""

import csv
import re
from typing import NamedTuple

import pytest

from tests.support.catalogue import CATALOGUE
from toposeat import evaluation, pipeline, profile, report, topology
from toposeat.errors import ToposeatError
from toposeat.model.health import Health, Shape
from toposeat.model.visible_list import order_line
from toposeat.pipeline.gain import kinds_for
from toposeat.topology import read_topology

LABEL = re.compile(r"^For +(?P<kind>.+) \(\d+ of (?P<count>\d+) patterns?\): saves ")
COST = re.compile(r"(?:^Costs +|, )([^,(]+?) up to ([\d.]+) % \(\d+ of \d+ patterns?\)")
VARIABLE = re.compile(r"\b(?:CUDA|ROCR)_VISIBLE_DEVICES=(\S+)$")
RECORDED = (
    "nvidia-smi-topo/4gpu-3090-nvlink-pairs-cross.txt",
    "nvidia-smi-topo/8gpu-4090-sys-nic-phb.txt",
    "nccl-xml/azure-ndv4-topo.xml",
)


def printed(machine):
    gains, orders = pipeline.possible_gains(machine)
    health = Health(wiring=topology.wiring_of(machine), gains=gains, orders=orders)
    return report.render_health_text(machine, health), health


class PrintedLine(NamedTuple):
    """An order as positions of devices; the kinds that it is for, and percents of those it harms.

    It is for all kinds where none is named.
    """

    order: list[int]
    kinds: set[str]
    costs: dict[str, float]


def lines_of(machine, text):
    kinds = {kind.words: kind.patterns for kind in kinds_for(len(machine.devices))}
    by_bus = sorted(
        range(len(machine.devices)), key=lambda at: machine.devices[at].pci_bus_id or f"{at:08}"
    )
    # Labels that are broken over lines are joined again: what goes on is indented by ten.
    covered = set()
    costs = {}
    for line in re.sub(r"\n {10}", " ", text).splitlines():
        if label := LABEL.match(line):
            assert int(label["count"]) == len(kinds[label["kind"]])
            covered.add(label["kind"])
        costs |= {kind: float(percent) for kind, percent in COST.findall(line)}
        if variable := VARIABLE.search(line):
            numbers = [int(number) for number in variable[1].split(",")]
            yield PrintedLine([by_bus[number] for number in numbers], covered, costs)
        if variable or not line:
            covered, costs = set(), {}


def slowdown(machine, pattern, order):
    """Percent of the default's time, below 0 where the order is faster."""
    evaluator = evaluation.Evaluator(machine, profile.pattern_traffic(pattern))
    default = evaluator.predicted_s(evaluator.default)
    return 100 * (evaluator.evaluate(order).predicted_s / default - 1)


def harm_none(machine):
    """No more than is said: no kind that a line is for at all, no other beyond its number."""
    text, health = printed(machine)
    found = list(lines_of(machine, text))
    for line in found:
        for kind in kinds_for(len(machine.devices)):
            limit = 1e-7 if kind.words in line.kinds else line.costs.get(kind.words, 0) + 0.51
            for pattern in kind.patterns:
                assert slowdown(machine, pattern, line.order) <= limit, (pattern, line)
    known = health.wiring.shape is not Shape.UNKNOWN
    orders = [order.device_of_rank for order in health.orders if known]
    told = [order for order in orders if order_line(machine, order)]  # Intel's variable has none
    assert sorted(tuple(line.order) for line in found) == sorted(told)


@pytest.mark.parametrize("name", CATALOGUE)
def test_of_the_catalogue(name):
    harm_none(read_topology(name))


@pytest.mark.parametrize("name", RECORDED)
def test_of_recorded_machines(name, shared_dir):
    harm_none(read_topology(shared_dir / "machines" / name))


@pytest.mark.deep
def test_of_all_recorded_machines(shared_dir):
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
    ("name", "order", "pattern", "percent"),
    [
        ("rtx-4-crossed-bridges", (0, 2, 1, 3), "llm:tp=2,dp=2,fsdp", 52),
        ("rtx-4-crossed-bridges", (0, 2, 1, 3), "llm:model=llama-3.1-8b,tp=2,dp=2,fsdp", 69),
        ("a100-pcie-8-bridged", (0, 4, 2, 6, 1, 5, 3, 7), "llm:tp=1,pp=4,dp=2", 1455),
        ("a100-pcie-8-bridged", (0, 4, 2, 6, 1, 5, 3, 7), "llm:tp=1,cp=2,dp=4", 310),
        ("summit-6", (0, 1, 3, 2, 4, 5), "llm:tp=1,pp=2,dp=3", 563),
    ],
)
def test_a_line_names_its_cost(name, order, pattern, percent):
    """The first machine's line is for tensor parallelism; with FSDP it is slower."""
    machine = read_topology(name)
    assert slowdown(machine, pattern, order) == pytest.approx(percent, abs=0.51)
    kind = next(each for each in kinds_for(len(order)) if pattern in each.patterns)
    text, _ = printed(machine)
    (line,) = [each for each in lines_of(machine, text) if tuple(each.order) == order]
    assert line.costs[kind.words] >= percent
    assert kind.words not in line.kinds


def test_kinds_are_said_in_one_order():
    text, _ = printed(read_topology("a100-pcie-8-bridged"))
    kinds = [kind.words for kind in kinds_for(8)]
    for line in re.sub(r"\n {10}", " ", text).splitlines():
        said = [kind for kind, _ in COST.findall(line)]
        assert said == sorted(said, key=kinds.index)
    labels = [match["kind"] for match in map(LABEL.match, text.splitlines()) if match]
    assert len(labels) > 1


def test_a_line_without_a_label_is_slower_for_no_kind():
    """The mesh of a DGX-1V has an order that helps tensor parallelism and harms no pattern."""
    _, orders = pipeline.possible_gains(read_topology("dgx-1v"))
    first, *rest = orders
    assert not first.kinds
    assert not first.costs
    assert "tensor parallel" in {effect.kind for effect in first.saves}
    assert all(order.kinds for order in rest)
    _, crossed = pipeline.possible_gains(read_topology("rtx-4-crossed-bridges"))
    assert all(order.kinds for order in crossed)
