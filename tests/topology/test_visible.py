"""Devices that visibility variables leave to a process."""

from __future__ import annotations

from dataclasses import replace

import pytest

from toposeat import topology
from toposeat.model.topology import Topology


@pytest.fixture
def node() -> Topology:
    machine = topology.read_topology("polaris-4")
    devices = tuple(replace(d, uuid=f"GPU-{d.index}aaa-bb") for d in machine.devices)
    return replace(machine, devices=devices)


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("0,2", [0, 2]),
        ("3,1", [1, 3]),
        ("1,9,2", [1]),
        ("GPU-2aaa-bb,GPU-0", [0, 2]),
        ("GPU-", []),
        ("", []),
        ("NoDevFiles", []),
        ("MIG-4b", [0, 1, 2, 3]),
    ],
)
def test_a_list(node: Topology, text: str, left: list[int]) -> None:
    seen = topology.visible_part(node, {"CUDA_VISIBLE_DEVICES": text})
    seen.check()
    assert [device.index for device in seen.devices] == left
    assert len(seen.hidden) == 4 - len(left)


def test_other_vendors_and_no_list(node: Topology) -> None:
    assert topology.visible_part(node, {"ROCR_VISIBLE_DEVICES": "0"}) is node
    assert topology.visible_part(node, {}) is node
