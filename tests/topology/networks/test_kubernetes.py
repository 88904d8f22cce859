"""Kubernetes: which labels and objects say where nodes are, and what is left out or refused."""

import json

import pytest

from toposeat.errors import InputError
from toposeat.model.network import NetworkKind
from toposeat.topology import is_network, read_network

UUID = "5f0c3b7e-1f6a-4f2f-9c55-7be0b1d4a001"
# Of every family its labels, the nearest first, as its own documentation names them.
LABELS = {
    "Topograph": [
        ("fabric.topograph.run/tier-0", "fabric.topograph.run/tier-1"),
        ("network.topology.nvidia.com/tier-0", "network.topology.nvidia.com/tier-1"),
        ("network.topology.nvidia.com/leaf", "network.topology.nvidia.com/spine"),
        ("network.topology.nvidia.com/block", "network.topology.nvidia.com/spine"),
    ],
    "EKS": [
        ("topology.k8s.aws/network-node-layer-3", "topology.k8s.aws/network-node-layer-2"),
        ("topology.k8s.aws/network-node-layer-4", "topology.k8s.aws/network-node-layer-1"),
    ],
    "GKE": [("cloud.google.com/gce-topology-subblock", "cloud.google.com/gce-topology-block")],
    "OKE": [
        (
            "oci.oraclecloud.com/rdma.local_block_id",
            "oci.oraclecloud.com/rdma.network_block_id",
        )
    ],
    "zones": [("topology.kubernetes.io/zone", "topology.kubernetes.io/region")],
}


def node(name, labels=None, gpus=8, **spec):
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, **(labels or {})}},
        "spec": spec,
        "status": {"capacity": {"cpu": "96", "nvidia.com/gpu": str(gpus)}},
    }


def read(folder, *items):
    path = folder / "nodes.json"
    document = {"apiVersion": "v1", "items": items, "kind": "List"}
    path.write_text(json.dumps(document, indent=4))  # as kubectl prints it
    assert is_network(str(path))
    return read_network(path)


def groups(network, at=-1):
    """The hosts of each group of a level, of the nearest one if no other is named."""
    found = {}
    for host, group in zip(network.host_names, network.levels[at].group_of_host, strict=True):
        found.setdefault(group, []).append(host)
    return list(found.values())


@pytest.mark.parametrize(
    ("whose", "labels"), [(whose, each) for whose, all_ in LABELS.items() for each in all_]
)
def test_labels_are_levels(tmp_path, whose, labels):
    near, far = labels
    zone = {"topology.kubernetes.io/zone": "z"}  # which every cloud gives
    places = {"n0": ("a", "x"), "n1": ("b", "x"), "n2": ("a", "x"), "n3": ("c", "y")}
    items = [node(name, {**zone, near: n, far: f}) for name, (n, f) in places.items()]
    network = read(tmp_path, *items)
    assert whose in network.origin
    assert network.kind is NetworkKind.TREE
    assert groups(network) == [["n0", "n2"], ["n1"], ["n3"]]
    assert groups(network, -2) == [["n0", "n1", "n2"], ["n3"]]
    assert [level.name for level in network.levels[-2:]] == [far, near]
    assert network.devices_per_host == 8


def test_an_object_of_kueue_names_the_labels(tmp_path):
    levels = ["example.com/block", "example.com/rack", "kubernetes.io/hostname"]
    topology = {
        "apiVersion": "kueue.x-k8s.io/v1beta1",
        "kind": "Topology",
        "metadata": {"name": "default"},
        "spec": {"levels": [{"nodeLabel": each} for each in levels]},
    }
    items = [
        node(f"n{at}", {"example.com/rack": f"r{at // 2}", "example.com/block": f"b{at // 4}"})
        for at in range(8)
    ]
    network = read(tmp_path, topology, *items)
    assert "Topology default" in network.origin
    assert [level.name for level in network.levels[-2:]] == levels[:2]
    assert [len(each) for each in groups(network)] == [2, 2, 2, 2]


def test_a_host_of_gce_is_a_level_where_nodes_share_it(tmp_path):
    name = "cloud.google.com/gce-topology-{}"

    def nodes_on(*hosts):
        return [
            node(f"n{at}", {name.format("host"): host, name.format("subblock"): "s"})
            for at, host in enumerate(hosts)
        ]

    assert groups(read(tmp_path, *nodes_on("h0", "h1", "h2"))) == [["n0", "n1", "n2"]]
    assert groups(read(tmp_path, *nodes_on("h0", "h1", "h0"))) == [["n0", "n2"], ["n1"]]


def test_nodes_without_gpus_and_labels(tmp_path):
    rack = "network.topology.nvidia.com/leaf"
    network = read(
        tmp_path,
        node("control-plane", gpus=0),
        node("n0", {rack: "r0"}),
        node("n1", {rack: "r0"}, unschedulable=True),
        node("n2"),
        node("n3", {"kubernetes.io/hostname": "other", rack: "r1"}),
    )
    assert groups(network) == [["n0", "n1"], ["n2"], ["n3"]]  # n2 is near nobody that is known
    report = "\n".join(network.report)
    assert "without GPUs: control-plane" in report
    assert "cordoned, no new job gets them: n1" in report
    assert f"without the label {rack}: n2" in report
    assert "kubernetes.io/hostname is not the name of n3" in report


def test_gpus_are_those_of_labels_then_of_capacity(tmp_path):
    product = {"nvidia.com/gpu.product": "NVIDIA-H100", "nvidia.com/gpu.count": "4"}
    network = read(tmp_path, node("n0", product), node("n1", gpus=8))
    assert "1 nodes with 4 x NVIDIA-H100" in network.description
    assert network.devices_per_host is None
    assert read(tmp_path, node("n0", product)).devices_per_host == 4


def test_domains_are_clusters_and_cliques_together(tmp_path):
    def domains(*cliques):
        items = [node(f"n{at}", {"nvidia.com/gpu.clique": c}) for at, c in enumerate(cliques)]
        level = read(tmp_path, *items, node("last")).domain
        return None if level is None else level.group_of_host

    other = UUID.replace("5", "6")
    assert domains(f"{UUID}.1", f"{UUID}.2", f"{UUID}.1", f"{other}.1") == (0, 1, 0, 2, 3)
    zeros = "00000000-0000-0000-0000-000000000000"
    assert domains(f"{zeros}.1", f"{zeros}.1", "32766", ".7") is None
    accelerator = [
        node(f"n{at}", {"accelerator.topograph.run/domain": f"nvl{at // 2}"}) for at in range(4)
    ]
    level = read(tmp_path, *accelerator).domain
    assert level is not None
    assert level.group_of_host == (0, 0, 1, 1)


def test_hypernodes_are_not_read_and_it_is_said(tmp_path):
    other = {"kind": "HyperNode", "metadata": {"name": "s0"}, "spec": {"tier": 1}}
    network = read(tmp_path, other, node("n0"), node("n1"))
    assert network.host_names == ("n0", "n1")
    assert any("HyperNodes are not read" in line for line in network.report)
    with pytest.raises(InputError, match="no node"):
        read(tmp_path, other)


@pytest.mark.parametrize(
    ("items", "match"),
    [
        ([{"kind": "Pod", "metadata": {"name": "p"}}], "no node"),
        ([node("a"), node("a")], "appears twice"),
        ([{"kind": "Node", "metadata": {}}], "a Node named ''"),
        ([node("a", {"l": "x" * 300})], "of no possible length"),
        ([node("a", {"l": 3})], "unexpected JSON"),  # type: ignore[dict-item]
    ],
)
def test_what_is_no_cluster_is_refused(tmp_path, items, match):
    with pytest.raises(InputError, match=match) as error:
        read(tmp_path, *items)
    assert error.value.hint
