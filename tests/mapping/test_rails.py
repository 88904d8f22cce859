"""Rails: what an order of hosts, or of devices inside them, costs on each kind of fabric.

The oracle is arithmetic on 16 hosts of 8 NICs of 24 GB/s: a leaf with P ports has an uplink of
24 P / taper, and a ring of one member on each host carries 24 GB/s where nothing is tapered.
"""

import numpy as np
import pytest

from toposeat.errors import UsageError
from toposeat.mapping import SlotEvaluator, map_to_shape, read_shape, shape_of_network
from toposeat.model.map_options import MapOptions
from toposeat.profile import pattern_traffic
from toposeat.topology import read_network, read_topology

CONTIGUOUS = np.arange(16)
INTERLEAVED = np.arange(16).reshape(4, 4).T.ravel()  # the ring visits pod 0, 1, 2, 3, 0, ...
PODS = "".join(
    f"SwitchName=pod{pod} Nodes=n[{4 * pod:02d}-{4 * pod + 3:02d}]\n" for pod in range(4)
)


@pytest.fixture
def conf(tmp_path):
    path = tmp_path / "topology.conf"
    path.write_text(f"{PODS}SwitchName=spine Switches=pod[0-3]\n")
    return path


def rate(source, job, hosts, *, turned=False):
    """GB/s of the groups of `data`: ranks 8 h to 8 h + 7 on host `hosts[h]`, turned by h or not."""
    shape = shape_of_network(read_network(source), read_topology("hgx-h100"))
    traffic = pattern_traffic(job)
    local = np.arange(8)[None, :] + (np.arange(16)[:, None] if turned else 0)
    slots = (8 * hosts[:, None] + local % 8).ravel()
    found = SlotEvaluator(shape, traffic).evaluate(slots)
    ranks = {each.id: len(each.ranks) for each in traffic.communicators}
    (volume,) = {each.bytes for each in traffic.groups if ranks[each.communicator] >= 16}
    seconds = {phase.label: phase.seconds for phase in found.phases}["data"]
    return volume / seconds / 1e9


ALIGNED, WHOLE = "llm:tp=8,pp=1,dp=16", "llm:tp=1,pp=1,dp=128"
PAIRS = "llm:tp=1,pp=8,dp=16"


@pytest.mark.parametrize("taper", [1, 2, 4])
@pytest.mark.parametrize(
    "case",
    [
        (ALIGNED, CONTIGUOUS, False, {1: 24, 2: 24, 4: 24}),
        (ALIGNED, CONTIGUOUS, True, {1: 24, 2: 12, 4: 6}),
        (ALIGNED, INTERLEAVED, False, {1: 24, 2: 12, 4: 6}),
        (WHOLE, CONTIGUOUS, False, {1: 192, 2: 192, 4: 192}),
        (WHOLE, INTERLEAVED, False, {1: 192, 2: 96, 4: 48}),
        # By trees two hosts send S, which is 16/30 of V.
        (PAIRS, CONTIGUOUS, False, dict.fromkeys((1, 2, 4), 192 * 30 / 16)),
    ],
)
def test_rates_on_rails_with_a_spine(conf, taper, case):
    job, hosts, turned, rates = case
    source = f"{conf},rails=8,bandwidth=24,taper={taper}"
    assert rate(source, job, hosts, turned=turned) == pytest.approx(rates[taper], rel=2e-3)


def test_loads_of_trees_and_rings_on_plain_leaves(conf):
    """A leaf has 24 GB/s out: by trees it sends 3 S or 8 S there, by rings V or 4 V."""
    source = f"{conf},bandwidth=24,taper=32"
    shape = shape_of_network(read_network(source), read_topology("hgx-h100"))
    traffic = pattern_traffic("llm:tp=8,pp=1,dp=16")
    volume = max(each.bytes for each in traffic.groups if each.phase == 1)
    size = volume * 16 / (2 * 15)
    evaluator, loads = SlotEvaluator(shape, traffic), {}
    for name, hosts in (("contiguous", CONTIGUOUS), ("interleaved", INTERLEAVED)):
        slots = (8 * hosts[:, None] + np.arange(8)).ravel().astype(np.uint32)
        phases = evaluator.with_other_ways(evaluator.evaluate(slots)).phases
        (data,) = (each for each in phases if each.label == "data")
        assert data.trees_s is not None
        trees, ring = data.trees_s / (8 * size), data.seconds / (8 * volume)
        loads[name] = round(24e9 * trees, 3), round(24e9 * ring, 3)
        assert all(each.trees_s is None for each in phases if each.label != "data")
    assert loads == {"contiguous": (3, 1), "interleaved": (8, 4)}


def test_on_plain_leaves_the_order_inside_hosts_does_not_matter(conf):
    source = f"{conf},bandwidth=24,taper=4"
    turned = rate(source, ALIGNED, CONTIGUOUS, turned=True)
    assert turned == pytest.approx(rate(source, ALIGNED, CONTIGUOUS), rel=1e-3)


def test_without_a_spine_hosts_pass_on_what_changes_rails(conf, tmp_path):
    """In one pod that is no load on uplinks; a ring that stays on its rail sees no difference."""
    source = f"{conf},rails=8:only,bandwidth=24,taper=4"
    assert rate(source, ALIGNED, CONTIGUOUS) == pytest.approx(24, rel=1e-3)
    assert rate(source, ALIGNED, INTERLEAVED) == pytest.approx(6, rel=1e-3)
    path = tmp_path / "one.conf"
    path.write_text("SwitchName=pod Nodes=n[00-15]\n")
    source = f"{path},rails=8:only,bandwidth=24,taper=4"
    assert rate(source, ALIGNED, CONTIGUOUS, turned=True) == pytest.approx(24, rel=1e-3)


def test_one_leaf_per_rail_gets_a_spine_that_is_said(tmp_path):
    path = tmp_path / "one.conf"
    path.write_text("SwitchName=pod Nodes=n[00-15]\n")
    network = read_network(f"{path},rails=8,bandwidth=24,taper=4")
    assert any("spine" in line for line in network.report)
    assert len(network.switches) == 9
    assert rate(f"{path},rails=8,bandwidth=24,taper=4", ALIGNED, CONTIGUOUS) == pytest.approx(
        24, rel=1e-3
    )


def test_the_order_of_devices_stays_on_rails(conf):
    shape = shape_of_network(read_network(f"{conf},rails=8,taper=4"), read_topology("hgx-h100"))
    result = map_to_shape(shape, pattern_traffic(ALIGNED), MapOptions(budget_s=1))
    assert (np.array(result.device_of_rank) % 8 == np.arange(128) % 8).all()


def test_a_shape_has_rails_as_a_file_has(conf):
    of_file, of_shape = f"{conf},rails=8,taper=2", "fattree:8:4:4,rails=8,taper=2"
    for turned in (False, True):
        found = rate(of_shape, ALIGNED, INTERLEAVED, turned=turned)
        assert found == pytest.approx(rate(of_file, ALIGNED, INTERLEAVED, turned=turned), rel=1e-3)


def test_a_host_rate_of_a_shape_is_that_of_all_rails():
    """50:192:192 GB/s: of a device, of a host's eight ports, of the eight uplinks of a pod."""
    source = "fattree:8:4:4,rails=8,bandwidth=50:192:192"
    assert rate(source, ALIGNED, CONTIGUOUS) == pytest.approx(24, rel=1e-3)
    assert rate(source, ALIGNED, INTERLEAVED) == pytest.approx(6, rel=1e-3)


def test_a_taper_of_a_shape_divides_its_uplinks():
    traffic = pattern_traffic("random:128,seed=1")
    tapered, stated = (
        SlotEvaluator(read_shape(text), traffic)
        for text in ("fattree:8:4:2:2,taper=2", "fattree:8:4:2:2,bandwidth=25:25:50:50")
    )
    slots = tapered.default
    assert tapered.evaluate(slots).links == stated.evaluate(slots).links


def test_a_node_has_as_many_nics_as_there_are_rails(conf):
    with pytest.raises(UsageError, match="8 NICs, the network 4 rails"):
        shape_of_network(read_network(f"{conf},rails=4"), read_topology("hgx-h100"))


def notes_of(source, node, job):
    shape = shape_of_network(read_network(source), read_topology(node))
    found = map_to_shape(shape, pattern_traffic(job), MapOptions(solver="default"))
    return [note for note in found.notes if note.startswith("ranks on different rails")]


def test_ranks_without_a_common_rail_are_what_the_library_makes_of_them(conf):
    only, shared = f"{conf},rails=8:only", f"{conf},rails=8"
    # Ranks r and s of two hosts are on one rail where r = s modulo 8: 8 of 64 pairs of hosts.
    (note,) = notes_of(only, "hgx-h100", "alltoall:32")
    assert f"{6 * 56} pairs. NCCL sends through a GPU of the host" in note
    assert not notes_of(shared, "hgx-h100", "alltoall:32")
    # Tensor parallel inside hosts, data parallel along rails: nothing leaves its rail.
    assert not notes_of(only, "hgx-h100", "llm:tp=8,dp=16")
    (group,) = notes_of(only, "hgx-h100", "llm:tp=4,dp=3")  # hosts 0 and 1 by halves
    assert "groups. NCCL sends through" in group
    (refused,) = notes_of(f"{conf},rails=2:only", "l40s-8", "alltoall:16")
    assert "32 pairs. Without NVLink between all GPUs of a host NCCL does not forward" in refused
