"""From the tables of AMD's and Intel's tools to whole machines: who relays, what is shared."""

from pathlib import Path

import pytest

from tests.topology.readers import amd_samples as samples
from toposeat.model.quantity import Source
from toposeat.model.topology import LinkKind, PathClass
from toposeat.topology.sources import parse_topology_text, read_topologies

PATH = Path("node.txt")


def capacity(topology, a, b):
    """Bytes/s of the narrowest link of a route."""
    links = topology.route_of_pair[a, b].links
    return min(topology.link_of_id[x].forward_bytes_per_s.value for x in links)


@pytest.mark.parametrize("text", [samples.rocm_smi_mi250x(), samples.amd_smi_mi250x()])
def test_gcds_relay_for_pairs_without_a_link(text):
    topology = parse_topology_text(text, PATH)
    assert all(d.forwards for d in topology.devices)
    assert {r.path_class for r in topology.routes} == {PathClass.NVL}
    hops = {(r.source, r.target): len(r.links) for r in topology.routes}
    for i in range(8):
        for j in range(8):
            if i != j:
                assert hops[f"gpu{i}", f"gpu{j}"] == (1 if samples.mi250x_links(i, j) else 2)


def test_amd_smi_and_kfd_agree_on_capacities():
    smi = parse_topology_text(samples.amd_smi_mi250x(), PATH)
    kfd = parse_topology_text(samples.kfd_mi250x().text(), PATH)
    for a, b in samples.MI250X:
        pair = f"gpu{a}", f"gpu{b}"
        assert capacity(smi, *pair) == capacity(kfd, *pair)


def test_partitions_of_two_gpus_share_one_link():
    bus = [f"0000:05:00.{i}" for i in range(4)] + [f"0000:26:00.{i}" for i in range(4)]
    text = samples.amd_smi_json(
        bus,
        lambda i, j: 0 if i == j else 13 if i // 4 == j // 4 else 41,
        lambda i, j: "XGMI",
        bandwidth="0-0",
    )
    topology = parse_topology_text(text, PATH)
    crossing = [
        set(r.links) for r in topology.routes if (int(r.source[3:]) < 4) != (int(r.target[3:]) < 4)
    ]
    assert len(crossing) == 32
    assert len(set.intersection(*crossing)) == 1


def test_stacks_reach_all_stacks_over_xe_link_and_mdf():
    topology = parse_topology_text(samples.xpu_smi(2, 2, samples.max1550, ["0-51", "52-103"]), PATH)
    route = topology.route_of_pair["gpu0", "gpu3"]
    assert [topology.link_of_id[x].kind for x in route.links] == [LinkKind.XELINK] * 2
    pcie = [x for x in topology.links if x.kind is LinkKind.PCIE and x.ends[0].startswith("switch")]
    assert len(pcie) == 2  # one PCIe link a card, not one a stack


def test_measured_over_driver_over_tables(tmp_path):
    """Measured numbers become limits of pairs on KFD's links, each direction by itself."""
    (tmp_path / "kfd.txt").write_text(samples.kfd_mi250x().text())
    (tmp_path / "smi.txt").write_text(samples.amd_smi_mi250x())
    (tmp_path / "run.txt").write_text(
        "".join(f"Device: {i},  CPU\n" for i in range(4))
        + "".join(
            f"Device: {i},  AMD Instinct MI250X,  GPU-XX,  {bus[5:-3]}.0\n"
            for i, bus in enumerate(samples.MI250X_BUS, start=4)
        ).replace(":00.0", ":0.0")
        + "\nUnidirectional copy peak bandwidth GB/s\n\n"
        + "D/D       "
        + "".join(f"{j:<12}" for j in range(12))
        + "\n\n"
        + "\n\n".join(
            f"{i:<10}" + "".join(f"{30.0 + (i - 4) + (j - 4) / 8:<12.3f}" for j in range(12))
            for i in range(12)
        )
    )
    topology = read_topologies([tmp_path / name for name in ("kfd.txt", "smi.txt", "run.txt")])
    assert [d.pci_bus_id for d in topology.devices] == list(samples.MI250X_BUS)
    for i, j in ((0, 1), (1, 0), (0, 7), (7, 0)):
        cap = topology.route_of_pair[f"gpu{i}", f"gpu{j}"].cap_bytes_per_s
        assert cap is not None
        assert cap.source is Source.MEASURED
        assert cap.value == pytest.approx((30 + i + j / 8) * 1e9, rel=1e-3)
    assert topology.route_of_pair["gpu0", "gpu1"].peer_access is True  # amd-smi's access table
    assert not [line for line in topology.report if "disagree" in line]


def test_two_tables_of_words_are_one_output():
    text = samples.rocm_table(
        "Link accessibility between two GPUs", 4, lambda i, j: "True"
    ) + samples.rocm_table("Link Type between two GPUs", 4, lambda i, j: "XGMI" if i - j else 0)
    topology = parse_topology_text(text, PATH)
    assert {r.peer_access for r in topology.routes} == {True}
    assert sum(x.kind is LinkKind.XGMI for x in topology.links) == 6
