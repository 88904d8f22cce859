"""NVLink domains over hosts: trays of GB200 NVL72, two domains of 16 trays with four GPUs each."""

import random

import numpy as np
import pytest

from toposeat.errors import InputError, UsageError
from toposeat.mapping import SlotEvaluator, join_hosts, map_to_shape, shape_of_network
from toposeat.model.map_options import MapOptions
from toposeat.profile import pattern_traffic
from toposeat.topology import read_network, read_topology

PORT = 721.8e9  # bytes/s that a GPU of the rack reaches over NVLink
NIC = 50e9
BY_DOMAIN = list(range(32))
ALTERNATING = [host // 2 + 16 * (host % 2) for host in range(32)]
SHUFFLED = random.Random(5).sample(range(32), 32)


def racks(conf, order, options=",domain=16"):
    """32 trays on one leaf, with a rail for each of four NICs; the job has the hosts in `order`."""
    conf.write_text("SwitchName=leaf Nodes=n[00-31]\n")
    network = read_network(f"{conf},rails=4,bandwidth=50{options}")
    network = network.restricted_to([network.host_names[host] for host in order])
    return shape_of_network(network, read_topology("gb200-nvl72"))


def mapped(shape, job):
    return map_to_shape(shape, pattern_traffic(job), MapOptions(budget_s=1))


def domains_of_groups(shape, result, job, name):
    domain = [shape.domain_of_host[slot // 4] for slot in result.device_of_rank]
    groups = [each for each in pattern_traffic(job).communicators if each.name.startswith(name)]
    assert groups
    return [{domain[rank] for rank in each.ranks} for each in groups]


@pytest.mark.parametrize("order", [BY_DOMAIN, ALTERNATING, SHUFFLED])
@pytest.mark.parametrize(
    ("job", "name"),
    [
        ("llm:tp=64,pp=1,dp=2", "tensor"),
        ("llm:tp=2,pp=1,dp=64,ep=32,experts=32,sp", "expert parallel"),
    ],
)
def test_groups_that_fit_in_a_domain_stay_inside(tmp_path, job, name, order):
    shape = racks(tmp_path / "topology.conf", order)
    result = mapped(shape, job)
    assert all(len(found) == 1 for found in domains_of_groups(shape, result, job, name))
    low, high = result.premises.gain_range
    nominal = 1 - result.placed.predicted_s / result.default.predicted_s
    assert low - 1e-9 <= nominal <= high + 1e-9  # the verdict is that of the order that is taken


@pytest.mark.parametrize("order", [BY_DOMAIN, ALTERNATING])
def test_a_group_larger_than_a_domain_crosses_and_it_is_said(tmp_path, order):
    """By the NICs of 16 trays NVLink is the limit; by the four of one tray these are.

    From one of two domains to the other trees send S, where a ring does V = 2 S (n - 1) / n.
    """
    job = "llm:tp=128,pp=1,dp=1"
    result = mapped(racks(tmp_path / "topology.conf", order), job)
    (load,) = pattern_traffic(job).groups
    (note,) = [note for note in result.notes if "crosses domains" in note]
    assert "128 ranks" in note
    assert "domain 64 devices" in note
    assert f"{load.bytes / PORT * 1e3:.4g} ms" in note
    high = float(note.rpartition(", ")[2].split()[0])
    assert high == pytest.approx(load.bytes * 128 / 254 / (4 * NIC) * 1e3, rel=1e-2)


def test_a_ring_over_the_trays_of_a_domain_has_the_rate_of_nvlink(tmp_path):
    job = "llm:tp=64,pp=1,dp=1"
    shape = racks(tmp_path / "topology.conf", BY_DOMAIN)
    evaluator = SlotEvaluator(shape, pattern_traffic(job))
    found = evaluator.evaluate(evaluator.default)
    (load,) = pattern_traffic(job).groups
    assert found.phases[0].seconds == pytest.approx(load.bytes / PORT, rel=1e-3)
    assert all(each.level == "nvlink in hosts" for each in found.links)
    assert [each.bytes for each in found.links] == pytest.approx([load.bytes] * 20)


def test_messages_in_a_domain_load_the_links_of_both_ends_only(tmp_path):
    shape = racks(tmp_path / "topology.conf", BY_DOMAIN)
    evaluator = SlotEvaluator(shape, pattern_traffic("alltoall:2,bytes=1e6"))
    inside = evaluator.evaluate([1, 4 * 15 + 2])
    assert sorted(each.link for each in inside.links) == [
        "n00 D1 -> nvswitch0",
        "n00 nvswitch0 -> D1",
        "n15 D2 -> nvswitch0",
        "n15 nvswitch0 -> D2",
    ]
    outside = evaluator.evaluate([1, 4 * 16 + 2])
    assert all("nvswitch" not in each.link for each in outside.links)
    assert outside.cost > inside.cost


def test_the_best_order_is_found_against_the_ring_of_hosts(tmp_path):
    """Tensor groups of 16: what the search keeps inside costs no more than hosts in order."""
    job = "llm:tp=16,pp=1,dp=8"
    ordered = racks(tmp_path / "a.conf", BY_DOMAIN)
    shuffled = racks(tmp_path / "b.conf", SHUFFLED)
    result = mapped(shuffled, job)
    evaluator = SlotEvaluator(ordered, pattern_traffic(job))
    assert result.placed.predicted_s <= evaluator.evaluate(evaluator.default).predicted_s * 1.1
    found = domains_of_groups(shuffled, result, job, "tensor")
    assert all(len(domains) == 1 for domains in found)


def test_blocks_of_slurm_are_the_domains_of_trays(tmp_path):
    conf = tmp_path / "topology.conf"
    conf.write_text("BlockName=b1 Nodes=n[01-18]\nBlockName=b2 Nodes=n[19-36]\nBlockSizes=18\n")
    network = read_network(conf)
    shape = shape_of_network(network, read_topology("gb200-nvl72"))
    assert np.bincount(shape.domain_of_host).tolist() == [18, 18]
    assert any("each block" in note for note in shape.notes)
    other = shape_of_network(network, read_topology("hgx-h100"))
    assert other.domain_of_host == ()


def test_a_part_of_the_hosts_keeps_its_domains(tmp_path):
    shape = racks(tmp_path / "topology.conf", [0, 20, 1, 21])
    assert shape.domain_of_host == (0, 1, 0, 1)


def test_trays_without_a_stated_domain_are_nodes_and_it_is_said(tmp_path):
    shape = racks(tmp_path / "topology.conf", BY_DOMAIN, options="")
    assert shape.domain_of_host == ()
    assert any("domain=18" in note for note in shape.notes)


def test_nodes_without_a_fabric_have_no_domains(tmp_path):
    conf = tmp_path / "topology.conf"
    conf.write_text("SwitchName=leaf Nodes=n[00-31]\n")
    shape = shape_of_network(read_network(f"{conf},domain=16"), read_topology("perlmutter-4"))
    assert shape.domain_of_host == ()
    assert any("no NVSwitch" in note for note in shape.notes)


def test_domains_that_make_no_sense_are_refused(tmp_path):
    with pytest.raises(UsageError, match="18 trays"):
        racks(tmp_path / "topology.conf", BY_DOMAIN, options=",domain=19")


def test_machines_of_other_hosts_are_no_node(tmp_path):
    conf = tmp_path / "topology.conf"
    conf.write_text("SwitchName=leaf Nodes=n[00-31]\n")
    network = read_network(conf)
    part = network.restricted_to(["n00", "n01"])
    several = join_hosts(part, [read_topology("rtx-4-crossed-bridges")] * 2)
    with pytest.raises(InputError, match="has 2 hosts"):
        shape_of_network(network, several)
