"""Groups over several hosts of a machine whose devices are listed: the channels between them."""

import pytest

from tests.mapping.test_node_order import NAMES, leaves_of_four
from toposeat.evaluation import Evaluator, group_rate
from toposeat.mapping import SlotEvaluator, join_hosts, map_traffic, shape_of_network
from toposeat.model.topology import LinkKind
from toposeat.profile import pattern_traffic
from toposeat.topology import read_network, read_topology, without_devices

INTERLEAVED = [NAMES[at] for at in (0, 4, 1, 5)]


def joined(order, taper=1, node="hgx-h100"):
    network = leaves_of_four(NAMES, taper).restricted_to(order)
    return join_hosts(network, [read_topology(node)] * len(order))


def evaluated(topology, job):
    evaluator = Evaluator(topology, pattern_traffic(job))
    return evaluator.evaluate(evaluator.default)


@pytest.mark.parametrize("node", ["hgx-h100", "dgx-1v", "summit-6", "perlmutter-4"])
@pytest.mark.parametrize("taper", [1, 4])
def test_it_is_the_model_of_large_machines(node, taper):
    """That one adds up bytes over slots of hosts, this one over the links of the topology.

    This one knows what a single flow reaches: up to 4 % less on Perlmutter.
    """
    devices = len(read_topology(node).devices)
    network = leaves_of_four(NAMES, taper).restricted_to(INTERLEAVED)
    shape = shape_of_network(network, read_topology(node))
    for job in (f"llm:tp={2 * devices},pp=1,dp=2", f"llm:tp={devices},pp=1,dp=4", "llm:tp=2,dp=2"):
        slots = SlotEvaluator(shape, pattern_traffic(job))
        expected = slots.evaluate(slots.default).phases
        found = evaluated(joined(INTERLEAVED, taper, node), job).phases
        assert [phase.label for phase in found] == [phase.label for phase in expected]
        for one, other in zip(found, expected, strict=True):
            assert one.seconds == pytest.approx(
                other.seconds, rel=0.04 if node == "perlmutter-4" else 1e-3
            )


def test_a_group_on_two_hosts_uses_all_their_nics():
    """The rings inside the hosts are slower than an eighth over each GPU's PCIe and NIC."""
    job = "llm:tp=16,pp=1,dp=1"
    (volume,) = {each.bytes for each in pattern_traffic(job).groups}
    (phase,) = evaluated(joined(NAMES[:2]), job).phases
    inside = group_rate(read_topology("hgx-h100"), range(8)).bytes_per_s
    assert inside < 8 * 50e9
    assert phase.seconds == pytest.approx(volume / inside)


def test_of_gpus_that_share_a_nic_one_sends_and_the_other_receives():
    """Over each of four channels a quarter of what trees send, which is 16/30 of a ring's bytes."""
    job = "llm:tp=16,pp=1,dp=1"
    (volume,) = {each.bytes for each in pattern_traffic(job).groups}
    links = evaluated(joined(NAMES[:2], node="dgx-1v"), job).links
    own = [each.bytes / volume for each in links if "pcie:gpu" in each.link]
    assert own == pytest.approx([16 / 30 / 4] * 16)


def test_the_order_of_hosts_gains_on_tapered_leaves_without_a_proof():
    """Two hosts on each of two leaves, taper 4: interleaved the uplinks carry all twice."""
    job = "llm:tp=1,pp=1,dp=32"
    result = map_traffic(joined(INTERLEAVED, 4), pattern_traffic(job))
    assert result.placed.predicted_s < 0.9 * result.default.predicted_s
    assert not result.certificate.proved
    assert result.certificate.lower_bound is None
    assert "several nodes" in result.certificate.reason


def test_trays_on_one_switch_are_one_node():
    job = "llm:tp=72,pp=1,dp=1"
    (volume,) = {each.bytes for each in pattern_traffic(job).groups}
    rack = read_topology("gb200-nvl72")
    (phase,) = evaluated(rack, job).phases
    assert phase.seconds == pytest.approx(volume / 721.8e9)
    assert map_traffic(rack, pattern_traffic(job)).certificate.proved


def test_joined_trays_of_a_domain_are_one_node(tmp_path):
    """Two domains of two trays: inside a tensor group has NVLink, over both the eight NICs.

    Over these trees send 16/30 of what a ring does: 400 GB/s carry more than NVLink.
    """
    conf = tmp_path / "topology.conf"
    conf.write_text("SwitchName=leaf Nodes=n[0-3]\n")
    network = read_network(f"{conf},domain=2,rails=4,bandwidth=50")
    rack = read_topology("gb200-nvl72")
    tray = without_devices(
        rack, frozenset(each.id for each in rack.devices if each.host != rack.hosts[0])
    )
    machine = join_hosts(network, [tray] * 4)
    machine.check()
    inside = machine.route_of_pair["n0/gpu0", "n1/gpu3"]
    assert [machine.link_of_id[link].kind for link in inside.links] == [LinkKind.NVLINK] * 2
    outside = machine.route_of_pair["n0/gpu0", "n2/gpu3"]
    assert LinkKind.NVLINK not in {machine.link_of_id[link].kind for link in outside.links}
    for job, rate in (
        ("llm:tp=8,pp=1,dp=1", 721.8e9),
        ("llm:tp=16,pp=1,dp=1", 721.8e9),
        ("llm:tp=16,pp=1,dp=1,sp", 8 * 50e9),
    ):
        (volume,) = {each.bytes for each in pattern_traffic(job).groups}
        (phase,) = evaluated(machine, job).phases
        assert phase.seconds == pytest.approx(volume / rate, rel=1e-3)


def test_a_domain_of_hosts_without_a_switch_is_left_out(tmp_path):
    conf = tmp_path / "topology.conf"
    conf.write_text("SwitchName=leaf Nodes=n[0-1]\n")
    nodes = [read_topology("perlmutter-4")] * 2
    machine = join_hosts(read_network(f"{conf},domain=2"), nodes)
    assert any("domain is left out" in line for line in machine.report)
    assert machine.routes == join_hosts(read_network(conf), nodes).routes
