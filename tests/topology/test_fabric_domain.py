"""NVLink domains over hosts: which hosts what GPUs say of their fabric joins."""

from dataclasses import replace

from toposeat.topology import network_of_hosts, read_topology, with_told_domains

UUID = "5f0c3b7e-1f6a-4f2f-9c55-7be000d4a001"


def test_hosts_of_one_cluster_and_clique_are_one_domain():
    tray = read_topology("dgx-a100")
    said = [f"{UUID}.1", f"{UUID}.2", "", f"{UUID}.1", "", f"{UUID.replace('5', '6')}.1"]
    nodes = [replace(tray, metadata={"nvlink_domain": each} if each else {}) for each in said]
    network = network_of_hosts(None, [f"n{at}" for at in range(6)], in_slurm=False)
    level = with_told_domains(network, nodes).domain
    assert level is not None
    assert level.group_of_host == (0, 1, 2, 0, 3, 4)
    assert with_told_domains(network, nodes[1:3]).domain is None  # nobody shares one
    assert with_told_domains(network, []).domain is None
    stated = replace(network, domain=replace(level, group_of_host=(0, 0, 0, 1, 1, 1)))
    assert with_told_domains(stated, nodes) is stated
