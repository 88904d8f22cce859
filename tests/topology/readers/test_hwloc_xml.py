"""hwloc's XML of all three versions: recorded exports, odd machines, hostile input."""

import re
from pathlib import Path

import pytest

from toposeat.errors import InputError
from toposeat.model.topology import (
    ComponentKind,
    LinkKind,
    LinkLayer,
    PathClass,
    Vendor,
)
from toposeat.topology import parse_topology_text, read_topology
from toposeat.topology.product_links import without_inferred_links

# One socket of two memory nodes: two GPUs behind a switch beside node 0, a third beside node 1.
SAMPLE = """\
<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE topology SYSTEM "hwloc2.dtd">
<topology version="2.0">
  <object type="Machine" os_index="0" cpuset="0x0000ffff">
    <info name="HostName" value="node7"/>
    <object type="Package" os_index="0" cpuset="0x0000ffff" gp_index="1">
      <object type="Group" cpuset="0x000000ff">
        <object type="NUMANode" os_index="0" cpuset="0x000000ff" gp_index="2"/>
        <object type="Bridge" bridge_type="0-1" bridge_pci="0000:[00-05]">
          <object type="Bridge" bridge_type="1-1" pci_busid="0000:00:01.0" pci_link_speed="31.507692">
            <object type="Bridge" bridge_type="1-1" pci_busid="0000:01:00.0" pci_link_speed="31.507692">
              <object type="Bridge" bridge_type="1-1" pci_busid="0000:02:00.0" pci_link_speed="31.507692">
                <object type="PCIDev" gp_index="10" pci_busid="0000:03:00.0" pci_type="0302 [10de:20b2] [10de:0000] a1" pci_link_speed="31.507692">
                  <info name="PCIDevice" value="A100"/>
                  <object type="OSDev" gp_index="20" name="cuda0" subtype="CUDA" osdev_type="5"/>
                  <object type="OSDev" gp_index="21" name="nvml1" osdev_type="1">
                    <info name="NVIDIAUUID" value="GPU-1"/>
                    <info name="GPUModel" value="NVIDIA A100-SXM4-40GB"/>
                  </object>
                </object>
              </object>
              <object type="Bridge" bridge_type="1-1" pci_busid="0000:02:01.0" pci_link_speed="31.507692">
                <object type="PCIDev" gp_index="11" pci_busid="0000:04:00.0" pci_type="0302 [10de:20b2] [10de:0000] a1" pci_link_speed="7.876923">
                  <object type="OSDev" gp_index="22" name="nvml0" osdev_type="1"/>
                </object>
              </object>
            </object>
          </object>
          <object type="PCIDev" gp_index="12" pci_busid="0000:05:00.0" pci_type="0300 [1a03:2000] [1a03:2000] 41" pci_link_speed="0.000000"/>
        </object>
      </object>
      <object type="Group" cpuset="0x0000ff00">
        <object type="NUMANode" os_index="1" cpuset="0x0000ff00" gp_index="3"/>
        <object type="Bridge" bridge_type="0-1" bridge_pci="0000:[80-82]">
          <object type="PCIDev" gp_index="13" pci_busid="0000:81:00.0" pci_type="0302 [10de:20b2] [10de:0000] a1" pci_link_speed="31.507692">
            <object type="OSDev" gp_index="23" name="nvml2" osdev_type="1"/>
          </object>
          <object type="PCIDev" gp_index="14" pci_busid="0000:82:00.0" pci_type="0207 [15b3:101b] [15b3:0000] 00" pci_link_speed="31.507692">
            <object type="OSDev" gp_index="24" name="ib0" osdev_type="2"/>
            <object type="OSDev" gp_index="25" name="mlx5_0" osdev_type="3"/>
          </object>
        </object>
      </object>
    </object>
  </object>
  <distances2 type="OSDev" nbobjs="3" kind="9" name="NVLinkBandwidth" indexing="gp">
    <indexes length="9">22 21 23 </indexes>
    <u64values length="40">1000000 100000 0 100000 1000000 </u64values>
    <u64values length="40">50000 0 50000 1000000 </u64values>
  </distances2>
</topology>
"""  # noqa: E501


def read(text):
    return parse_topology_text(text, Path("node.xml"))


def test_devices_take_the_numbers_of_nvidia_smi():
    topology = read(SAMPLE)
    assert [d.pci_bus_id for d in topology.devices] == [
        "0000:04:00.0",
        "0000:03:00.0",
        "0000:81:00.0",
    ]
    assert topology.hosts == ("node7",)
    one = topology.devices[1]
    assert (one.uuid, one.name, one.cpus, one.numa_node) == (
        "GPU-1",
        "NVIDIA A100-SXM4-40GB",
        "0-7",
        0,
    )


def test_cores_and_their_hardware_threads_are_known():
    cores = (
        "".join(f'<object type="Core" cpuset="0x{3 << 2 * core:08x}"/>' for core in range(3))
        + '<object type="Core" cpuset="0x00000040"/>'
    )
    node = '<object type="NUMANode" os_index="0" cpuset="0x000000ff" gp_index="2"/>'
    topology = read(SAMPLE.replace(node, node + cores))
    of_node = {c.numa_node: c.cores for c in topology.components if c.kind is ComponentKind.NUMA}
    assert of_node == {0: ("0-1", "2-3", "4-5", "6"), 1: ()}


def test_the_pci_tree_is_kept():
    topology = read(SAMPLE)
    text = re.sub(r"<distances2.*</distances2>", "", SAMPLE, flags=re.DOTALL)
    bare = without_inferred_links(read(text))  # an A100-SXM4 has NVLinks, whatever the file says
    assert bare.route_of_pair["gpu0", "gpu1"].path_class is PathClass.PIX
    assert bare.route_of_pair["gpu0", "gpu2"].path_class in (PathClass.NODE, PathClass.SYS)
    ends = {x.ends[0]: x for x in topology.links if x.kind is LinkKind.PCIE}
    assert ends["gpu0"].forward_bytes_per_s.value == 6e9  # 7.9 GB/s nominal, gen 3 x8
    assert ends["gpu1"].forward_bytes_per_s.value == 25e9


@pytest.mark.parametrize(
    ("port", "own", "expected"),
    [
        ("4.000000", "4.000000", 25e9),
        ("2.000000", "31.507692", 12.5e9),
        ("0.984615", "4.0", 1.5e9 / 2),
    ],
)
def test_what_an_idle_link_does_is_no_capacity(port, own, expected):
    """At 2.5 GT/s a lane; hwloc takes the GPU's own end from NVML, which tells what it can."""
    above, below = '02:01.0" pci_link_speed="', "7.876923"
    text = SAMPLE.replace(f"{above}31.507692", f"{above}{port}")
    topology = read(text.replace(below, own))
    ends = {x.ends[0]: x for x in topology.links if x.kind is LinkKind.PCIE}
    assert ends["gpu0"].forward_bytes_per_s.value == expected


def test_nvlinks_come_from_the_distances():
    bonds = {x.ends: x.count for x in read(SAMPLE).links if x.kind is LinkKind.NVLINK}
    assert bonds == {("gpu0", "gpu1"): 4, ("gpu1", "gpu2"): 2}


def test_rdma_adapters_are_preferred():
    topology = read(SAMPLE)
    assert [(n.name, n.numa_node) for n in topology.nics] == [("mlx5_0", 1)]


def test_ports_tell_their_state_and_what_they_speak():
    def read_with(name, **ports):
        infos = "".join(f'<info name="{key}" value="{value}"/>' for key, value in ports.items())
        bare = 'name="mlx5_0" osdev_type="3"/>'
        assert bare in SAMPLE
        text = SAMPLE.replace(bare, f'name="{name}" osdev_type="3">{infos}</object>')
        (nic,) = read(text).nics
        return nic

    for state, lid, expected in (
        ("4", "0x12a", (True, LinkLayer.INFINIBAND)),
        ("1", "0xffff", (False, LinkLayer.INFINIBAND)),
        ("4", "0x0", (True, LinkLayer.ETHERNET)),
        ("1", "0x0", (False, None)),
    ):
        nic = read_with("mlx5_0", NodeGUID="0:1", Port1State=state, Port1LID=lid)
        assert (nic.active, nic.link_layer) == expected
    elastic = read_with("rdmap197s0", NodeGUID="0:1", Port1State="4", Port1LID="0x0")
    assert (elastic.active, elastic.link_layer) == (True, None)


# ---- recorded exports

WITHOUT_GPUS = {
    "16amd64-4distances.xml",
    "16intel64-manyVFs.xml",
    "32em64t-2n8c+dax+nvme+mic+dimms.xml",
    "40intel64-2g2n4c+pcilocality.xml",
    "64intel64-heteromem.xml",
    "96em64t-4n4d3ca2co-pci.v2.xml",  # a management controller only
    "cxlmem+dax.v3.xml",
    "fakeheterodistances.xml",
    "fakepcilocalities.xml",
    "mpibind-cts1-quartz-smt1.xml",
    "mpibind-knl-snc4-flat-hwloc1.xml",
    "nvidia-dgx-gb10.xml",
}


def test_every_recorded_export_is_read_or_refused_for_a_reason(shared_dir):
    refused = set()
    files = sorted((shared_dir / "machines" / "hwloc-xml").glob("*.xml"))
    assert len(files) > 20
    for path in files:
        try:
            read_topology(path)
        except InputError as error:
            assert "no GPU in this file" in str(error)
            refused.add(path.name)
    assert refused == WITHOUT_GPUS


@pytest.mark.parametrize("name", ["mpibind-coral-lassen.xml", "mpibind-coral-lassen-hwloc1.xml"])
def test_one_machine_in_two_versions(shared_dir, name):
    topology = read_topology(shared_dir / "machines" / "hwloc-xml" / name)
    assert [d.pci_bus_id for d in topology.devices] == [
        "0004:04:00.0",
        "0004:05:00.0",
        "0035:03:00.0",
        "0035:04:00.0",
    ]
    assert [d.numa_node for d in topology.devices] == [0, 0, 8, 8]
    assert [d.index for d in topology.devices] == [0, 1, 2, 3]
    assert len(topology.nics) == 4


def test_partitions_of_one_gpu_are_devices(shared_dir):
    counts = {
        mode: read_topology(shared_dir / "machines" / "hwloc-xml" / f"fluxcore-tuo.{mode}.xml")
        for mode in ("SPX", "TPX", "CPX")
    }
    assert {mode: len(t.devices) for mode, t in counts.items()} == {"SPX": 4, "TPX": 12, "CPX": 24}
    assert all(d.vendor is Vendor.AMD for d in counts["CPX"].devices)
    assert all(d.pci_bus_id is None for d in counts["CPX"].devices)


def test_four_gpus_fully_joined_by_nvlink(shared_dir):
    topology = read_topology(shared_dir / "machines" / "hwloc-xml" / "fluxcore-ipa20.xml")
    bonds = [x.count for x in topology.links if x.kind is LinkKind.NVLINK]
    assert bonds == [6] * 6
    assert [d.numa_node for d in topology.devices] == [3, 1, 7, 5]
