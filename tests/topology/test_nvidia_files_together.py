"""Files of NVIDIA's tools of one machine, given together or in one file, make one topology."""

from pathlib import Path

import pytest

from tests.topology.readers.render import RENDERERS
from toposeat.topology.sources import parse_topology_text, read_topologies

BEST = [["X" if i == j else "NV4" for j in range(4)] for i in range(4)]
PCIE = [["X", "SYS", "PHB", "SYS"], ["SYS", "X", "SYS", "PHB"],
        ["PHB", "SYS", "X", "SYS"], ["SYS", "PHB", "SYS", "X"]]  # fmt: skip
CPUS = ["0-15"] * 4


def matrix(cells, *, pcie_only=False):
    text = RENDERERS["tabs_new"](cells, 4, CPUS)
    return text.replace("  NV#  = ", "  ???  = ") if pcie_only else text


@pytest.fixture(scope="module")
def machines(shared_dir):
    return shared_dir / "machines"


def test_inventory_gives_names_and_degraded_links(machines):
    topology = read_topologies(
        [
            machines / "nvidia-smi-topo/1gpu-new.txt",
            machines / "nvidia-smi-q-xml/qx-l40s.xml",
        ]
    )
    (device,) = topology.devices
    assert (device.name, device.pci_bus_id) == ("NVIDIA L40S", "0000:30:00.0")
    assert device.pcie is not None
    assert (device.pcie.width, device.pcie.max_width) == (8, 16)


def test_a_part_of_the_gpus_is_joined_by_their_numbers(machines):
    """A cut `nvlink -s`: seven of eight GPUs, some lanes inactive."""
    topology = read_topologies(
        [
            machines / "nvidia-smi-topo/8gpu-dgx1v-4nic.txt",
            machines / "nvidia-smi-nvlink/8gpu-v100-inactive.txt",
        ]
    )
    assert len(topology.devices) == 8
    assert topology.devices[3].uuid == "GPU-50b1bd2e-77ee-2731-fd2f-17c44103b7b9"
    assert topology.devices[7].uuid is None
    assert any("7 of 8 GPUs are joined by index" in line for line in topology.report)
    assert any("2 of 6 NVLinks of GPU 3 are inactive" in line for line in topology.report)


def test_pcie_only_matrix_shows_what_nvlink_hides():
    path = Path("node.txt")
    alone = parse_topology_text(matrix(BEST), path)
    both = parse_topology_text(matrix(BEST) + "\n" + matrix(PCIE, pcie_only=True), path)
    assert any("PCIe is hidden" in line for line in alone.report)
    assert not any("PCIe is hidden" in line for line in both.report)
    assert both.route_of_pair["gpu0", "gpu2"].path_class.value == "NVL"
    assert bridges(alone) == 4
    assert bridges(both) == 2  # gpu0 and gpu2 share one, gpu1 and gpu3 the other


def bridges(topology):
    return sum(c.kind.value == "host_bridge" for c in topology.components)


def test_pcie_only_matrix_alone_says_that_nvlink_is_not_known():
    topology = parse_topology_text(matrix(PCIE, pcie_only=True), Path("node.txt"))
    assert topology.route_of_pair["gpu0", "gpu2"].path_class.value == "PHB"
    assert any("whether there is NVLink is not stated" in line for line in topology.report)


def test_the_display_of_a_station_is_no_seat():
    """A DGX Station A100 has four A100 and a small GPU, in the middle, that drives the display."""
    names = ["NVIDIA A100-SXM4-40GB"] * 3 + ["NVIDIA DGX Display", "NVIDIA A100-SXM4-40GB"]
    listed = "".join(
        f"GPU {i}: {name} (UUID: GPU-0000000{i}-0000-0000-0000-000000000000)\n"
        for i, name in enumerate(names)
    )
    rows = [
        " ".join("X" if i == j else "SYS" if 3 in (i, j) else "NV4" for j in range(5))
        for i in range(5)
    ]
    matrix = "".join(f"GPU{i} {row}\n" for i, row in enumerate(rows))
    text = f"{listed}\n  GPU0 GPU1 GPU2 GPU3 GPU4\n{matrix}"
    topology = parse_topology_text(text, Path("station.txt"))
    assert [(d.id, d.index) for d in topology.devices] == [
        ("gpu0", 0), ("gpu1", 1), ("gpu2", 2), ("gpu4", 4),
    ]  # fmt: skip
    topology.check()
    assert len(topology.routes) == 12
    assert "gpu3 (NVIDIA DGX Display) drives a display: no rank is placed on it" in topology.report
