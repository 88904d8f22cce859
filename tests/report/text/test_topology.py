from __future__ import annotations

from dataclasses import replace

import pytest

from tests.report import samples
from toposeat.model.topology import Device, Topology
from toposeat.report import TextStyle, render_topology_text

SMALL_TREE = """\
Topology  small-tree, 4 x Tesla K80, 10 links nominal
          four devices below two packages
Origin    written by hand

device  name       pci           numa  cpus  memory    uuid
D0      Tesla K80  0000:04:00.0  0     0-7   12.0 GiB  GPU-00000000
D1      Tesla K80  0000:05:00.0  0     0-7   12.0 GiB  GPU-00000001
D2      Tesla K80  0000:06:00.0  1     8-15  12.0 GiB  GPU-00000002
D3      Tesla K80  0000:07:00.0  1     8-15  12.0 GiB  GPU-00000003

nic  name    pci  numa
N0   mlx5_0  -    0

links  kind          per direction  both together  latency  source
    9  PCIe              12.0 GB/s              -  1.00 us  nominal
    1  cross-socket      10.0 GB/s      10.0 GB/s  1.00 us  nominal

    D0   D1   D2   D3   N0
D0  X    PIX  SYS  SYS  PHB
D1  PIX  X    SYS  SYS  PHB
D2  SYS  SYS  X    PIX  SYS
D3  SYS  SYS  PIX  X    SYS

PIX  at most one PCIe bridge
PHB  through one host bridge
SYS  between NUMA nodes

Doubts
- the link widths were not read
"""


def test_exact_text() -> None:
    assert render_topology_text(samples.small_tree()) == SMALL_TREE


@pytest.mark.parametrize("width", [60, 80, 100, 200])
def test_64_devices_fit_the_width(width: int) -> None:
    text = render_topology_text(samples.switch_box(64), TextStyle(width=width))
    lines = text.splitlines()
    assert max(len(line) for line in lines) <= width
    # Every column of the relation matrix is there, in some block, under its own name.
    headers = [line.split() for line in lines if line.startswith("   ") and " D" in line]
    assert [name for header in headers for name in header] == [f"D{i}" for i in range(64)]


def test_several_hosts_are_named() -> None:
    text = render_topology_text(samples.cluster(2, 2))
    assert "2 hosts" in text
    assert "node01:D0" in text


def test_one_device_without_anything() -> None:
    bare = Topology(name="bare", origin="test", devices=(Device(id="g", index=0),))
    assert render_topology_text(bare) == (
        "Topology  bare, 1 device, no links known\nOrigin    test\n\ndevice\nD0\n"
    )


def test_refused_peer_access_is_explained() -> None:
    tree = samples.small_tree()
    refused = replace(tree, routes=tuple(replace(r, peer_access=False) for r in tree.routes))
    text = render_topology_text(refused)
    assert "PIX!" in text
    assert "!    no peer access (16 routes)" in text


def test_hostile_names_cannot_steer_the_terminal() -> None:
    evil = "\x1b[2J\x1b]0;owned\x07[red]x[/red]\u202e"
    tree = samples.small_tree()
    devices = (replace(tree.devices[0], name=evil, uuid=evil), *tree.devices[1:])
    hostile = replace(tree, name=evil, description=evil, report=(evil,), devices=devices)
    text = render_topology_text(hostile, TextStyle(width=160))
    assert "\x1b" not in text
    assert "\x07" not in text
    assert "\u202e" not in text
    assert "[red]x[/red]" in text  # shown as it is, not taken as a colour


def test_ascii_terminals_get_ascii() -> None:
    tree = replace(samples.small_tree(), description="Gerät 日本")
    text = render_topology_text(tree, TextStyle(unicode=False))
    assert text.isascii()
    assert "Gerät 日本" in render_topology_text(tree)
