"""`nvidia-smi -q` (text and XML) and `--query-gpu` CSV: the inventory, degraded links, damage."""

import pytest

from tests.topology.readers.recorded import facts_of, facts_of_text, pcie
from toposeat.errors import InputError

MIB = 1 << 20
GOLDEN = {  # name, MiB, generation now and at best, width now and at best, bus ids, report
    "qx-a100.xml": ("NVIDIA A100-SXM4-40GB", 40960, (4, 4), (16, 16), ["0000:06:00.0"], ()),
    "qx-b200.xml": (
        "NVIDIA B200", 183359, (5, 5), (16, 16),
        [f"0000:{b}:00.0" for b in ("8f", "90", "96", "97", "c4", "c5", "cb", "cc")], (),
    ),
    "qx-gb300.xml": (
        "NVIDIA GB300", 284208, (6, 6), (16, 16),
        ["0008:06:00.0", "0009:06:00.0", "0018:06:00.0", "0019:06:00.0"], (),
    ),
    "qx-l40s.xml": (
        "NVIDIA L40S", 46068, (4, 4), (8, 16), ["0000:30:00.0"],
        ("GPU0 has a PCIe link of x8, x16 is possible",),
    ),
    "qx-t4.xml": (
        "Tesla T4", 15360, (3, 3), (8, 16), ["0000:00:1e.0"],
        ("GPU0 has a PCIe link of x8, x16 is possible",),
    ),
}  # fmt: skip


def test_every_recorded_file_has_expectations(shared_dir):
    assert {p.name for p in (shared_dir / "machines/nvidia-smi-q-xml").iterdir()} == set(GOLDEN)


@pytest.mark.parametrize("name", sorted(GOLDEN))
def test_recorded_xml(shared_dir, name):
    facts = facts_of(shared_dir / "machines/nvidia-smi-q-xml" / name)
    product, mib, generation, width, buses, report = GOLDEN[name]
    assert [d.pci_bus_id for d in facts.devices] == buses
    assert [d.index for d in facts.devices] == list(range(len(buses)))
    for d in facts.devices:
        assert (d.name, d.memory_bytes) == (product, mib * MIB)
        assert (pcie(d).generation, pcie(d).max_generation) == generation
        assert (pcie(d).width, pcie(d).max_width) == width
    assert len({d.uuid for d in facts.devices}) == len(buses)
    assert facts.report == report


def test_recorded_text_of_a_part(shared_dir):
    """`nvidia-smi -q -d PAGE_RETIREMENT` on Azure: nothing but PCI bus ids."""
    facts = facts_of(shared_dir / "machines/nvidia-smi-q/azure-nvsmi8.txt")
    assert [d.pci_bus_id for d in facts.devices] == [f"000{i}:00:00.0" for i in range(1, 9)]
    assert [d.index for d in facts.devices] == list(range(8))
    assert "only part of the inventory was printed (-d)" in facts.report[0]


def test_recorded_csv(shared_dir):
    facts = facts_of(shared_dir / "machines/nvidia-smi-query-csv/4gpu-a4000.csv")
    assert [(d.index, d.name, d.memory_bytes) for d in facts.devices] == [
        (i, "NVIDIA RTX A4000", 16376 * MIB) for i in range(4)
    ]
    assert "known by number only" in facts.report[0]


TEXT = """
==============NVSMI LOG==============

Timestamp                                 : Sat Feb  7 11:17:58 2026
Attached GPUs                             : 2
GPU 00000000:19:00.0
    Product Name                          : NVIDIA H100 80GB HBM3
    MIG Mode
        Current                           : Enabled
        Pending                           : Enabled
    MIG Device
        Index                             : 0
        GPU Instance ID                   : 1
        FB Memory Usage
            Total                         : 9856 MiB
    GPU UUID                              : GPU-58f16df2-6eee-bfac-bdc1-13e0091441b5
    PCI
        Bus                               : 0x19
        Bus Id                            : 00000000:19:00.0
        GPU Link Info
            PCIe Generation
                Max                       : 5
                Current                   : 1
                Device Current            : 1
            Link Width
                Max                       : 16x
                Current                   : 8x
        Bridge Chip
            Type                          : N/A
    FB Memory Usage
        Total                             : 81559 MiB
        Used                              : 1 MiB
    BAR1 Memory Usage
        Total                             : 131072 MiB
    Fabric
        State                             : In Progress
        Status                            : N/A

GPU 00000000:3B:00.0
    Product Name                          : NVIDIA H100 80GB HBM3
    GPU UUID                              : GPU-68f16df2-6eee-bfac-bdc1-13e0091441b5
    FB Memory Usage
        Total                             : N/A
"""
XML = """<?xml version="1.0" ?>
<!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_v12.dtd">
<nvidia_smi_log>
 <attached_gpus>2</attached_gpus>
 <gpu id="00000000:19:00.0">
  <product_name>NVIDIA H100 80GB HBM3</product_name>
  <mig_mode><current_mig>Enabled</current_mig></mig_mode>
  <mig_devices><mig_device><index>0</index><gpu_instance_id>1</gpu_instance_id></mig_device>
  </mig_devices>
  <uuid>GPU-58f16df2-6eee-bfac-bdc1-13e0091441b5</uuid>
  <pci><pci_gpu_link_info>
   <pcie_gen><max_link_gen>5</max_link_gen><current_link_gen>1</current_link_gen></pcie_gen>
   <link_widths><max_link_width>16x</max_link_width>
    <current_link_width>8x</current_link_width></link_widths>
  </pci_gpu_link_info></pci>
  <fb_memory_usage><total>81559 MiB</total></fb_memory_usage>
  <fabric><state>In Progress</state><status>N/A</status></fabric>
 </gpu>
 <gpu id="00000000:3B:00.0">
  <product_name>NVIDIA H100 80GB HBM3</product_name>
  <uuid>GPU-68f16df2-6eee-bfac-bdc1-13e0091441b5</uuid>
  <fb_memory_usage><total>N/A</total></fb_memory_usage>
 </gpu>
</nvidia_smi_log>
"""


def without_origin(text):
    facts = facts_of_text(text)
    return facts.devices, facts.report


def test_text_and_xml_say_the_same():
    assert without_origin(TEXT) == without_origin(XML)


def test_nested_values_of_the_text():
    facts = facts_of_text(TEXT)
    first, second, slice_ = facts.devices
    assert (pcie(first).generation, pcie(first).max_generation) == (1, 5)
    assert (pcie(first).width, pcie(first).max_width) == (8, 16)
    assert first.memory_bytes == 81559 * MIB  # not the slice's, not BAR1's
    assert (second.memory_bytes, second.index) == (None, 1)
    assert (slice_.id, slice_.parent, slice_.pci_bus_id) == ("GPU0/0", "GPU0", None)
    for words in (
        "GPU0 has a PCIe link of x8, x16 is possible",
        "1 GPUs run their PCIe link below its generation",
        "the NVLink fabric of 1 GPUs is not up (In Progress)",
        "MIG is on for 1 of 2 GPUs",
    ):
        assert any(words in line for line in facts.report)


def test_a_part_of_the_gpus_has_no_numbers():
    """`nvidia-smi -q -i 3` prints one GPU, whose number it does not say."""
    facts = facts_of_text(
        TEXT.replace("Attached GPUs                             : 2", "Attached GPUs : 8")
    )
    assert [d.index for d in facts.devices[:2]] == [None, None]
    assert any("8 GPUs are attached, 2 are listed" in line for line in facts.report)


CSV = (
    "index, uuid, pci.bus_id, pcie.link.gen.current, pcie.link.gen.max, pcie.link.width.current,"
    " pcie.link.width.max, memory.total [MiB]\n"
    "3, GPU-58f16df2-6eee-bfac-bdc1-13e0091441b5, 00000000:19:00.0, 1, 5, 8, 16, 81559 MiB\n"
    "1, GPU-68f16df2-6eee-bfac-bdc1-13e0091441b5, 00000000:3B:00.0, [N/A], 5, 16, 16, 81559\n"
)


def test_csv_has_links_and_identities():
    facts = facts_of_text(CSV)
    first, second = facts.devices
    assert (first.index, first.pci_bus_id, pcie(first).width) == (3, "0000:19:00.0", 8)
    assert (second.index, pcie(second).generation, second.memory_bytes) == (1, None, 81559 * MIB)
    assert any("GPU3 has a PCIe link of x8" in line for line in facts.report)


@pytest.mark.parametrize("text", ["name\nleaf1\n", "index\n0\n", "host,leaf\na,b\n"])
def test_other_tables_are_no_inventory(text):
    with pytest.raises(InputError, match=r"unknown format|hosts and switches"):
        facts_of_text(text)


@pytest.mark.parametrize(
    "text", [TEXT.partition("GPU 0000")[0], "<nvidia_smi_log/>", CSV.partition("\n")[0] + "\n"]
)
def test_without_any_gpu(text):
    with pytest.raises(InputError, match="0 GPUs are listed"):
        facts_of_text(text)
