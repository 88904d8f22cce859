"""The wiring class of machines and how it is said; those of the catalogue: test_catalogue.py."""

import pytest

from toposeat.model.health import Shape
from toposeat.topology import read_topology, wiring_of


def test_the_crossing_bridges_are_named(shared_dir):
    path = shared_dir / "machines" / "nvidia-smi-topo" / "4gpu-3090-nvlink-pairs-cross.txt"
    assert wiring_of(read_topology(path)).reason == (
        "NVLink joins D0-D2, D1-D3, but PCIe puts other pairs together"
    )


def test_rates_name_the_pairs(shared_dir):
    """As published: three NVLinks join the pairs of a socket, the others cross the X-bus."""
    path = shared_dir / "machines" / "p2pBandwidthLatencyTest" / "4gpu-power9-ac922.txt"
    assert wiring_of(read_topology(path)).reason == "rates (28.8 to 69.2 GB/s) join D0-D1, D2-D3"


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
def test_synthetic(source, shape):
    assert wiring_of(read_topology(source)).shape is shape
