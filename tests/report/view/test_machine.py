from dataclasses import replace

from tests.report import samples
from toposeat.model.quantity import Source
from toposeat.model.topology import Component, ComponentKind, Device, Topology
from toposeat.model.traffic import Traffic
from toposeat.report.view import machine
from toposeat.report.view import traffic as profile


def test_links_and_vertices_in_words():
    tree = samples.small_tree()
    assert machine.link_words(tree, "package0--package1") == "cross-socket: package 0 - package 1"
    assert machine.link_words(tree, "gpu3--switch1") == "PCIe: D3 - switch 1"
    assert machine.link_words(tree, "nic0--bridge0") == "PCIe: NIC mlx5_0 - host bridge 0"
    assert machine.link_words(tree, "no such link") == "no such link"
    cluster = samples.cluster(2, 2)
    assert machine.link_words(cluster, "node01/gpu0--node01/switch0") == (
        "PCIe: node01:D0 - node01 switch 0"
    )


def test_nameless_components_get_words():
    def name(**fields):
        return machine.component_words(Component(**fields))  # type: ignore[arg-type]

    assert name(id="switch12", kind=ComponentKind.SWITCH) == "switch 12"
    assert name(id="hb", kind=ComponentKind.HOST_BRIDGE, pci_bus_id="0000:00:00.0") == (
        "host bridge 0000:00:00.0"
    )
    assert name(id="odd", kind=ComponentKind.SWITCH) == "odd"


def test_topology_and_traffic_sentences():
    assert machine.topology_sentence(samples.small_tree()) == (
        "small-tree, 4 x Tesla K80, 10 links nominal"
    )
    assert machine.topology_sentence(samples.cluster(2, 2)) == (
        "cluster, 2 hosts, 4 x A100, 10 links nominal"
    )
    nameless = Topology(name="box", origin="test", devices=(Device(id="a", index=0),))
    assert machine.topology_sentence(nameless) == "box, 1 device, no links known"
    traffic = samples.timed(samples.stencil((2, 2)))
    assert profile.traffic_sentence(traffic) == (
        "stencil2d:2x2,weight=1, 4 ranks, 8.00 MiB between devices, 4.00 KiB through the host"
    )
    assert profile.traffic_sentence(Traffic(ranks=1, origin="x", tables={})) == (
        "x, 1 rank, no bytes sent"
    )
    host = Traffic(ranks=4, origin="x", tables={samples.HOST_P2P: traffic.tables[samples.HOST_P2P]})
    assert profile.traffic_sentence(host) == "x, 4 ranks, 4.00 KiB from host memory"


def test_measured_links_come_first():
    tree = samples.small_tree()
    first = replace(tree.links[0], forward_bytes_per_s=samples.measured(11e9))
    mixed = replace(tree, links=(first, *tree.links[1:]))
    assert machine.link_source_words(mixed) == "1 link measured, 9 nominal"
    assert machine.quantity_counts(mixed)[Source.MEASURED] == 1


def test_relation_words():
    mesh = samples.mesh_8()
    assert machine.relation_word(mesh, "gpu0", "gpu0") == "X"
    assert machine.relation_word(mesh, "gpu0", "gpu1") == "NV1"
    assert machine.relation_word(mesh, "gpu0", "gpu3") == "NV2"
    assert machine.relation_word(mesh, "gpu0", "gpu5") == "SYS"
    refused = replace(mesh, routes=tuple(replace(r, peer_access=False) for r in mesh.routes))
    assert machine.relation_word(refused, "gpu0", "gpu5") == "SYS!"
    assert machine.relation_word(replace(mesh, routes=()), "gpu0", "gpu5") == "-"


def test_short_device_names():
    assert machine.short_device_name("NVIDIA A100-SXM4-40GB", 14) == "A100-SXM4-40GB"
    assert machine.short_device_name("NVIDIA A100-SXM4-40GB", 9) == "A100-SXM4"
    assert machine.short_device_name("Tesla K80", 5) == "K80"
    assert machine.short_device_name("AMD Instinct MI250X", 8) == "MI250X"
    assert machine.short_device_name("AMD Instinct MI250X", 3) == ""
    assert machine.short_device_name("", 8) == ""
