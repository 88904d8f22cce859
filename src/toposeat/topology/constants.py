"""What links can carry, by kind and generation: the source of every `nominal` number.

Two figures per device link: `data_sheet` is the capacity of one lane or brick per direction,
`achievable` what one copy reaches (published measurements where there are any, else the value that
NCCL's and RCCL's topology search use for that link). Links get the data sheet's capacity, a
single flow on them is capped at the achievable rate. PCIe capacities are the achievable ones,
because there the difference (encoding, headers, credits) limits all flows together.

Sources: NCCL and RCCL, `src/graph/topo.h` (link models); NVIDIA data sheets of P100, V100, A100,
H100 and B200; AMD CDNA 2 and CDNA 3 documentation; Li et al., "Tartan" (P100 and V100 NVLink);
published runs of NVIDIA's p2pBandwidthLatencyTest sample (A100, POWER9).
"""

from __future__ import annotations

from msgspec import Struct

from toposeat.model.topology import LinkKind

GB_PER_S = 1e9
MICROSECOND = 1e-6


class DeviceLink(Struct, frozen=True):
    """One lane of a device-to-device link, bytes/s per direction."""

    name: str
    kind: LinkKind
    data_sheet: float
    achievable: float
    lanes_per_device: int  # how many one device has at most
    combined: float | None = None  # both directions together, where they hinder each other


NVLINK1 = DeviceLink("NVLink 1", LinkKind.NVLINK, 20e9, 18e9, 4)
NVLINK2 = DeviceLink("NVLink 2", LinkKind.NVLINK, 25e9, 24.2e9, 6)
NVLINK3 = DeviceLink("NVLink 3", LinkKind.NVLINK, 25e9, 22.9e9, 12)
NVLINK3_BRIDGE = DeviceLink("NVLink 3 bridge (GA10x)", LinkKind.NVLINK, 14.06e9, 12e9, 4)
NVLINK4 = DeviceLink("NVLink 4", LinkKind.NVLINK, 25e9, 20.9e9, 18)
NVLINK5 = DeviceLink("NVLink 5", LinkKind.NVLINK, 50e9, 40.1e9, 18)
# Vega 20: rings of up to four, so two links of a device (Mynavi on AMD Next Horizon, 2018). MI100:
# 23 GT/s by 16 lanes is 46 GB/s (rocm.docs.amd.com, MI100 microarchitecture); the same is assumed
# of Vega 20.
XGMI_VEGA20 = DeviceLink("xGMI (Vega 20)", LinkKind.XGMI, 46e9, 24e9, 2)
# Two MI100 of a hive copy 70 GB/s both ways together over their one link (ROCm issue 2499).
XGMI_MI100 = DeviceLink("xGMI (MI100)", LinkKind.XGMI, 46e9, 35e9, 3)
# One link: 36 to 40 measured (MI250). Bonds are taken to carry as much of their sum.
XGMI_MI200 = DeviceLink("xGMI (MI200)", LinkKind.XGMI, 50e9, 36e9, 8)
XGMI_MI300 = DeviceLink("xGMI (MI300)", LinkKind.XGMI, 64e9, 48e9, 7)
XGMI_MI350 = DeviceLink("xGMI (MI350)", LinkKind.XGMI, 76.8e9, 57.6e9, 7)

# What KFD states for the way between the partitions of one MI300X, and what the Frontier user guide
# states for one GCD's xGMI to its CPU.
XGMI_IN_PACKAGE = 819.2e9
XGMI_CPU = 36e9

# Xe Link of the Max 1100 and 1550: 24 lanes (6 ports of 4) are 318 GB/s per direction (Intel's
# bridge card). The two stacks of a Max 1550 talk over MDF: 196 GB/s one way and 287 GB/s both ways
# together, measured (ALCF user guide of Aurora, "Single node GPU-Peak benchmarks", Tile2Tile).
XELINK = DeviceLink("Xe Link", LinkKind.XELINK, 13.25e9, 13.25e9, 32)
MDF = DeviceLink("Multi-Die Fabric", LinkKind.XELINK, 196e9, 196e9, 1, combined=287e9)

# Devices whose product is not known: 25 GB/s per direction holds for data-centre parts from V100 to
# H200, 50 for AMD's MI200, which lies between those before and after it.
NVLINK_UNKNOWN = DeviceLink("NVLink of unknown generation", LinkKind.NVLINK, 25e9, 22.9e9, 18)
XGMI_UNKNOWN = DeviceLink("xGMI of unknown generation", LinkKind.XGMI, 50e9, 36e9, 8)

# Achievable bytes/s per direction of an x16 link: one copy of P100 reaches 10.6, of V100 12, of
# A100 and RTX 4090 24 to 26.4, of H100 and RTX PRO 6000 52 to 56.6 (gen 1 and 2: by signalling rate
# and encoding; measured 6.6 on gen 2). What one copy reaches through a processor: `processors`.
PCIE_X16 = {1: 3e9, 2: 6e9, 3: 12e9, 4: 25e9, 5: 52e9, 6: 104e9}
DEFAULT_PCIE_GENERATION = 4
PCIE_ACHIEVABLE = 0.78  # of the signalling rate: 12 of 16, 25 of 32, 52 of 64 GB/s

# Latencies of single links; a route's is their sum. One PCIe switch 2.7 us, two direct NVLink ends
# 2.2 us, NVSwitch 3.4 us (published V100 and A100 runs); a further bridge +0.5 us for its two links
# (idgraf), another socket +9..12 us (sirocco, mirage). Host bridge and on-die fabric lie between.
LATENCY_NVLINK = 2.2e-6
LATENCY_NVLINK1 = 9.7e-6  # P100 (Tartan)
LATENCY_NVSWITCH_PORT = 1.7e-6
LATENCY_NVSWITCH_BOARDS = 0.3e-6  # of a DGX-2: from switch to switch
LATENCY_XGMI = 2.2e-6
LATENCY_PCIE_ENDPOINT = 1.35e-6
LATENCY_PCIE_BRIDGE = 0.25e-6
LATENCY_HOST_BRIDGE = 0.5e-6
LATENCY_C2C = 1e-6  # assumed: less than a PCIe endpoint
LATENCY_SMP = 8e-6

# A whole copy that is staged in host memory: V100 18, 2080 Ti 14-15, A100 24 us.
LATENCY_STAGED = 18e-6

# What leaves CPUs of this machine out, as it is said.
CGROUP = "the job's cgroup"
THREADS = "SLURM_THREADS_PER_CORE"  # Slurm sets it where a job asked for it


def pcie_bytes_per_s(generation: int, width: int = 16) -> float:
    """Achievable bytes/s per direction of a PCIe link of `width` lanes."""
    return PCIE_X16[min(max(generation, 1), 6)] * width / 16
