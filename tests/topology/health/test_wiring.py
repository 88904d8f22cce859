"""The wiring class of every known machine, judged by hand from its published description."""

from __future__ import annotations

from pathlib import Path

import pytest

from toposeat.errors import ToposeatError
from toposeat.model.health import Severity, Shape
from toposeat.topology import findings_of, read_topology, wiring_of

CATALOGUE = {
    "k80-16": Shape.SWITCHED,
    "k80-16-faraji": Shape.SWITCHED,
    "dgx-1p": Shape.MESH,
    "dgx-1v": Shape.MESH,
    "dgx-2": Shape.UNIFORM,
    "dgx-a100": Shape.UNIFORM,
    "hgx-h100": Shape.UNIFORM,
    "a100-pcie-8-bridged": Shape.PAIRED,
    "rtx-4-crossed-bridges": Shape.CROSSED,
    "power9-4": Shape.PAIRED,
    "mi60-8": Shape.MESH,
    "mi100-8": Shape.ISLANDS,
    "mi250x-8": Shape.MESH,
    "mi300x-8": Shape.UNIFORM,
    "mi300a-4": Shape.UNIFORM,
    "perlmutter-4": Shape.UNIFORM,
    "polaris-4": Shape.UNIFORM,
    "alps-gh200-4": Shape.UNIFORM,
    "summit-6": Shape.ISLANDS,  # three GPUs per socket
    "minsky-4": Shape.PAIRED,
    "aurora-12": Shape.MESH,
    "max1100-2": Shape.UNIFORM,
    "gb200-nvl72": Shape.UNIFORM,
    "gb300-nvl72": Shape.UNIFORM,
    "hgx-b300": Shape.UNIFORM,
    "h100-pcie-8-bridged": Shape.PAIRED,
    "l40s-8": Shape.SWITCHED,
    "k40-4": Shape.SWITCHED,
    "k40-8": Shape.SWITCHED,
    "c2050-8": Shape.SWITCHED,
}

# File, shape, and the codes of its doubts. Legends and hand counting of the tables' own cells.
RECORDED = {
    "nvidia-smi-topo/1gpu-new.txt": (Shape.SINGLE, set()),
    "nvidia-smi-topo/2gpu-p100-soc.txt": (Shape.UNIFORM, set()),
    "nvidia-smi-topo/4gpu-3090-nvlink-pairs-cross.txt": (Shape.CROSSED, set()),
    "nvidia-smi-topo/4gpu-a4000-node.txt": (Shape.UNIFORM, set()),
    "nvidia-smi-topo/4gpu-phb-soc.txt": (Shape.SPLIT, set()),
    "nvidia-smi-topo/4gpu-power9-nv3.txt": (Shape.PAIRED, set()),
    "nvidia-smi-topo/4gpu-rtx6000ada-esc8000a.txt": (Shape.SPLIT, set()),
    "nvidia-smi-topo/4gpu-v100-p3-like.txt": (Shape.MESH, {"nic-far"}),
    "nvidia-smi-topo/6gpu-old-soc.txt": (Shape.SWITCHED, set()),
    "nvidia-smi-topo/8gpu-4090-sys-nic-phb.txt": (Shape.UNKNOWN, {"information-free", "nic-far"}),
    "nvidia-smi-topo/8gpu-all-sys.txt": (Shape.UNKNOWN, {"information-free"}),
    "nvidia-smi-topo/8gpu-dgx1v-4nic.txt": (Shape.MESH, set()),
    "nvidia-smi-topo/8gpu-h100-nv18-nonic.txt": (Shape.UNIFORM, set()),
    "nvidia-smi-topo/8gpu-v100-dgx1v-1nic.txt": (Shape.MESH, {"nic-far"}),
    # Rates alone, without any word for the pairs.
    "p2pBandwidthLatencyTest/4gpu-power9-ac922.txt": (Shape.PAIRED, set()),
    "p2pBandwidthLatencyTest/8gpu-h100-p2poff.txt": (Shape.UNIFORM, set()),
    "nvbandwidth/8gpu-a100-d2d-write-ce.txt": (Shape.UNIFORM, set()),
    "nccl-xml/rccl-topo_3p_pcie.xml": (Shape.SPLIT, {"nic-far"}),
    "nccl-xml/rccl-topo_8p_pcie.xml": (Shape.SWITCHED, set()),
    "nccl-xml/rccl-topo_4p4h.xml": (Shape.ISLANDS, set()),
    "nccl-xml/rccl-topo_8p6l.xml": (Shape.MESH, {"nic-far"}),
    "nccl-xml/rccl-topo_4p_940.xml": (Shape.UNIFORM, set()),
}


@pytest.mark.parametrize("name", CATALOGUE)
def test_catalogue(name: str) -> None:
    machine = read_topology(name)
    assert wiring_of(machine).shape is CATALOGUE[name]
    assert not [f for f in findings_of(machine) if f.severity is Severity.FAULT]


@pytest.mark.parametrize("name", RECORDED)
def test_recorded(shared_dir: Path, name: str) -> None:
    machine = read_topology(shared_dir / "machines" / name)
    shape, codes = RECORDED[name]
    findings = findings_of(machine)
    assert wiring_of(machine).shape is shape
    assert {f.code for f in findings if f.severity is Severity.DOUBT} == codes
    assert not [f for f in findings if f.severity is Severity.FAULT]


def test_the_crossing_bridges_are_named(shared_dir: Path) -> None:
    path = shared_dir / "machines" / "nvidia-smi-topo" / "4gpu-3090-nvlink-pairs-cross.txt"
    assert wiring_of(read_topology(path)).reason == (
        "NVLink joins D0-D2, D1-D3, but PCIe puts other pairs together"
    )


def test_rates_name_the_pairs(shared_dir: Path) -> None:
    """As published: three NVLinks join the pairs of a socket, the others cross the X-bus."""
    path = shared_dir / "machines" / "p2pBandwidthLatencyTest" / "4gpu-power9-ac922.txt"
    assert wiring_of(read_topology(path)).reason == "rates (28.8 to 69.2 GB/s) join D0-D1, D2-D3"


def test_every_readable_machine_gets_a_verdict(shared_dir: Path) -> None:
    judged = 0
    for folder in ("hwloc-xml", "nccl-xml", "rocm-smi-topo", "xpu-smi-topo"):
        for path in sorted((shared_dir / "machines" / folder).iterdir()):
            try:
                machine = read_topology(path)
            except ToposeatError:
                continue  # refused: the readers' tests say why
            assert wiring_of(machine).reason, path.name
            assert all(f.code and f.detail for f in findings_of(machine)), path.name
            judged += 1
    assert judged >= 40


@pytest.mark.parametrize(
    ("source", "shape"),
    [
        ("ring:8", Shape.MESH),
        ("full:4", Shape.UNIFORM),
        ("nvswitch:8", Shape.UNIFORM),
        ("pcie:2:1:4", Shape.SWITCHED),
        ("tree:4", Shape.UNIFORM),
        ("pcie:1:1:1", Shape.SINGLE),
    ],
)
def test_synthetic(source: str, shape: Shape) -> None:
    assert wiring_of(read_topology(source)).shape is shape
