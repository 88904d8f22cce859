"""What stands between peer copies, on trees whose registers are written as PCI's specification has
them, and on the bytes that a Linux lets root and others read.
"""

import shutil

import pytest

from tests.support.processes import ran
from tests.topology.live.fake_machine import FakeSysfs
from tests.topology.live.machine_text import MachineOfText, full
from tests.topology.live.test_discover import DGX1
from toposeat.model.health import Severity
from toposeat.topology import findings_of_paths

GPUS = [full(f"{bus}:00.0") for bus in ["06", "07", "0a", "0b", "85", "86", "89", "8a"]]
NIC = "0000:05:00.0"
ROOT_PORT, DOWNSTREAM = "0000:00:02.0", "0000:21:04.0"  # above GPU 06
RELAXED = 0x10
REQUEST, COMPLETION, UPSTREAM = 0x04, 0x08, 0x10


def registers(*, acs=None, device_control=RELAXED):
    """A configuration space: PCI Express is its second capability, ACS the second extended one."""
    space = bytearray(4096)
    space[0x34] = 0x40
    space[0x40:0x42] = bytes((0x01, 0x60))
    space[0x60:0x62] = bytes((0x10, 0x00))
    space[0x68:0x6A] = device_control.to_bytes(2, "little")
    behind = 0 if acs is None else 0x148
    space[0x100:0x104] = (0x0001 | 2 << 16 | behind << 20).to_bytes(4, "little")
    if acs is not None:
        space[0x148:0x14C] = (0x000D | 1 << 16).to_bytes(4, "little")
        space[0x14E:0x150] = acs.to_bytes(2, "little")
    return bytes(space)


class Node:
    """A DGX-1 whose files a test changes before it asks."""

    def __init__(self, root):
        self.root = root
        self.devices = root / "bus/pci/devices"
        self.cmdline = root / "cmdline"
        self.cmdline.write_text("ro quiet\n")
        MachineOfText(root, DGX1)
        for device in self.devices.iterdir():
            self.config(device.name, registers(acs=0))

    def config(self, bus_id, space):
        (self.devices / bus_id / "config").write_bytes(space)

    def group(self, bus_id, number, kind):
        FakeSysfs(self.root).write(f"kernel/iommu_groups/{number}/type", kind)
        group = self.root / "kernel/iommu_groups" / str(number)
        (self.devices / bus_id).resolve().joinpath("iommu_group").symlink_to(group)

    def findings(self):
        found = findings_of_paths(self.root, self.cmdline)
        assert len({each.code for each in found}) == len(found)
        return {each.code: each for each in found}


@pytest.fixture
def node(tmp_path):
    return Node(tmp_path)


def test_nothing_is_said_of_a_node_that_is_well(node):
    for number, gpu in enumerate(GPUS):
        node.group(gpu, number, "identity")
    assert node.findings() == {}


def test_translated_copies_are_doubted(node):
    for number, gpu in enumerate(GPUS[:2]):
        node.group(gpu, number, "DMA-FQ")
    node.cmdline.write_text("ro intel_iommu=on quiet\n")
    found = node.findings()["iommu-translates"]
    assert (found.severity, found.subject) == (Severity.DOUBT, "0000:06:00.0, 0000:07:00.0")
    assert "2 of 8 GPUs (group type DMA-FQ, expected identity" in found.detail
    assert "its command line has intel_iommu=on" in found.detail
    assert "iommu=pt" in found.hint
    node.cmdline.write_text("ro quiet\n")
    assert "its command line names none" in node.findings()["iommu-translates"].detail


def test_bridges_that_redirect_are_named_with_the_gpus_below(node):
    node.config(DOWNSTREAM, registers(acs=REQUEST | COMPLETION))
    found = node.findings()["acs-redirect"]
    assert (found.severity, found.subject) == (Severity.DOUBT, "0000:06:00.0")
    assert f"up to the processor: {DOWNSTREAM} (ACSCtl ReqRedir+ CmpltRedir+" in found.detail
    assert f"setpci -s {DOWNSTREAM} ECAP_ACS+6.w=0000" in found.hint
    node.config(ROOT_PORT, registers(acs=UPSTREAM))
    assert node.findings()["acs-redirect"].subject == "0000:06:00.0, 0000:07:00.0"
    node.config(ROOT_PORT, registers(acs=1))  # source validation alone redirects nothing
    node.config(DOWNSTREAM, registers())  # no such capability
    assert node.findings() == {}


def test_what_only_root_sees_is_untold_and_says_what_to_type(node):
    for device in node.devices.iterdir():
        node.config(device.name, registers(acs=REQUEST, device_control=0)[:64])
    found = node.findings()
    assert set(found) == {"acs-untold"}  # and no word on what cannot be seen
    assert found["acs-untold"].severity is Severity.INFO
    assert found["acs-untold"].hint.startswith("sudo lspci -vv | grep")


def test_strict_order_is_told_of_gpus_and_nics(node):
    node.config(GPUS[1], registers(device_control=0))
    node.config(NIC, registers(device_control=0xFFEF))
    found = node.findings()["relaxed-ordering-off"]
    assert (found.severity, found.subject) == (Severity.INFO, "0000:07:00.0, 0000:05:00.0")


@pytest.mark.parametrize("space", [b"", b"\xff" * 4096, bytes(256), bytes(4096)])
def test_damaged_registers_tell_nothing(node, space):
    for device in node.devices.iterdir():
        node.config(device.name, space)
    assert {each for each in node.findings() if each.startswith("acs-")} <= {"acs-redirect"}
    circle = bytearray(registers())
    circle[0x40:0x42] = bytes((0x01, 0x40))
    circle[0x100:0x104] = (0x0001 | 0x100 << 20).to_bytes(4, "little")
    for device in node.devices.iterdir():
        node.config(device.name, bytes(circle))
    assert node.findings() == {}


def test_one_gpu_has_no_peer(tmp_path):
    node = Node(tmp_path)
    for gpu in GPUS[1:]:
        shutil.rmtree((node.devices / gpu).resolve())
        (node.devices / gpu).unlink()
    node.config(DOWNSTREAM, registers(acs=REQUEST))
    assert node.findings() == {}


def test_lspci_reads_these_registers_alike(node, tmp_path):
    """The oracle of the registers' places: pciutils, given the same bytes as a dump."""
    if shutil.which("lspci") is None:
        pytest.skip("lspci (pciutils) is not installed")
    space = bytearray(registers(acs=REQUEST | COMPLETION))
    space[:8] = bytes.fromhex("b510478700001000")
    space[0x06] = 0x10  # it has a list of capabilities
    space[0x0A:0x0C] = bytes.fromhex("0406")
    space[0x0E] = 1
    space[0x14C:0x14E] = (REQUEST | COMPLETION).to_bytes(2, "little")  # what it is capable of
    space[0x62] = 0x62  # a downstream port
    rows = [
        f"{place:02x}: " + " ".join(f"{byte:02x}" for byte in space[place : place + 16])
        for place in range(0, 4096, 16)
    ]
    dump = tmp_path / "dump"
    dump.write_text("\n".join([f"{DOWNSTREAM[5:]} PCI bridge", *rows]) + "\n")
    words = ran(["lspci", "-vv", "-F", str(dump)], check=True).stdout
    assert "ACSCtl:\tSrcValid- TransBlk- ReqRedir+ CmpltRedir+" in words
    assert "RlxdOrd+" in words
    node.config(DOWNSTREAM, bytes(space))
    assert set(node.findings()) == {"acs-redirect"}
