"""One rate of a pair: from all facts, the same however the machine is told."""

import json
from itertools import combinations, permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import toposeat
from tests.evaluation.test_flow import traffic_of
from tests.topology.case_files import texts_of
from tests.topology.live.machine_text import discovered
from toposeat import pipeline
from toposeat.cli.main import main
from toposeat.evaluation import evaluate, group_rate
from toposeat.mapping import choose_devices, map_traffic
from toposeat.model.quantity import Premises
from toposeat.profile import pattern_traffic
from toposeat.report import range_words, render_device_set_text
from toposeat.topology import read_topologies, read_topology, save_topology

GB = 1e9
RELAXED = settings(max_examples=30, deadline=None)
SOURCES = texts_of("one_machine", "a matrix, an inventory and lscpu")
TOPO, QUERY = SOURCES["topo.txt"], SOURCES["query.txt"]
P2P = "\t".join(("", *(f"GPU{n}" for n in range(4)))) + "".join(
    f"\nGPU{row}\t" + "\t".join("X" if row == n else "CNS" for n in range(4)) for row in range(4)
)


@pytest.fixture
def files(tmp_path):
    found = {}
    for name, text in SOURCES.items():
        found[name.removesuffix(".txt")] = tmp_path / name
        (tmp_path / name).write_text(text)
    return found


def copied(machine, *pairs):
    """Bytes per second of copies between pairs of devices that run together, of all of them."""
    size, n = 1 << 32, len(machine.devices)
    traffic = traffic_of(n, [(source, target, size, 1) for source, target in pairs])
    return len(pairs) * size / evaluate(machine, traffic, range(n)).predicted_s


def rates(topology):
    """Of all sets of two and of three: least, nominal and most, GB/s."""
    sets = [s for size in (2, 3) for s in combinations(range(len(topology.devices)), size)]
    found = [group_rate(topology, devices) for devices in sets]
    return [
        (round(g.low / GB, 6), round(g.bytes_per_s / GB, 6), round(g.high / GB, 6)) for g in found
    ]


def test_a_narrow_link_is_narrow_whoever_tells_it(files):
    topology = read_topologies([files["topo"], files["query"]])
    assert choose_devices(topology, 2).devices == (0, 1)
    assert choose_devices(topology, 3).devices == (0, 1, 2)
    assert group_rate(topology, [2, 3]).high <= 12.51 * GB
    assert group_rate(topology, [0, 1]).bytes_per_s > 20 * GB


def test_parts_of_a_machine_are_the_same_in_any_order(files):
    first = rates(read_topologies(list(files.values())))
    for order in permutations(files.values()):
        assert rates(read_topologies(list(order))) == first


def test_a_file_and_the_rest_are_all_parts_together(files, tmp_path):
    together = rates(read_topologies(list(files.values())))
    for name, last in files.items():
        others = [path for other, path in files.items() if other != name]
        if files["topo"] not in others:
            continue
        save_topology(read_topologies(others), tmp_path / "m.json", overwrite=True)
        again = read_topologies([tmp_path / "m.json", last])
        assert rates(again) == together


def test_who_tells_less_has_a_range_that_holds_what_is_told(files):
    parts = [files["topo"], files["query"], files["lscpu"]]
    told = rates(read_topologies(parts))
    poorer = rates(read_topologies(parts[:2]))
    for (low, _, high), (_, nominal, _) in zip(poorer, told, strict=True):
        assert low <= nominal * 1.001
        assert nominal <= high * 1.001


@pytest.mark.parametrize(
    ("case", "apart"),
    [("as NCCL dumps it", 1e-12), ("as hwloc saves it", 0.05)],  # x8 of 4 is x16 of 3 to hwloc
)
def test_another_source_gives_the_same_rates(files, tmp_path, case, apart):
    ((name, text),) = texts_of("one_machine", case).items()
    (tmp_path / name).write_text(text)
    found, told = rates(read_topology(tmp_path / name)), rates(read_topologies([*files.values()]))
    for mine, theirs in zip(found, told, strict=True):
        assert mine == pytest.approx(theirs, rel=apart)


def test_the_node_itself_gives_the_same_rates(files, tmp_path):
    lines = ["node 0 0-31 0", "node 1 32-63 1"]
    for gpu, width in enumerate((16, 16, 16, 8)):
        port, bus = f"{gpu + 1}0:01.0", f"{gpu + 1}1:00.0"
        link = f'"speed=16.0 GT/s PCIe" width={width} node={gpu // 2}'
        lines += [
            f"pci {port} amd bridge {link}",
            f"pci {port}/{bus} nvidia gpu {link} cpus={('0-31', '32-63')[gpu // 2]}",
            f"gpu {bus} 'name=NVIDIA L40S' uuid=GPU-{gpu:08x}-0000-0000-0000-000000000000"
            f" pcie=(1,{width},4,16) capability=(8,9)",
        ]
    cpuinfo = tmp_path / "cpuinfo"
    cpuinfo.write_text("vendor_id\t: AuthenticAMD\ncpu family\t: 25\nmodel\t\t: 1\n")
    text = "\n".join([*lines, "apart 2=40"])
    found = discovered(tmp_path / "sys", text, cpuinfo=cpuinfo)
    assert rates(found) == rates(read_topologies(list(files.values())))


def test_the_processor_decides_between_sockets(files, tmp_path):
    found = {}
    for model in ("AMD EPYC 7543 32-Core Processor", "AMD EPYC 9554 64-Core Processor"):
        files["lscpu"].write_text(f"Model name: {model}\n")
        topology = read_topologies(list(files.values()))
        found[model] = (
            group_rate(topology, [0, 2]).bytes_per_s / group_rate(topology, [0, 1]).bytes_per_s
        )
    milan, genoa = found.values()
    assert milan < 0.9 < genoa


def p2p(values):
    count = len(values)
    devices = "".join(
        f"Device: {i}, NVIDIA A10, pciBusID: {i + 1:x}, pciDeviceID: 0, pciDomainID:0\n"
        for i in range(count)
    )
    head = "   D\\D" + "".join(f"{i:>7}" for i in range(count)) + " \n"
    rows = "".join(
        f"{i:>6} " + " ".join(f"{value:6.2f}" for value in row) + " \n"
        for i, row in enumerate(values)
    )
    return (
        "[P2P (Peer-to-Peer) GPU Bandwidth Latency Test]\n"
        f"{devices}Unidirectional P2P=Enabled Bandwidth (P2P Writes) Matrix (GB/s)\n{head}{rows}"
    )


@RELAXED
@given(seed=st.integers(0, 10_000))
def test_no_set_is_faster_than_its_measured_pairs(seed, tmp_path_factory):
    rng = np.random.default_rng(seed)
    count = int(rng.integers(3, 6))
    values = rng.choice([2.0, 6.5, 10.0, 13.2, 20.0, 25.0], (count, count)).round(2)
    np.fill_diagonal(values, 800.0)
    path = tmp_path_factory.mktemp("p2p") / "p2p.txt"
    path.write_text(p2p(values))
    topology = read_topology(path)
    best = {}
    for pair in combinations(range(count), 2):
        rate = group_rate(topology, pair).bytes_per_s / GB
        assert rate <= min(values[pair], values[pair[::-1]]) * 1.001
        best[pair] = min(values[pair], values[pair[::-1]])
    taken = choose_devices(topology, 2).devices
    assert best[tuple(sorted(taken))] == max(best.values())
    for devices in combinations(range(count), 3):
        out = [sum(values[a, b] for b in devices if b != a) for a in devices]
        assert group_rate(topology, devices).bytes_per_s / GB <= min(out) * 1.001


def chosen_of_case(shared_dir, case, sources, count, free):
    """The indices that `choose` takes of the free ones, and the rate of the set in GB/s."""
    folder = shared_dir / "cases" / "topology" / case
    topology = read_topologies([folder / name for name in sources])
    usable = [place for place, device in enumerate(topology.devices) if device.index in free]
    chosen = choose_devices(topology, count, usable)
    indices = tuple(topology.devices[device].number for device in chosen.devices)
    return indices, chosen.bytes_per_s / GB


def test_measured_pairs_decide_which_are_taken(shared_dir):
    case = "01-measured-one-card-behind-chipset"
    assert chosen_of_case(shared_dir, case, ["p2p.txt"], 2, {0, 1, 2}) == (
        (1, 2),
        pytest.approx(13.2, rel=0.05),
    )
    case = "03-measured-one-slow-gpu"
    taken, rate = chosen_of_case(shared_dir, case, ["p2p.txt"], 3, {3, 4, 5, 6})
    assert taken == (3, 4, 5)
    assert rate == pytest.approx(25, rel=0.05)
    case = "39-measured-pairs-tie"
    taken, rate = chosen_of_case(shared_dir, case, ["topo.txt", "p2p.txt"], 2, {0, 1, 2, 3})
    assert taken == (2, 3)
    assert rate == pytest.approx(20, rel=0.05)


def test_a_card_at_a_quarter_of_its_lanes_is_avoided(shared_dir):
    case, sources = "21-pcie-x4-card", ["four-topo.txt", "four-query.csv"]
    taken, _ = chosen_of_case(shared_dir, case, sources, 2, {0, 1, 2, 3})
    assert 0 not in taken
    topology = read_topologies([shared_dir / "cases" / "topology" / case / s for s in sources])
    slow, fast = (
        topology.link_of_id[topology.route_of_pair[ends].links[0]].forward_bytes_per_s.value
        for ends in (("gpu0", "gpu1"), ("gpu1", "gpu0"))
    )
    assert slow == fast / 4


def test_measured_pairs_that_tie_in_the_matrix_are_told_apart(shared_dir):
    folder = shared_dir / "cases" / "topology" / "39-measured-pairs-tie"
    topology = read_topologies([folder / "topo.txt", folder / "p2p.txt"])
    assert group_rate(topology, [0, 1]).bytes_per_s / GB == pytest.approx(10, rel=0.05)


def test_cards_without_peer_access_promise_no_gain_below_a_switch(shared_dir):
    folder = shared_dir / "cases" / "topology" / "07-geforce-pix-slower-4"
    topology = read_topologies([folder / "topo.txt", folder / "list.txt"])
    near, far = group_rate(topology, [0, 1]), group_rate(topology, [0, 2])
    assert near.low <= far.high
    assert far.bytes_per_s >= near.bytes_per_s * 0.99


def test_a_proof_knows_the_pairs_that_were_measured(tmp_path):
    """Pairs of 52 and of 13 GB/s: tensor pairs take the fast ones, and so does what is proved."""
    values = np.full((4, 4), 13.0)
    for a, b in ((0, 2), (1, 3)):
        values[a, b] = values[b, a] = 52.0
    np.fill_diagonal(values, 800.0)
    path = tmp_path / "p2p.txt"
    path.write_text(p2p(values))
    result = map_traffic(read_topology(path), pattern_traffic("llm:tp=2,pp=2,dp=1"))
    pairs = {frozenset(result.device_of_rank[at : at + 2]) for at in (0, 2)}
    assert pairs == {frozenset((0, 2)), frozenset((1, 3))}
    assert result.placed.predicted_s < 0.5 * result.default.predicted_s


def test_an_idle_generation_is_no_capacity(files):
    """Asked for the current generation alone: 1, while GPUs that are built for 4 sleep."""
    told = rates(read_topologies(list(files.values())))
    idle = QUERY.replace("gen.max", "gen.current").replace("L40S, 4", "L40S, 1")
    files["query"].write_text(idle)
    assert rates(read_topologies(list(files.values()))) == told


def test_siblings_below_one_switch_are_staged_over_one_uplink(tmp_path):
    """Published of V100 without peer access: 9.83 of 11.0 one way, 10.36 of 18.74 both ways."""
    names = [f"GPU{at}" for at in range(4)]
    near = [" X ", "PIX", "NODE", "NODE"], ["PIX", " X ", "NODE", "NODE"]
    far = [["NODE", "NODE", *row[:2]] for row in near]
    for file, corner, rows in (
        ("topo.txt", "", [*near, *far]),
        ("p2p.txt", "", [["X" if a == b else "CNS" for b in names] for a in names]),
    ):
        lines = ["\t".join([name, *row]) for name, row in zip(names, rows, strict=True)]
        (tmp_path / file).write_text("\n".join(["\t".join([corner, *names]), *lines]) + "\n")
    uuid = "0000-0000-0000-000000000000"
    cards = (f"GPU {at}: Tesla V100-PCIE-16GB (UUID: GPU-{at:08d}-{uuid})\n" for at in range(4))
    (tmp_path / "list.txt").write_text("".join(cards))
    (tmp_path / "cpu.txt").write_text("Model name: Intel(R) Xeon(R) CPU E5-2698 v4 @ 2.20GHz\n")
    machine = read_topologies([tmp_path / f"{n}.txt" for n in ("topo", "p2p", "list", "cpu")])
    siblings, apart = copied(machine, (0, 1)), copied(machine, (0, 2))
    assert siblings / apart == pytest.approx(9.83 / 11.0, rel=0.05)
    siblings, apart = copied(machine, (0, 1), (1, 0)), copied(machine, (0, 2), (2, 0))
    assert siblings / apart == pytest.approx(10.36 / 18.74, rel=0.05)
    # two flows of a ring are copies both ways
    assert group_rate(machine, (0, 1)).bytes_per_s == pytest.approx(siblings / 2, rel=1e-3)
    assert group_rate(machine, (0, 2)).bytes_per_s > siblings / 2


@pytest.mark.parametrize(("nodes", "each"), [(8, (9.64, 10.0)), (2, (15.27, 15.27))])
def test_memory_nodes_per_socket_decide_what_is_staged(tmp_path, nodes, each):
    """Staged both ways on Rome: A40 in NPS4 (nccl-tests issue 74), RTX 4090 (NCCL issue 814)."""
    names, per = [f"GPU{at}" for at in range(nodes)], 64 // nodes
    cpus = [f"{at * per}-{(at + 1) * per - 1}" for at in range(nodes)]
    header = ["", *names, "CPU Affinity", "NUMA Affinity"]
    rows = [
        [a, *(" X " if a == b else "SYS" for b in names), cpus[at], str(at)]
        for at, a in enumerate(names)
    ]
    (tmp_path / "topo.txt").write_text("".join("\t".join(row) + "\n" for row in (header, *rows)))
    uuid = "0000-0000-0000-000000000000"
    cards = [
        f"GPU {at}: NVIDIA GeForce RTX 4090 (UUID: GPU-{at:08d}-{uuid})" for at in range(nodes)
    ]
    (tmp_path / "list.txt").write_text("\n".join(cards) + "\n")
    told = ["Model name: AMD EPYC 7302 16-Core Processor", "Socket(s): 2", f"NUMA node(s): {nodes}"]
    told += [f"NUMA node{at} CPU(s): {each}" for at, each in enumerate(cpus)]
    (tmp_path / "cpu.txt").write_text("\n".join(told) + "\n")
    machine = read_topologies([tmp_path / f"{name}.txt" for name in ("topo", "list", "cpu")])
    assert len(machine.between_sockets) == 1
    found = copied(machine, (0, 1), (1, 0)) / 2 / GB
    assert each[0] * 0.9 <= found <= each[1] * 1.1
    staged = group_rate(machine, range(nodes))
    assert (staged.bytes_per_s > 8 * GB) == (nodes == 8)
    (tmp_path / "cpu.txt").write_text(told[0] + "\n")  # now no source tells the sockets
    open_machine = pipeline.open_machine(
        read_topologies([tmp_path / f"{name}.txt" for name in ("topo", "list", "cpu")])
    )
    assert len(open_machine.nominal.topology.between_sockets) == nodes * (nodes - 1) // 2
    facts = [fact.what for fact in open_machine.facts]
    assert ("memory nodes per socket" in facts) == (nodes == 8)
    if nodes == 8:
        chosen = tuple(2 * (what == "memory nodes per socket") for what in facts)
        drawn = open_machine.at(chosen).topology
        assert drawn.between_sockets == machine.between_sockets
        assert rates(drawn) == rates(machine)


def staged(files):
    """Both tables of a driver that gives no peer access."""
    files["topo"].write_text(f"{TOPO}\n{P2P}\n")
    return files["topo"]


@pytest.mark.parametrize("devices", [(0, 1), (0, 2), (0, 1, 2, 3)])
def test_an_untold_processor_is_the_geometric_middle_of_what_its_families_reach(files, devices):
    """Staged in host memory, Genoa reaches most and Rome or Milan least of those with PCIe 4 or 5.

    So what is said of it is a range, and two sets are compared within each family.
    """
    parts = [staged(files), files["query"]]
    told = []
    for model in ("AMD EPYC 7742", "AMD EPYC 7543", "AMD EPYC 9654", "Intel Xeon Platinum 8380"):
        files["lscpu"].write_text(f"Model name: {model}\n")
        told.append(toposeat.group_rate([*parts, files["lscpu"]], devices).bytes_per_s)
    found = toposeat.group_rate(parts, devices)
    assert found.bytes_per_s == pytest.approx((min(told) * max(told)) ** 0.5, rel=1e-6)
    assert found.low <= min(told) < max(told) <= found.high
    assert found.cut_bytes_per_s >= found.bytes_per_s
    machine = pipeline.open_machine(read_topologies(parts))
    chosen = choose_devices(machine.nominal.topology, len(devices), devices, machine=machine)
    assert chosen.is_between
    assert chosen.bytes_per_s == pytest.approx(found.bytes_per_s)
    text = render_device_set_text(chosen, machine.nominal.topology)
    (take,) = (line for line in text.splitlines() if line.startswith("Take"))
    least, most, between = (
        f"{x / 1e9:#.3g}" for x in (chosen.low, chosen.high, chosen.bytes_per_s)
    )
    assert f": {least} to {most} GB/s in a ring" in text
    assert between not in take


def test_verbs_print_the_ends_of_link_times_where_no_processor_is_told(files, tmp_path, capsys):
    """What map, compare and doctor print holds what each processor gives, and no figure of none."""
    place, args = str(tmp_path / "a.place"), [f"-t={staged(files)}", f"-t={files['query']}"]

    def said(*words):
        assert main([*words]) == 0
        return capsys.readouterr().out

    answer = json.loads(said("map", "alltoall:2x2", *args, "-o", place, "--json"))
    between, nominal = answer["premises"]["between"], answer["default"]["predicted_s"]
    families = []
    for model in ("AMD EPYC 7742", "AMD EPYC 7543", "AMD EPYC 9654", "Intel Xeon Platinum 8380"):
        files["lscpu"].write_text(f"Model name: {model}\n")
        told = json.loads(said("compare", place, *args, f"-t={files['lscpu']}", "--json"))
        assert told["predicted"][1]["premises"]["between"] is None
        families.append([each["predicted_s"] for each in told["predicted"]])
    for (low, high), of_all in zip(between, zip(*families, strict=True), strict=True):
        assert low <= min(of_all) * (1 + 1e-9)
        assert high >= max(of_all) * (1 - 1e-9)
    least, most, one = (f"{1e6 * seconds:.3g} us" for seconds in (*between[0], nominal))
    ends = f"{least.removesuffix(' us')} to {most}"
    said_of = range_words(Premises(gain_range=tuple(answer["premises"]["gain_range"])))
    gain = said_of.partition(" of the default")[0]
    for words in (("map", "alltoall:2x2", "-v"), ("compare", place)):
        text = " ".join(said(*words, *args).split())
        assert gain in text
        assert ends in text
        assert "capacity between sockets: 10 to 450 GB/s" in text
        assert one not in text
    assert main(["doctor", *args]) == 1  # a link of eight lanes
    most = gain.rpartition(" to ")[2]
    assert f"saves up to {most}, depending on the processor" in capsys.readouterr().out


def test_a_told_processor_has_a_rate_of_its_own(files):
    parts = [staged(files), files["query"], files["lscpu"]]
    assert toposeat.group_rate(parts, (0, 2)) == group_rate(read_topologies(parts), (0, 2))
