"""A machine that is not there: sysfs written to a folder, NVML and KFD as their documentation says.

The PCI trees are built as Linux shows them: root port, switch upstream port, downstream ports.
"""

import re
from ctypes import c_ulong
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from uuid import UUID

import pynvml

from tests.topology.case_files import texts_of

GPU_CLASS, NIC_CLASS, BRIDGE_CLASS = "0x030200", "0x020700", "0x060400"
NVIDIA, AMD, MELLANOX, PLX, INTEL = "0x10de", "0x1002", "0x15b3", "0x10b5", "0x8086"


@dataclass
class FakeSysfs:
    """Writes files below `root`."""

    root: Path
    made: set = field(default_factory=set)

    def write(self, path, text):
        target = self.root / path
        if target.parent not in self.made:
            target.parent.mkdir(parents=True, exist_ok=True)
            self.made.add(target.parent)
        target.write_text(text + "\n")

    def pci(self, path, *, vendor, pci_class, node=-1, cpus="", speed="8.0 GT/s PCIe", width=16):
        """One function at `path`, e.g. `pci0000:00/0000:00:02.0/0000:04:00.0`."""
        folder = f"devices/{path}"
        bus = path.rsplit("/", 1)[1]
        for name, text in {
            "vendor": vendor,
            "device": "0x1db1",
            "class": pci_class,
            "numa_node": str(node),
            "local_cpulist": cpus,
            "max_link_speed": speed,
            "current_link_speed": "2.5 GT/s PCIe",  # idle
            "current_link_width": str(width),
            "max_link_width": str(width),
        }.items():
            self.write(f"{folder}/{name}", text)
        link = self.root / "bus" / "pci" / "devices" / bus
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(f"../../../{folder}")

    def adapter(self, kind, name, pci_path):
        """A device of class infiniband or net on a PCI function."""
        folder = self.root / "devices" / pci_path / kind / name
        folder.mkdir(parents=True)
        (folder / "device").symlink_to("../..")
        entry = self.root / "class" / kind / name
        entry.parent.mkdir(parents=True, exist_ok=True)
        entry.symlink_to(folder)

    def kfd(self, text):
        """KFD's files as `head` printed them."""
        parts = re.split(r"^==> (\S+) <==$", text, flags=re.MULTILINE)[1:]
        for path, content in zip(parts[::2], parts[1::2], strict=True):
            self.write(f"class/kfd/kfd/topology/{path}", content.strip())

    def numa(self, node, cpus, package):
        self.write(f"devices/system/node/node{node}/cpulist", cpus)
        if cpus:
            first = cpus.replace(",", "-").split("-")[0]
            path = f"devices/system/cpu/cpu{first}/topology/physical_package_id"
            self.write(path, str(package))


def four_mi100(sysfs):
    """KFD, PCI and NUMA of one machine: two GPUs each below two sockets of 32 CPUs."""
    for i in range(4):
        node, root = i // 2, f"pci0000:{0x10 * i:02x}/0000:{0x10 * i:02x}:01.0"
        path, cpus = f"{root}/0000:{0x10 * (i + 1):02x}:00.0", f"{node * 32}-{node * 32 + 31}"
        pci = {"vendor": AMD, "pci_class": GPU_CLASS, "speed": "16.0 GT/s PCIe"}
        sysfs.pci(path, **pci, node=node, cpus=cpus)
        sysfs.numa(node, cpus, node)
    sysfs.kfd(kfd_text("four MI100"))


def two_mi300x_in_four_parts(sysfs):
    """The same of one socket, whose GPUs are parts by KFD alone."""
    for board in (1, 2):
        path = f"pci0000:{board}0/0000:{board}0:01.0/0000:0{board}:00.0"
        pci = {"vendor": AMD, "pci_class": GPU_CLASS, "speed": "32.0 GT/s PCIe"}
        sysfs.pci(path, **pci, node=0, cpus="0-7")
    sysfs.kfd(kfd_text("two MI300X in four parts"))
    sysfs.numa(0, "0-7", 0)


def kfd_text(case):
    """KFD's files of a case of `cases/kfd.txt`."""
    return texts_of("kfd", case)["kfd.txt"]


@dataclass
class FakeGpu:
    """What the fake NVML tells of one GPU. Links are (remote bus id, remote type).

    From compute capability 9.0 on, fields tell of links, and the calls do not.
    """

    pci: str
    name: str = "Tesla V100-SXM2-16GB"
    uuid: str = "GPU-00000000-0000-0000-0000-000000000000"
    links: list[tuple[str, int]] = field(default_factory=list)
    inactive: int = 0
    mig: bool = False
    slices: list[str | None] = field(default_factory=list)  # UUIDs by slot; None: a free slot
    link_version: int = 2
    pcie: tuple[int, int, int, int] = (1, 16, 3, 16)  # generation and width, now and at most
    virtual: int = 0
    capability: tuple[int, int] = (7, 0)
    fabric: tuple[str, int, int, int] | None = None  # cluster UUID, clique, state, status
    told_as: str | None = None  # its bus id in NVML's words


class FakeNvml:
    """The functions of pynvml that discovery uses, over a list of GPUs."""

    NVMLError = pynvml.NVMLError
    c_nvmlGpuFabricInfo_t = pynvml.c_nvmlGpuFabricInfo_t
    c_nvmlGpuFabricInfo_v2_t = pynvml.c_nvmlGpuFabricInfo_v2_t

    def __init__(self):
        self.gpus = []
        self.distance = lambda i, j: 50  # the common ancestor
        self.peer_status = lambda i, j: 0 if (i < 4) == (j < 4) else 3
        self.unsupported = set()  # functions that raise as the library does
        self.lost = []  # the same with arguments, or without them whatever they are: no GPU there
        self.present = True  # the driver is
        self.as_bytes = False
        self.open = 0

    def __getattribute__(self, name):
        answer = object.__getattribute__(self, name)
        if not name.startswith("nvml"):
            return answer

        def answered(*given):
            if name in self.unsupported:
                raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)
            if any(each in ((name,), (name, *given)) for each in self.lost):
                raise pynvml.NVMLError(pynvml.NVML_ERROR_GPU_IS_LOST)
            return answer(*given)

        return answered

    def _text(self, text):
        return text.encode() if self.as_bytes else text

    def nvmlInit(self):
        if not self.present:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_LIBRARY_NOT_FOUND)
        self.open += 1

    def nvmlShutdown(self):
        self.open -= 1

    def nvmlSystemGetDriverVersion(self):
        return self._text("550.163.01")

    def nvmlDeviceGetCount(self):
        return len(self.gpus)

    def nvmlDeviceGetHandleByIndex(self, index):
        return index

    def nvmlDeviceGetName(self, handle):
        if isinstance(handle, tuple):  # a MIG device
            return self._text(f"{self.gpus[handle[0]].name} MIG 3g.40gb")
        return self._text(self.gpus[handle].name)

    def nvmlDeviceGetUUID(self, handle):
        if isinstance(handle, tuple):
            return self._text(self.gpus[handle[0]].slices[handle[1]])
        return self._text(self.gpus[handle].uuid)

    def nvmlDeviceGetPciInfo(self, handle):
        gpu = self.gpus[handle]
        told = "0000" + gpu.pci.upper() if gpu.told_as is None else gpu.told_as
        return SimpleNamespace(busId=self._text(told))

    def nvmlDeviceGetMemoryInfo(self, handle):
        return SimpleNamespace(total=(4 if isinstance(handle, tuple) else 16) << 30)

    def nvmlDeviceGetMigMode(self, handle):
        return [int(self.gpus[handle].mig)] * 2

    def nvmlDeviceGetCpuAffinity(self, handle, words):
        return (c_ulong * words)(0xF)

    def nvmlDeviceGetGpuFabricInfoV(self, handle, pointer):
        if pointer._obj.version != pynvml.nvmlGpuFabricInfo_v2:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_ARGUMENT_VERSION_MISMATCH)
        return self.nvmlDeviceGetGpuFabricInfo(handle, pointer)

    def nvmlDeviceGetGpuFabricInfo(self, handle, pointer):
        if self.gpus[handle].fabric is None:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)
        cluster, clique, state, status = self.gpus[handle].fabric
        info = pointer._obj
        info.clusterUuid[:] = UUID(cluster).bytes
        info.cliqueId, info.state, info.status = clique, state, status
        return pynvml.NVML_SUCCESS

    def nvmlDeviceGetMaxMigDeviceCount(self, handle):
        return 7

    def nvmlDeviceGetMigDeviceHandleByIndex(self, handle, slot):
        slices = self.gpus[handle].slices
        if slot >= len(slices) or slices[slot] is None:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_FOUND)
        return (handle, slot)

    def nvmlDeviceGetVirtualizationMode(self, handle):
        return self.gpus[handle].virtual

    def nvmlDeviceGetCurrPcieLinkGeneration(self, handle):
        return self.gpus[handle].pcie[0]

    def nvmlDeviceGetCurrPcieLinkWidth(self, handle):
        return self.gpus[handle].pcie[1]

    def nvmlDeviceGetMaxPcieLinkGeneration(self, handle):
        return self.gpus[handle].pcie[2]

    def nvmlDeviceGetMaxPcieLinkWidth(self, handle):
        return self.gpus[handle].pcie[3]

    def nvmlDeviceGetCudaComputeCapability(self, handle):
        return list(self.gpus[handle].capability)

    def nvmlDeviceGetNvLinkState(self, handle, link):
        gpu = self.gpus[handle]
        if gpu.capability >= (9, 0):
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)
        if link >= len(gpu.links) + gpu.inactive:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_INVALID_ARGUMENT)
        return int(link < len(gpu.links))

    def nvmlDeviceGetNvLinkVersion(self, handle, link):
        if self.gpus[handle].capability >= (9, 0):
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)
        return self.gpus[handle].link_version

    def nvmlDeviceGetFieldValues(self, handle, fields):
        return [self._field(self.gpus[handle], *each) for each in fields]

    def _field(self, gpu, field, link):
        told = {
            pynvml.NVML_FI_DEV_NVLINK_GET_STATE: int(link < len(gpu.links)),
            pynvml.NVML_FI_DEV_NVLINK_GET_VERSION: gpu.link_version,
        }
        there = gpu.capability >= (9, 0) and link < len(gpu.links) + gpu.inactive
        code = pynvml.NVML_SUCCESS if there else pynvml.NVML_ERROR_NOT_SUPPORTED
        return SimpleNamespace(nvmlReturn=code, value=SimpleNamespace(uiVal=told[field]))

    def nvmlDeviceGetNvLinkRemotePciInfo(self, handle, link):
        remote = self.gpus[handle].links[link][0]
        prefix = "0000" if remote.startswith("0000") else ""
        return SimpleNamespace(busId=self._text((prefix + remote).upper()))

    def nvmlDeviceGetNvLinkRemoteDeviceType(self, handle, link):
        return self.gpus[handle].links[link][1]

    def nvmlDeviceGetTopologyCommonAncestor(self, a, b):
        return self.distance(a, b)

    def nvmlDeviceGetP2PStatus(self, a, b, capability):
        return self.peer_status(a, b)
