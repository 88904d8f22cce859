"""One question has one answer: map, library, compare, doctor and choose on the same inputs."""

import json
import random
from dataclasses import replace
from itertools import combinations

import pytest

import toposeat
from tests.support.catalogue import CATALOGUE
from toposeat import mapping, pipeline
from toposeat.cli.main import main
from toposeat.evaluation import Evaluator, Scenarios
from toposeat.profile import pattern_traffic
from toposeat.topology import read_topologies, read_topology

RECORDED = (
    "nvidia-smi-topo/4gpu-3090-nvlink-pairs-cross.txt",
    "nvidia-smi-topo/4gpu-phb-soc.txt",
    "nvidia-smi-topo/8gpu-4090-sys-nic-phb.txt",
    "nvidia-smi-topo/4gpu-a4000-node.txt",
    "nccl-xml/azure-ndv4-topo.xml",
)
CASES = (
    ("07-geforce-pix-slower-4/topo.txt", "07-geforce-pix-slower-4/list.txt"),
    ("67-pix-fours-node/topo.txt", "67-pix-fours-node/list.txt"),
    ("57-mixed-5090-4090-x8/topo.txt", "57-mixed-5090-4090-x8/gpus.csv"),
    ("77-pix-phb-14-cores/topo.txt",),
)
FREE_SETS = 25  # of each machine


def run(capsys, *words):
    assert main([*words, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def agree(sources, folder, capsys):
    machine = read_topologies(sources)
    count = len(machine.devices)
    where = [word for source in sources for word in ("-t", source)]
    gains, _ = pipeline.possible_gains(machine)
    for gain in gains[:2]:
        place = folder / f"{gains.index(gain)}.place"
        mapped = run(capsys, "map", gain.pattern, *where, "-o", str(place))
        library = toposeat.map_traffic(machine, gain.pattern)
        premises = mapped["premises"]
        assert library.device_of_rank == gain.device_of_rank
        times = (library.default.predicted_s, library.placed.predicted_s)
        assert (gain.default_s, gain.placed_s) == times
        assert library.premises == gain.premises
        assert tuple(mapped["device_of_rank"]) == gain.device_of_rank
        assert premises["verdict"] == library.premises.verdict == gain.premises.verdict
        assert premises["gain_range"] == pytest.approx(library.premises.gain_range)
        if not library.kept_default:
            compared = run(capsys, "compare", str(place), *where, "--traffic", gain.pattern)
            _, given = compared["predicted"]
            assert given["premises"]["verdict"] == premises["verdict"]
            assert given["premises"]["gain_range"] == pytest.approx(premises["gain_range"])
    pattern = gains[0].pattern
    chosen = run(capsys, "choose", str(count), "--for", pattern, *where)
    assert sorted(chosen["devices"]) == sorted(each.index for each in machine.devices)
    assert chosen["predicted_s"] == pytest.approx(
        toposeat.map_traffic(machine, pattern).placed.predicted_s
    )


@pytest.mark.parametrize("name", sorted(CATALOGUE))
def test_on_the_catalogue(name, tmp_path, capsys):
    machine = read_topology(name)
    if len(machine.devices) > 8 or len(machine.hosts) > 1:
        pytest.skip("one node of at most eight devices is looked at")
    agree([name], tmp_path, capsys)


@pytest.mark.parametrize("name", RECORDED)
def test_on_recorded_machines(name, shared_dir, tmp_path, capsys):
    agree([str(shared_dir / "machines" / name)], tmp_path, capsys)


@pytest.mark.parametrize("names", CASES)
def test_on_what_people_paste(names, shared_dir, tmp_path, capsys):
    folder = shared_dir / "cases" / "topology"
    agree([str(folder / name) for name in names], tmp_path, capsys)


def dominated(machine, count, free):
    """Sets that are as fast as the chosen one everywhere, and faster somewhere."""
    machines = pipeline.open_machine(machine)
    chosen = tuple(sorted(mapping.choose_devices(machine, count, free, machine=machines).devices))
    traffic = pattern_traffic(f"llm:tp={count}")
    scenarios = Scenarios(Evaluator(machine, traffic, machine=machines.nominal), machines)
    rows = [chosen, *combinations(free, count)]
    times = scenarios.times(rows)
    kinds = [len({machines.kinds[at] for at in row}) for row in rows]
    return [
        row
        for at, row in enumerate(rows)
        if kinds[at] <= kinds[0]
        and (times[:, at] <= times[:, 0] * (1 + 1e-6)).all()
        and (times[:, at] < times[:, 0] * (1 - 1e-6)).any()
    ]


@pytest.mark.parametrize("name", ["l40s-8", "dgx-1v", "h100-pcie-8-bridged", "k40-8"])
def test_no_chosen_set_is_dominated(name):
    machine, draw = read_topology(name), random.Random(name)
    for _ in range(FREE_SETS):
        free = sorted(draw.sample(range(8), draw.randint(4, 7)))
        count = draw.randint(2, min(4, len(free) - 1))
        assert dominated(machine, count, free) == [], (free, count)


def test_what_was_seen_of_choose(shared_dir):
    """Two below one switch before a pair across host bridges; one socket whole; alike cards."""
    l40s = read_topology("l40s-8")

    def chosen(machine, count, free=None):
        machines = pipeline.open_machine(machine)
        return mapping.choose_devices(machine, count, free, machine=machines).devices

    assert chosen(l40s, 4, [0, 1, 2, 4, 5, 6, 7]) == (4, 5, 6, 7)
    d0, d1, *others = l40s.devices
    two_products = replace(l40s, devices=(d0, replace(d1, name="NVIDIA L4"), *others))
    assert chosen(two_products, 4) == (4, 5, 6, 7)
    pairs = pattern_traffic("llm:tp=2,dp=2")
    for_pairs = pipeline.choose_for_traffic(l40s, pairs, [0, 1, 2, 4, 5, 6, 7])
    assert for_pairs.devices == (4, 5, 6, 7)
    folder = shared_dir / "cases" / "topology"
    cells = read_topology(folder / "77-pix-phb-14-cores" / "topo.txt")
    assert chosen(cells, 2, [1, 2, 3]) == (2, 3)
    assert chosen(cells, 4, [1, 2, 3, 4, 5, 6, 7]) == (4, 5, 6, 7)
    fours = read_topologies([str(folder / name) for name in CASES[1]])
    assert chosen(fours, 4, [2, 3, 4, 5, 6, 7]) == (4, 5, 6, 7)
    mixed = read_topologies([str(folder / name) for name in CASES[2]])
    assert chosen(mixed, 2) == (3, 4)
    assert chosen(mixed, 3) == (2, 3, 4)
    measured = folder / "41-measured-one-on-other-socket-mixed" / "p2p.txt"
    assert chosen(read_topology(measured), 3) == (0, 1, 2)
    assert 3 not in chosen(read_topology(measured), 4)
    assert chosen(read_topology(measured), 2, [0, 3, 4]) == (0, 4)
