"""The rule against every placement, scenarios against machines drawn anew."""

from dataclasses import replace
from itertools import permutations
from pathlib import Path

import numpy as np
import pytest

from tests.mapping.machines import machine_at, random_topology, random_traffic, two_islands
from toposeat import pipeline
from toposeat.evaluation import Evaluator, OpenMachine, Scenarios, evaluate, network_arrays
from toposeat.mapping import map_traffic
from toposeat.model.map_options import MapOptions
from toposeat.model.open_fact import Choice, Fact
from toposeat.model.scenario import Worth
from toposeat.model.topology import ComponentKind, Device, FactKind, Vendor
from toposeat.model.traffic import MemorySpace, PairTable, Traffic, TrafficKind
from toposeat.profile import pattern_traffic
from toposeat.topology import (
    facts_of,
    parse_topology_text,
    read_topologies,
    read_topology,
    save_topology,
    topology_text,
)
from toposeat.topology.graph.graph_builder import GraphBuilder

EPSILON = 1e-9
MOST_LOST = 0.1


def recorded(shared_dir, *names):
    return read_topologies([str(shared_dir / "machines" / name) for name in names])


PCIE = "PCIe of an unknown generation"


def every_machine(machine):
    """The nominal machine, and the one of each choice alone, made without the scenarios."""
    nominal = machine.nominal.topology
    found = [nominal]
    rates = [fact.choices[0].values.get(PCIE, np.inf) for fact in machine.facts]
    for fact in machine.facts:
        for choice in fact.choices[1:]:
            drawn = nominal if choice.draw is None else choice.draw(nominal)
            others = [r for r, other in zip(rates, machine.facts, strict=True) if other is not fact]
            values = dict(choice.values)
            if min([*others, values.get(PCIE, np.inf)]) < np.inf:
                values[PCIE] = min([*others, values.get(PCIE, np.inf)])
            found.append(machine_at(drawn, _factors(drawn, values)))
    return found


def _factors(machine, values):
    """Of each premise that a choice says; what follows PCIe has its speed, too."""
    nominal = {premise.what: premise.nominal for premise in machine.premises}
    speed = values.get(PCIE, 1.0) / nominal[PCIE] if PCIE in nominal and PCIE in values else 1.0
    found = {}
    for premise in machine.premises:
        factor = values.get(premise.what, premise.nominal) / premise.nominal
        if premise.unit == "of the rate of a PCIe x16 link":
            factor *= speed
        elif premise.what == "one copy between sockets" and factor != 1:
            factor /= speed
        found[premise.what] = factor
    return found


@pytest.mark.parametrize(
    "name",
    [
        "nvidia-smi-topo/4gpu-3090-nvlink-pairs-cross.txt",
        "nvidia-smi-topo/4gpu-phb-soc.txt",
        "nccl-xml/azure-ndv4-topo.xml",
    ],
)
@pytest.mark.parametrize("pattern", ["random:{n}", "llm:tp=2,dp={half},fsdp"])
def test_each_fact_alone_is_a_machine_drawn_anew(shared_dir, name, pattern):
    machine = recorded(shared_dir, name)
    machines = pipeline.open_machine(machine)
    count = len(machine.devices)
    traffic = pattern_traffic(pattern.format(n=count, half=count // 2))
    rows = [tuple(range(count)), tuple(range(count - 1, -1, -1))]
    evaluator = Evaluator(machine, traffic, machine=machines.nominal)
    outlook = Scenarios(evaluator, machines).outlook(rows)
    anew = [
        [evaluate(each, traffic, row).predicted_s for row in rows]
        for each in every_machine(machines)
    ]
    names = [each.name for each in outlook.scenarios]
    assert len(names) == len(set(names))
    assert names[0] == "nominal"
    assert outlook.times[0].tolist() == pytest.approx(anew[0])
    alone = {
        each.name: times.tolist()
        for each, times in zip(outlook.scenarios, outlook.times, strict=True)
        if len(each.changed) == 1 and not each.overlap
    }
    assert alone
    choices = [c.name for fact in machines.facts for c in fact.choices[1:]]
    for found, times in alone.items():
        assert times == pytest.approx(anew[1 + choices.index(found)], rel=1e-9)


def _open_machine(rng, devices):
    """A machine whose links are those of one of four random machines."""
    drawn = [random_topology(rng, devices) for _ in range(4)]
    choices = tuple(
        Choice(name=f"machine {at}", draw=(lambda _, each=each: each) if at else None)
        for at, each in enumerate(drawn)
    )
    return OpenMachine(drawn[0], [Fact(what="which machine", settle="ask", choices=choices)])


def _judged(times, min_gain):
    """The largest regret of each allowed order, by the rule's text; column 0 is the default."""
    gains = 1 - times / times[:, :1]
    regret = (times / times.min(axis=1, keepdims=True) - 1).max(axis=0)
    found = {}
    for at in range(1, times.shape[1]):
        nominal, least, most = gains[0, at], gains[:, at].min(), gains[:, at].max()
        saves = nominal >= min_gain - EPSILON and nominal > EPSILON
        equal = abs(nominal) <= EPSILON and least >= -EPSILON and most >= max(min_gain, 2 * EPSILON)
        if least >= -MOST_LOST and (saves or equal):
            found[at] = float(regret[at])
    return found


@pytest.mark.parametrize("seed", range(40))
def test_no_allowed_order_has_a_much_smaller_largest_regret(seed):
    """Of all orders of up to six devices none that is allowed is better by two points."""
    rng = np.random.default_rng(seed)
    count = 3 + seed % 4
    machines = _open_machine(rng, count)
    traffic = random_traffic(rng, count, 0.7)
    result = map_traffic(machines.nominal.topology, traffic, machine=machines)
    default = result.default.device_of_rank
    orders = [default, *(o for o in permutations(range(count)) if o != default)]
    drawn = [Evaluator(machines.at((at,)).topology, traffic) for at in range(4)]
    times = np.array([[each.predicted_s(order) for order in orders] for each in drawn])
    allowed = _judged(times, 0.01)
    regret = (times / times.min(axis=1, keepdims=True) - 1).max(axis=0)
    at = orders.index(result.device_of_rank)
    least = min(allowed.values(), default=np.inf)
    if at:
        assert at in allowed
        assert regret[at] <= least + 0.02
        assert regret[at] <= regret[0] + 0.02
    else:
        assert least >= regret[0] - 0.02 or not allowed
    gains = 1 - times[:, at] / times[:, 0]
    low, high = result.premises.gain_range
    assert (low, high) == pytest.approx((gains.min(), gains.max()), abs=1e-9)
    is_slower = gains.min() < -EPSILON
    word = Worth.NONE if not at else Worth.POSSIBLE if is_slower else Worth.GAIN
    if gains[0] > EPSILON or not at:
        assert result.premises.verdict is word
    assert bool(result.premises.against) == is_slower


@pytest.mark.parametrize("seed", range(12))
def test_proved_is_said_of_every_scenario(seed):
    rng = np.random.default_rng(100 + seed)
    machines = _open_machine(rng, 5)
    traffic = random_traffic(rng, 5, 0.6)
    result = map_traffic(machines.nominal.topology, traffic, machine=machines)
    evaluators = [Evaluator(machines.at((at,)).topology, traffic) for at in range(4)]
    gaps = [
        each.predicted_s(result.device_of_rank)
        / min(each.predicted_s(order) for order in permutations(range(5)))
        - 1
        for each in evaluators
    ]
    assert result.certificate.everywhere == (max(gaps) <= EPSILON)
    if result.certificate.word == "proved":
        assert max(gaps) <= EPSILON


def test_an_order_that_may_cost_more_than_a_tenth_is_named_and_not_taken():
    """Two ways to lay a ring: the nominal winner uses a link that may be ten times slower."""
    machine = two_islands(across=30e9, low=0.1)
    traffic = pattern_traffic("ring:4,bytes=1e8")
    certain = map_traffic(replace(machine, premises=()), traffic)
    assert certain.device_of_rank != (0, 1, 2, 3)
    result = map_traffic(machine, traffic)
    assert result.device_of_rank == (0, 1, 2, 3)
    assert result.premises.gain_range == (0.0, 0.0)
    barred = result.premises.barred
    assert barred.share == pytest.approx(
        1 - certain.placed.predicted_s / certain.default.predicted_s
    )
    assert barred.worst.share < -MOST_LOST
    assert barred.worst.scenario == "across of 3 GB/s"


def test_another_drawing_counts_as_a_machine_that_may_be():
    told = two_islands(across=30e9, low=0.999)
    slow = two_islands(across=2e9, low=0.999)
    traffic = pattern_traffic("ring:4,bytes=1e8")
    assert map_traffic(told, traffic).device_of_rank != (0, 1, 2, 3)
    fact = Fact(
        what="the link across",
        settle="toposeat measure",
        choices=(Choice(name="fast"), Choice(name="slow", draw=lambda _: slow)),
    )
    machines = OpenMachine(told, [fact], untold_pairs=(("gpu0", "gpu2"),))
    result = map_traffic(told, traffic, machine=machines)
    assert result.device_of_rank == (0, 1, 2, 3)
    assert result.premises.untold_pairs == (("gpu0", "gpu2"),)
    assert result.premises.barred.worst.scenario == "slow"
    assert not result.certificate.everywhere


def test_nothing_is_in_doubt_on_a_machine_of_told_numbers():
    result = map_traffic(read_topology("k80-16"), pattern_traffic("stencil2d:4x4"))
    assert result.premises.assumed == ()
    assert result.premises.verdict is Worth.GAIN
    low, high = result.premises.gain_range
    assert low == high == pytest.approx(1 - result.placed.predicted_s / result.default.predicted_s)
    assert result.certificate.word == "proved"


def test_moves_that_gain_nothing_are_not_made():
    """The tutorial's halo: twelve ranks move, and rank 0 stays."""
    machine = read_topology("k80-16")
    result = map_traffic(machine, pattern_traffic("stencil3d:2x2x4,weight=3"))
    assert result.certificate.proved
    assert len(result.moved_ranks) == 12
    assert result.device_of_rank[0] == 0


def test_two_phases_may_overlap():
    machine = read_topology("k80-16")
    traffic = pattern_traffic("llm:tp=2,dp=8,fsdp")
    result = map_traffic(machine, traffic)
    assert "whether phases overlap" in result.premises.depends_on
    both = [[phase.seconds for phase in x.phases] for x in (result.default, result.placed)]
    ends = [1 - combine(both[1]) / combine(both[0]) for combine in (sum, max)]
    assert result.premises.gain_range == pytest.approx((min(ends), max(ends)))


@pytest.mark.parametrize("seed", range(3))
def test_one_partner_after_the_other_is_looked_at_where_latency_is_much(seed):
    """What it takes there is the largest of all ranks' messages x latency, added up by hand."""
    machine, draw = read_topology("dgx-1v"), np.random.default_rng(seed)
    pairs = np.argwhere((draw.random((8, 8)) < 0.5) & ~np.eye(8, dtype=bool))
    messages = draw.integers(1, 4, len(pairs)) * 1000
    columns = (*pairs.T, np.full(len(pairs), 8), messages)
    key = (TrafficKind.POINT_TO_POINT, MemorySpace.HOST)
    small = Traffic(ranks=8, origin="test", tables={key: PairTable.from_pairs(*columns)})
    latency = network_arrays(machine).latency().reshape(8, 8)

    def in_turn(row):
        at = np.array(row)[pairs]
        return float(np.bincount(pairs[:, 0], messages * latency[at[:, 0], at[:, 1]]).max())

    evaluator = Evaluator(machine, small)
    assert not any(each.in_turn for each in Scenarios(evaluator).at_ends), "nobody said how much"
    result = map_traffic(machine, small)
    assert result.placed.latency.share > 0.9
    rows = [evaluator.default, result.device_of_rank, tuple(draw.permutation(8).tolist())]
    scenarios = Scenarios(evaluator, latency=result.default.latency)
    assert not any(each.in_turn for each in scenarios.solvable), "nothing is proved by it"
    outlook = scenarios.outlook(rows)
    assert outlook.at_ends[-1].name == "one partner after the other"
    assert outlook.ends[-1] == pytest.approx([in_turn(row) for row in rows])
    gain = 1 - in_turn(result.device_of_rank) / in_turn(range(8))
    low, high = result.premises.gain_range
    assert low - EPSILON <= gain <= high + EPSILON
    large = replace(
        small, tables={key: PairTable.from_pairs(*columns[:2], messages << 20, messages)}
    )
    assert not Evaluator(machine, large).evaluate(range(8)).latency.is_much


def test_a_large_machine_is_looked_at_in_few_scenarios():
    builder = GraphBuilder(tells=set(FactKind))
    numa = [builder.component(ComponentKind.NUMA, f"numa{i}") for i in range(2)]
    builder.sockets(*numa)
    for i in range(160):
        builder.devices.append(Device(id=f"gpu{i}", index=i))
        builder.pcie(f"gpu{i}", numa[i % 2], bytes_per_s=24e9)
    machine = builder.build(name="large", origin="test")
    machines = pipeline.open_machine(machine)
    evaluator = Evaluator(machine, pattern_traffic("alltoall:160"), machine=machines.nominal)
    scenarios = Scenarios(evaluator, machines, [tuple(range(160))])
    assert 1 <= len(scenarios.scenarios) <= 24
    assert len(scenarios.at_ends) <= 24


def test_a_told_fact_settles_the_answer(shared_dir):
    """README's own wiring without names, then with them: no contradiction, and fewer scenarios."""
    table = shared_dir / "machines/nvidia-smi-topo/4gpu-3090-nvlink-pairs-cross.txt"
    traffic = pattern_traffic("llm:tp=2,dp=2")
    untold = pipeline.map_traffic(read_topology(table), traffic)
    assert untold.device_of_rank == (0, 2, 1, 3)
    assert untold.premises.verdict is Worth.GAIN
    assert any(fact.what == "the product" for fact in facts_of(read_topology(table)))
    least, most = untold.premises.gain_range
    named = replace(
        read_topology(table),
        devices=tuple(
            replace(each, name="NVIDIA RTX A6000") for each in read_topology(table).devices
        ),
    )
    told = pipeline.map_traffic(named, traffic)
    assert told.device_of_rank == untold.device_of_rank
    assert least <= 1 - told.placed.predicted_s / told.default.predicted_s <= most


def test_eight_that_may_be_modules_are_so_nominally():
    """A compute capability is that of modules and of cards: one line settles which they are."""
    box = read_topology("tree:2:2:2")
    devices = tuple(replace(d, name="sm_90", vendor=Vendor.NVIDIA) for d in box.devices)
    machine = parse_topology_text(topology_text(replace(box, devices=devices, tells=())), Path("x"))
    words = {}
    for pattern in ("llm:tp=2,dp=4,fsdp", "stencil2d:2x4"):
        premises = pipeline.map_traffic(machine, pattern_traffic(pattern)).premises
        assert [each.command for each in premises.settles] == ["nvidia-smi -L"]
        words[premises.verdict] = premises
    assert set(words) == {Worth.NONE, Worth.POSSIBLE}
    open_gain = words[Worth.NONE].open_gain
    assert open_gain.share > 0.1
    assert "cards without links" in open_gain.scenario
    assert not words[Worth.POSSIBLE].against


def test_a_saved_machine_keeps_what_is_open(shared_dir, tmp_path):
    table = shared_dir / "machines/nvidia-smi-topo/4gpu-3090-nvlink-pairs-cross.txt"
    machine, traffic = read_topology(table), pattern_traffic("llm:tp=2,dp=2")
    save_topology(machine, tmp_path / "m.json")
    again = read_topology(tmp_path / "m.json")
    before, after = (pipeline.map_traffic(each, traffic) for each in (machine, again))
    assert [f.what for f in facts_of(again)] == [f.what for f in facts_of(machine)]
    assert after.device_of_rank == before.device_of_rank
    assert after.premises == before.premises


def test_min_gain_is_one_percent_everywhere():
    assert MapOptions().min_gain == 0.01
    machine, traffic = read_topology("dgx-2"), pattern_traffic("stencil2d:4x4")
    assert map_traffic(machine, traffic).kept_default
