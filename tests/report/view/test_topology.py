from dataclasses import replace
from pathlib import Path

import pytest

from tests.report import samples
from toposeat.model.quantity import Quantity, Source
from toposeat.model.topology import Device, LinkKind, PcieState, Topology
from toposeat.report import TextStyle, render_catalogue_text, render_topology_text

SMALL_TREE = """\
Topology  small-tree, 4 x Tesla K80, 10 links nominal
          four devices below two packages
Origin    written by hand
Numbers   31 nominal; ~ marks nominal ones, not measured here

package 0
└─ host bridge 0  [~12.0 GB/s PCIe]
   ├─ switch 0  [~12.0 GB/s PCIe]
   │  ├─ D0  K80  0000:04:00.0  [~12.0 GB/s PCIe]
   │  └─ D1  K80  0000:05:00.0  [~12.0 GB/s PCIe]
   └─ N0  mlx5_0  [~12.0 GB/s PCIe]
package 1
└─ host bridge 1  [~12.0 GB/s PCIe]
   └─ switch 1  [~12.0 GB/s PCIe]
      ├─ D2  K80  0000:06:00.0  [~12.0 GB/s PCIe]
      └─ D3  K80  0000:07:00.0  [~12.0 GB/s PCIe]

    D0   D1   D2   D3   N0
D0  X    PIX  SYS  SYS  PHB
D1  PIX  X    SYS  SYS  PHB
D2  SYS  SYS  X    PIX  SYS
D3  SYS  SYS  PIX  X    SYS

PIX  ~12 GB/s  at most one PCIe bridge
PHB  ~12 GB/s  through one host bridge
SYS  ~10 GB/s  between NUMA nodes

shared link                         by                    each way  both together
uplink of host bridge 0             D0, D1              ~12.0 GB/s              -
uplink of switch 0                  D0, D1              ~12.0 GB/s              -
uplink of host bridge 1             D2, D3              ~12.0 GB/s              -
uplink of switch 1                  D2, D3              ~12.0 GB/s              -
cross-socket package 0 - package 1  D0, D1 with D2, D3  ~10.0 GB/s     ~10.0 GB/s

links  kind          per direction  both together  latency  source
    9  PCIe              12.0 GB/s              -  1.00 us  nominal
    1  cross-socket      10.0 GB/s      10.0 GB/s  1.00 us  nominal

device  name       pci           numa  cpus  memory    uuid
D0      Tesla K80  0000:04:00.0  0     0-7   12.0 GiB  GPU-00000000
D1      Tesla K80  0000:05:00.0  0     0-7   12.0 GiB  GPU-00000001
D2      Tesla K80  0000:06:00.0  1     8-15  12.0 GiB  GPU-00000002
D3      Tesla K80  0000:07:00.0  1     8-15  12.0 GiB  GPU-00000003

Doubts
- the link widths were not read
"""


def test_exact_text():
    assert render_topology_text(samples.small_tree()) == SMALL_TREE


@pytest.mark.parametrize("width", [60, 80, 100, 200])
def test_64_devices_fit_the_width(width):
    """Alike devices are drawn once, and one row of the matrix; each has a line of details."""
    text = render_topology_text(samples.switch_box(64), TextStyle(width=width))
    lines = text.splitlines()
    assert max(len(line) for line in lines) <= width
    assert "63 more like it: D1..D63" in lines
    assert "D0..D63  NV6" in lines
    assert sum(line.startswith("D63 ") for line in lines) == (2 if width == 60 else 1)


def test_a_crooked_matrix_of_many_devices_has_every_column():
    box = samples.switch_box(64)
    measured = tuple(
        replace(route, cap_bytes_per_s=Quantity(1e9 * (10 + number % 61), Source.MEASURED))
        for number, route in enumerate(box.routes)
    )
    text = render_topology_text(replace(box, routes=measured), TextStyle(width=80))
    headers = [
        line.split() for line in text.splitlines() if line.startswith("   ") and " D" in line
    ]
    assert [name for header in headers for name in header] == [f"D{i}" for i in range(64)]


def test_directions_that_differ_have_their_own_numbers():
    tree = samples.small_tree()
    caps = {("gpu0", "gpu1"): 9.9e9, ("gpu1", "gpu0"): 6.63e9}
    measured = tuple(
        replace(r, cap_bytes_per_s=Quantity(caps[r.source, r.target], Source.MEASURED))
        if (r.source, r.target) in caps
        else r
        for r in tree.routes
    )
    text = render_topology_text(replace(tree, routes=measured))
    assert "D0  X         PIX 9.9  SYS" in text
    assert "D1  PIX 6.63  X        SYS" in text
    assert "PIX ~12" in text  # the other pair's is nominal
    assert "numbers are GB/s of one flow from row to column" in text
    assert "Numbers   31 nominal, 2 measured" in text


def test_narrow_links_hidden_gpus_and_nics():
    tree = samples.small_tree()
    narrow = replace(tree.devices[0], pcie=PcieState(width=8, max_width=16))
    nic = replace(tree.nics[0], bytes_per_s=Quantity(25e9), active=False)
    text = render_topology_text(
        replace(tree, devices=(narrow, *tree.devices[1:]), nics=(nic,), hidden=("0000:99:00.0",))
    )
    assert "D0  K80  0000:04:00.0  [~12.0 GB/s PCIe]  x8 of x16" in text
    assert "N0  mlx5_0  ~25.0 GB/s  down" in text
    assert "Hidden    1 GPU of this machine could not be used" in text


def test_relayed_traffic_shows_who_shares_a_device_link():
    """A chain of three: the middle device forwards, so both its links carry traffic of others."""
    devices = tuple(Device(id=f"g{i}", index=i, forwards=True) for i in range(3))
    links = [samples.link(LinkKind.XGMI, f"g{i}", f"g{i + 1}", 36) for i in range(2)]
    routes = samples.shortest_routes(devices, links)
    chain = Topology(
        name="chain", origin="test", devices=devices, links=tuple(links), routes=routes
    )
    text = render_topology_text(chain)
    assert "xGMI D0 - D1  D0 with D1, D2" in text
    assert "xGMI D1 - D2  D0, D1 with D2" in text
    assert "xGMI          ~36.0 GB/s  D0-D1, D1-D2" in text


def test_lists_the_catalogue():
    machines = [
        (samples.small_tree(), Path("/home/me/a-folder-with-a-long-name/small-tree.toml")),
        (replace(samples.switch_box(16), sources=("Who: what, x",)), None),
    ]
    lines = render_catalogue_text(machines, TextStyle(width=80)).splitlines()
    assert lines == [
        "name        devices         links   from      source",
        "small-tree  4 x K80         PCIe    yours     /home/me/a-folder-with-a-long-name",
        "                                              /small-tree.toml",
        "switch-box  16 x V100-SXM3  NVLink  built in  Who",
    ]


def test_several_hosts_are_named():
    text = render_topology_text(samples.cluster(2, 2))
    assert "2 hosts" in text
    assert "node01:D0" in text


def test_one_device_without_anything():
    bare = Topology(name="bare", origin="test", devices=(Device(id="g", index=0),))
    assert render_topology_text(bare) == (
        "Topology  bare, 1 device, no links known\nOrigin    test\n\ndevice\nD0\n"
    )


def test_refused_peer_access_is_explained():
    tree = samples.small_tree()
    refused = replace(tree, routes=tuple(replace(r, peer_access=False) for r in tree.routes))
    text = render_topology_text(refused)
    assert "PIX!" in text
    assert "!" + 14 * " " + "no peer access (16 routes)" in text


def test_hostile_names_cannot_steer_the_terminal():
    evil = "\x1b[2J\x1b]0;owned\x07[red]x[/red]\u202e"
    tree = samples.small_tree()
    devices = (replace(tree.devices[0], name=evil, uuid=evil), *tree.devices[1:])
    hostile = replace(tree, name=evil, description=evil, report=(evil,), devices=devices)
    text = render_topology_text(hostile, TextStyle(width=160))
    assert "\x1b" not in text
    assert "\x07" not in text
    assert "\u202e" not in text
    assert "[red]x[/red]" in text  # shown as it is, not taken as a colour


def test_ascii_terminals_get_ascii():
    tree = replace(samples.small_tree(), description="Gerät 日本")
    text = render_topology_text(tree, TextStyle(unicode=False))
    assert text.isascii()
    assert "   `- N0  mlx5_0" in text
    assert "Gerät 日本" in render_topology_text(tree)
