from tests.report import samples
from toposeat.model.topology import (
    Component,
    ComponentKind,
    Device,
    LinkKind,
    Nic,
    Topology,
)
from toposeat.report.view.tree import build_forest


def shape(node):
    """`(vertex, [children])`, leaves as plain names."""
    return (node.vertex, [shape(c) for c in node.children]) if node.children else node.vertex


def test_tree_of_two_packages():
    forest = build_forest(samples.small_tree())
    assert [shape(root) for root in forest.roots] == [
        ("package0", [("bridge0", [("switch0", ["gpu0", "gpu1"]), "nic0"])]),
        ("package1", [("bridge1", [("switch1", ["gpu2", "gpu3"])])]),
    ]
    assert forest.other_links == ("package0--package1",)


def test_every_vertex_hangs_once_and_every_link_is_somewhere():
    for topology in (samples.k80_16(), samples.mesh_8(), samples.cluster(), samples.switch_box()):
        forest = build_forest(topology)
        found = list(forest.roots)
        for node in found:
            found += node.children
        vertices = [node.vertex for node in found]
        assert len(vertices) == len(set(vertices))
        tree_links = {node.link for node in found if node.link}
        assert tree_links.isdisjoint(forest.other_links)
        assert tree_links | set(forest.other_links) == {link.id for link in topology.links}


def test_devices_of_a_crossed_tree_follow_the_tree_not_their_numbers():
    components = tuple(
        Component(id=f"switch{s}", kind=ComponentKind.SWITCH, name=f"switch {s}") for s in range(2)
    )
    devices = tuple(samples.device(i) for i in range(4))
    links = tuple(samples.link(LinkKind.PCIE, f"gpu{i}", f"switch{i % 2}", 12) for i in range(4))
    crossed = Topology(
        name="crossed", origin="test", devices=devices, components=components, links=links
    )
    forest = build_forest(crossed)
    order = [leaf.vertex for root in forest.roots for leaf in root.leaves()]
    assert order == ["gpu0", "gpu2", "gpu1", "gpu3"]


def test_nic_on_a_device_stands_beside_it():
    devices = tuple(Device(id=f"gpu{i}", index=i) for i in range(3))
    topology = Topology(
        name="frontier-like",
        origin="test",
        devices=devices,
        nics=(Nic(id="nic0", index=0),),
        links=(
            samples.link(LinkKind.PCIE, "nic0", "gpu1", 25),
            samples.link(LinkKind.XGMI, "gpu0", "gpu1", 50),
        ),
    )
    forest = build_forest(topology)
    assert [root.vertex for root in forest.roots] == ["gpu0", "gpu1", "nic0", "gpu2"]


def test_second_way_up_is_left_over():
    components = (
        Component(id="package0", kind=ComponentKind.PACKAGE),
        Component(id="switch0", kind=ComponentKind.SWITCH),
    )
    links = (
        samples.link(LinkKind.PCIE, "gpu0", "switch0", 12),
        samples.link(LinkKind.PCIE, "switch0", "package0", 12),
        samples.link(LinkKind.C2C, "gpu0", "package0", 450),
    )
    topology = Topology(
        name="c2c",
        origin="test",
        devices=(Device(id="gpu0", index=0),),
        components=components,
        links=links,
    )
    forest = build_forest(topology)
    assert len(forest.other_links) == 1
