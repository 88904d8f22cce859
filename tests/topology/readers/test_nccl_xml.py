"""NCCL's and RCCL's topology files: recorded ones, partial ones, hostile ones."""

import re
from collections import Counter
from pathlib import Path

import pytest

from toposeat.errors import InputError
from toposeat.mapping import shape_of_network
from toposeat.model.quantity import nominal
from toposeat.model.topology import ComponentKind, LinkKind, PathClass, Vendor
from toposeat.topology import parse_topology_text, read_network, read_topology

# Two A100 below one switch, NVLinked to each other and to an NVSwitch that the file does not hold.
SAMPLE = """\
<?xml version="1.0"?>
<system version="1">
  <cpu numaid="0" affinity="00000000,0000ffff" arch="x86_64" vendor="AuthenticAMD">
    <pci busid="0000:01:00.0" class="0x060400" link_speed="16.0 GT/s PCIe" link_width="16">
      <pci busid="0000:07:00.0" class="0x030200" link_speed="16.0 GT/s PCIe" link_width="16">
        <gpu dev="1" sm="80" rank="1" gdr="1">
          <nvlink target="0000:0f:00.0" count="4" tclass="0x030200"/>
          <nvlink target="0000:c4:00.0" count="2" tclass="0x068000"/>
        </gpu>
      </pci>
      <pci busid="0000:0f:00.0" class="0x030200" link_speed="8.0 GT/s PCIe" link_width="8">
        <gpu dev="0" sm="80" rank="0" gdr="1">
          <nvlink target="0000:07:00.0" count="4" tclass="0x030200"/>
          <nvlink target="0000:c4:00.0" count="2" tclass="0x068000"/>
        </gpu>
      </pci>
      <pci busid="0000:0a:00.0" class="0x020700" link_speed="16.0 GT/s PCIe" link_width="16">
        <nic>
          <net name="mlx5_0" dev="0" speed="200000" port="1" gdr="1"/>
          <net name="mlx5_1" dev="1" speed="200000" port="2" gdr="1"/>
        </nic>
      </pci>
    </pci>
  </cpu>
</system>
"""


def read(text):
    return parse_topology_text(text, Path("node.xml"))


def test_devices_take_nccl_numbers():
    topology = read(SAMPLE)
    assert [d.pci_bus_id for d in topology.devices] == ["0000:0f:00.0", "0000:07:00.0"]
    assert [d.index for d in topology.devices] == [0, 1]
    assert {d.cpus for d in topology.devices} == {"0-15"}
    assert {d.vendor for d in topology.devices} == {Vendor.NVIDIA}


def test_links_have_the_stated_speed_and_count():
    topology = read(SAMPLE)
    pcie = {link.ends[0]: link for link in topology.links if link.kind is LinkKind.PCIE}
    assert pcie["gpu0"].forward_bytes_per_s.value == 6e9  # gen 3 x8
    assert pcie["gpu1"].forward_bytes_per_s.value == 25e9
    idle = read(SAMPLE.replace("8.0 GT/s", "2.5 GT/s"))  # an A100 was built for 16 GT/s
    pcie = {link.ends[0]: link for link in idle.links if link.kind is LinkKind.PCIE}
    assert pcie["gpu0"].forward_bytes_per_s == nominal(12.5e9)
    assert any("speed of gpu0 is not stated, or that of an idle link" in x for x in idle.report)
    bonds = sorted(x.count for x in topology.links if x.kind is LinkKind.NVLINK)
    assert bonds == [2, 2, 4]  # a port of each at the switch, and the direct bond
    assert topology.route_of_pair["gpu0", "gpu1"].path_class is PathClass.NVL


@pytest.mark.parametrize("tclass", [' tclass="0x068000"', ""])
def test_a_switch_that_a_virtual_machine_does_not_see(tclass):
    hidden = SAMPLE.replace('target="0000:c4:00.0"', 'target="fffffff:ffff:ff"')
    topology = read(hidden.replace(' tclass="0x068000"', tclass))
    ports = [x for x in topology.links if any(end.startswith("nvswitch") for end in x.ends)]
    assert [(x.ends, x.count) for x in ports] == [
        (("gpu0", "nvswitch0"), 2),
        (("gpu1", "nvswitch0"), 2),
    ]


def test_hosts_that_nvlink_joins_are_one_node_each(tmp_path):
    """NCCL writes the trays of a rack into one file, with the bus ids of each."""
    lines = SAMPLE.replace('target="0000:c4:00.0"', 'target="fffffff:ffff:ff"').splitlines()
    tray = [line for line in lines[2:-1] if 'tclass="0x030200"' not in line]
    fused = [
        line.replace("<cpu ", f'<cpu host_hash="0x{host}" ')
        for host in ("b7", "a1")
        for line in tray
    ]
    topology = read("\n".join([*lines[:2], *fused, lines[-1]]))
    assert [device.id for device in topology.devices] == ["gpu0", "gpu1"]
    assert topology.hosts == read(SAMPLE).hosts
    assert any("2 hosts of an NVLink domain" in line for line in topology.report)
    conf = tmp_path / "topology.conf"
    conf.write_text("SwitchName=leaf Nodes=n[0-3]\n")
    shape = shape_of_network(read_network(f"{conf},domain=2"), topology)
    assert shape.domain_of_host == (0, 0, 1, 1)
    assert not any("hosts of an NVLink domain" in line for line in read(SAMPLE).report)


def test_two_ports_of_one_adapter_share_its_pcie_link():
    topology = read(SAMPLE)
    assert [nic.name for nic in topology.nics] == ["mlx5_0", "mlx5_1"]
    assert len({nic.pci_bus_id for nic in topology.nics}) == 1


@pytest.mark.parametrize(
    ("megabits", "rate"),
    [("200000", 25e9), ("100000", 12.5e9), ("200000000", None), ("0", None), ("fast", None)],
)
def test_ports_have_the_stated_rate(megabits, rate):
    """Megabits per second; the fourth is in one of RCCL's own files."""
    topology = read(SAMPLE.replace('speed="200000"', f'speed="{megabits}"'))
    assert {n.bytes_per_s.value if n.bytes_per_s else None for n in topology.nics} == {rate}


def test_gpus_without_description_are_known_by_class():
    bare = re.sub(r"<gpu.*?</gpu>", "", SAMPLE, flags=re.DOTALL)
    topology = read(bare)
    assert len(topology.devices) == 2
    assert not any(link.kind is LinkKind.NVLINK for link in topology.links)
    assert any("PCI class alone" in line for line in topology.report)


def test_hints_for_nccl_without_any_gpu_are_refused():
    text = '<system version="1"><cpu numaid="0"><pci busid="0000:00:16.0"/></cpu></system>'
    with pytest.raises(InputError, match="no GPU in this file"):
        read(text)


# ---- recorded files


def recorded(shared_dir, name):
    return read_topology(shared_dir / "machines" / "nccl-xml" / name)


def test_every_recorded_file_is_read_or_refused_for_a_reason(shared_dir):
    index = (shared_dir / "machines" / "INDEX.tsv").read_text().splitlines()
    stated = {r[0]: int(r[3]) for r in (line.split("\t") for line in index) if r[1] == "nccl-xml"}
    assert stated
    refused = {}
    for name, gpus in stated.items():
        try:
            assert len(read_topology(shared_dir / "machines" / name).devices) == gpus, name
        except InputError as error:
            refused[Path(name).name] = str(error)
    assert list(refused) == ["aws-g5.48xl-topo.xml"]


def test_mi250x_node_has_the_stated_bonds(shared_dir):
    topology = recorded(shared_dir, "rccl-topo_8p_90a.xml")
    lanes = Counter(x.count for x in topology.links if x.kind is LinkKind.XGMI)
    assert lanes == {1: 12}  # RCCL counts one bond even inside of a package
    assert all(d.forwards for d in topology.devices)


def test_hives_stay_apart(shared_dir):
    topology = recorded(shared_dir, "rccl-topo_8p_4nics.xml")
    classes = Counter(r.path_class for r in topology.routes if r.target.startswith("gpu"))
    assert classes[PathClass.NVL] == 2 * 4 * 3  # two complete hives of four
    assert len(topology.nics) == 4


def test_switches_under_one_bridge_share_its_uplink(shared_dir):
    topology = recorded(shared_dir, "azure-ndv4-topo.xml")
    first, second, other = (topology.devices[i].id for i in (0, 1, 2))
    assert topology.route_of_pair[first, second].path_class is PathClass.PIX
    assert topology.route_of_pair[first, other].path_class is PathClass.SYS


GRACE = """\
<system version="2">
  <cpu host_hash="0x1" numaid="0" affinity="ffffffff" arch="arm64">
    <pci busid="0008:06:00.0" class="0x030200" link_speed="32.0 GT/s PCIe" link_width="16">
      <gpu dev="0" sm="100" rank="0" gdr="1">
        <nvlink target="fffffff:ff:ff.0" count="18" tclass="0x068000"/>
        <c2c bw="44712" count="5"/>
      </gpu>
    </pci>
    <pci busid="0009:06:00.0" class="0x030200" link_speed="32.0 GT/s PCIe" link_width="16">
      <gpu dev="1" sm="100" rank="1" gdr="1">
        <nvlink target="fffffff:ff:ff.0" count="18" tclass="0x068000"/>
        <c2c bw="44712" count="5"/>
      </gpu>
      <gpu dev="1" sm="100" rank="2" gdr="1"/>
    </pci>
  </cpu>
</system>
"""


def test_chip_to_chip_links_lead_to_the_processor():
    """NCCL multiplies `bw` (MB/s, each way) by `count` and links the GPU to its `<cpu>`."""
    topology = read(GRACE)
    links = [link for link in topology.links if link.kind is LinkKind.C2C]
    assert [link.forward_bytes_per_s.value for link in links] == [5 * 44.712e9] * 2
    kind_of = {c.id: c.kind for c in topology.components}
    assert {kind_of[link.ends[1]] for link in links} == {ComponentKind.NUMA}
    assert any("2 parts or ranks of GPU 0009:06:00.0" in each for each in topology.report)
    # devices reach each other over the switches of NVLink all the same
    assert topology.route_of_pair["gpu0", "gpu1"].path_class is PathClass.NVL


def test_a_chip_to_chip_link_that_cannot_be_is_refused():
    with pytest.raises(InputError, match=r"node\.xml:6: <c2c bw>: expected 0 to"):
        read(GRACE.replace('bw="44712"', 'bw="-1"', 1))


def test_nics_take_nccl_numbers():
    """The file lists functions by bus id; `dev` is NCCL's own number, as it is of a GPU."""
    swapped = SAMPLE.replace('"mlx5_0" dev="0"', '"mlx5_0" dev="9"')
    assert [nic.name for nic in read(SAMPLE).nics] == ["mlx5_0", "mlx5_1"]
    assert [nic.name for nic in read(swapped).nics] == ["mlx5_1", "mlx5_0"]
    double = SAMPLE.replace('"mlx5_0" dev="0"', '"mlx5_0" dev="1"')
    assert [nic.name for nic in read(double).nics] == ["mlx5_0", "mlx5_1"]


@pytest.mark.parametrize(
    ("told", "cpu"),
    [
        ("", "x86_64 AuthenticAMD"),
        (' familyid="25" modelid="1"', "x86_64 AuthenticAMD 25 1"),
        (' familyid="25&#10;x"', None),
    ],
)
def test_the_processor_is_kept(told, cpu):
    text = SAMPLE.replace('vendor="AuthenticAMD"', f'vendor="AuthenticAMD"{told}')
    assert read(text).metadata.get("cpu") == cpu
