"""Damaged network files: read or refused in one line, never a crash, and the nouns hold."""

import pytest

from toposeat.topology import read_network

SAMPLES = {
    "topology.conf": b"SwitchName=s0 Switches=s[1-2] # top\nSwitchName=s1 Nodes=a[01-04],b2 \\\n"
    b" LinkSpeed=3\nSwitchName=s2 Nodes=c[5-6]\n",
    "blocks.conf": b"BlockName=b1 Nodes=n[1-4]\nBlockName=b2 Nodes=n[5-8]\nBlockSizes=4,8\n",
    "topology.yaml": b"- topology: a\n  cluster_default: true\n  block:\n    block_sizes: [2, 4]\n"
    b"    blocks:\n      - {block: p, nodes: 'n[1-2]'}\n      - {block: q, nodes: 'n[3-4]'}\n"
    b"- topology: b\n  tree:\n    switches:\n      - switch: s1\n        nodes: n[1-2]\n",
    "fabric": b'Switch 4 "S-1" # "leaf" base port 0\n[1] "H-2"[1](2) # "n1 HCA-1" lid 2 4xHDR\n'
    b'[2] "S-3"[1] # "top" lid 3 4xHDR\n\nCa 1 "H-2" # "n1 HCA-1"\n[1](2) "S-1"[1] # lid 2 lmc 0'
    b' "leaf" lid 1 4xHDR\n',
    "ports": b"CA 1 1 0x2 4x EDR - SW 2 10 0x3 ( 'n1 HCA-1' - 'leaf' )\n"
    b"SW 2 3 0x3 4x EDR - SW 4 1 0x5 ( 'leaf' - 'top' )\nSW 2 4 0x3 4x ??? 'leaf'\n",
    "nodes.json": b'{"apiVersion": "v1", "items": [\n{"kind": "Topology", "metadata": {"name":'
    b' "t"}, "spec": {"levels": [{"nodeLabel": "l"}]}},\n{"kind": "Node", "metadata": {"name": "a",'
    b' "labels": {"l": "r1", "nvidia.com/gpu.clique": "9f-0.1"}}, "status": {"capacity":'
    b' {"nvidia.com/gpu": "8"}}},\n{"kind": "Node", "metadata": {"name": "b"}}], "kind": "List"}',
}


@pytest.mark.parametrize("name", SAMPLES)
def test_the_samples_are_read(name, tmp_path):
    (tmp_path / name).write_bytes(SAMPLES[name])
    assert read_network(tmp_path / name).hosts
