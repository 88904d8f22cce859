"""What AMD's and Intel's tools print of given machines, written from their documentation."""

import json
from collections.abc import Callable

Cell = Callable[[int, int], object]

# Direct xGMI pairs of a node of four MI250X, and how many links each has.
MI250X = {
    **dict.fromkeys([(0, 1), (2, 3), (4, 5), (6, 7)], 4),
    **dict.fromkeys([(0, 6), (2, 4)], 2),
    **dict.fromkeys([(0, 2), (1, 3), (1, 5), (3, 7), (4, 6), (5, 7)], 1),
}
MI250X_BUS = tuple(f"0000:{bus}:00.0" for bus in ("c1", "c6", "c9", "ce", "d1", "d6", "d9", "de"))
MI300X_BUS = tuple(f"0000:{bus}:00.0" for bus in ("05", "27", "47", "65", "85", "a7", "c7", "e5"))


def mi250x_links(i, j):
    """Bonded links between two GCDs; 0 for pairs that others relay."""
    return MI250X.get((min(i, j), max(i, j)), 0)


def mi250x_weight(i, j):
    return 0 if i == j else 15 if mi250x_links(i, j) else 30


def rocm_table(title, count, cell, *, label="GPU{}"):
    """One table as rocm-smi prints it."""
    names = [label.format(i) for i in range(count)]
    lines = [f" {title} ".center(80, "="), "       " + "".join(f"{n:<13}" for n in names)]
    for i, name in enumerate(names):
        cells = "".join(f"{cell(i, j)!s:<13}" for j in range(count))
        lines.append(f"{name:<7}{cells}")
    return "\n".join(lines) + "\n\n"


def rocm_numa(nodes, *, label="GPU[{}]\t\t"):
    lines = [" Numa Nodes ".center(80, "=")]
    for i, node in enumerate(nodes):
        lines.append(f"{label.format(i)}: (Topology) Numa Node: {node}")
        lines.append(f"{label.format(i)}: (Topology) Numa Affinity: {node}")
    return "\n".join(lines) + "\n"


def rocm_smi_mi250x(*, label="GPU{}"):
    """`rocm-smi --showtopo` of a Frontier-like node, with the warning of an idle one."""
    return (
        "\nWARNING: AMD GPU device(s) is/are in a low-power state. Check power control/"
        "runtime_status\n\n"
        + " ROCm System Management Interface ".center(80, "=")
        + "\n"
        + rocm_table("Weight between two GPUs", 8, mi250x_weight, label=label)
        + rocm_table("Hops between two GPUs", 8, lambda i, j: int(i != j), label=label)
        + rocm_table(
            "Link Type between two GPUs", 8, lambda i, j: 0 if i == j else "XGMI", label=label
        )
        + rocm_numa([3, 3, 1, 1, 0, 0, 2, 2])
        + " End of ROCm SMI Log ".center(80, "=")
        + "\n"
    )


def amd_smi_table(title, buses, cell):
    lines = [f"{title}:", " " * 13 + " ".join(buses)]
    for i, bus in enumerate(buses):
        cells = "".join(f"{cell(i, j)!s:<13}" for j in range(len(buses)))
        lines.append(f"{bus} {cells}".rstrip())
    return "\n".join(lines) + "\n\n"


def amd_smi_mi250x():
    """`amd-smi topology` with bandwidths, as kernels that know them print it."""
    bus = MI250X_BUS

    def bandwidth(i, j):
        links = mi250x_links(i, j)
        return "N/A" if i == j else f"50000-{links * 50000}" if links else "0-0"

    return (
        amd_smi_table("ACCESS TABLE", bus, lambda i, j: "ENABLED")
        + amd_smi_table("WEIGHT TABLE", bus, mi250x_weight)
        + amd_smi_table("HOPS TABLE", bus, lambda i, j: int(i != j))
        + amd_smi_table("LINK TYPE TABLE", bus, lambda i, j: "SELF" if i == j else "XGMI")
        + amd_smi_table("NUMA BW TABLE", bus, bandwidth)
        + amd_smi_table("CACHE COHERANCY TABLE", bus, lambda i, j: "SELF" if i == j else "NC")
        + amd_smi_table("ATOMICS TABLE", bus, lambda i, j: "SELF" if i == j else "64,32")
        + "Legend:\n  SELF = Current GPU\n  ENABLED / DISABLED = Link is enabled or disabled\n"
    )


def amd_smi_json(buses, weight, kind, *, bandwidth="50000-50000"):
    return json.dumps(
        [
            {
                "gpu": i,
                "bdf": bus,
                "links": [
                    {
                        "gpu": j,
                        "bdf": other,
                        "weight": weight(i, j),
                        "link_status": "ENABLED",
                        "link_type": "SELF" if i == j else kind(i, j),
                        "num_hops": int(i != j),
                        "bandwidth": "N/A" if i == j else bandwidth,
                    }
                    for j, other in enumerate(buses)
                ],
            }
            for i, bus in enumerate(buses)
        ],
        indent=4,
    )


def xpu_smi(cards, tiles, cell, cpus):
    """`xpu-smi topology -m`; `cell` of tile numbers over all cards."""
    names = [f"GPU {c}/{t}" for c in range(cards) for t in range(tiles)]
    text = " " * 9 + "".join(f"{n:<9}" for n in names) + "CPU Affinity\n"
    for i, name in enumerate(names):
        row = "".join(f"{'S' if i == j else cell(i, j):<9}" for j in range(len(names)))
        text += f"{name:<9}{row}{cpus[i // tiles]}\n"
    return text


def max1550(i, j):
    """Two cards of two stacks: MDF inside, Xe Link between stacks of one number, else both."""
    if i // 2 == j // 2:
        return "MDF"
    return "XL16" if i % 2 == j % 2 else "XL*"


class KfdMachine:
    """KFD's nodes of a machine: CPU nodes first, GPUs after them."""

    def __init__(self, cpus=2):
        self.properties = [{"cpu_cores_count": 48, "simd_count": 0} for _ in range(cpus)]
        self.links = [[] for _ in range(cpus)]
        self.cpus = cpus
        for a in range(cpus):
            for b in range(cpus):
                if a != b:
                    self.link(a, b, kind=1, weight=32, most=0)

    def gpu(self, location, *, gfx, device, cpu, kind=2, weight=20, most=64000):
        """A GPU or partition near a CPU node; returns its node."""
        node = len(self.properties)
        self.properties.append({
            "cpu_cores_count": 0, "simd_count": 304, "gfx_target_version": gfx,
            "vendor_id": 4098, "device_id": device, "location_id": location, "domain": 0,
            "drm_render_minor": 126 + node, "unique_id": 1000 + (location >> 3),
        })  # fmt: skip
        self.links.append([])
        self.link(cpu, node, kind=kind, weight=weight, most=most)
        self.link(node, cpu, kind=kind, weight=weight, most=most)
        return node

    def link(self, a, b, *, kind, weight, most, least=0):
        self.links[a].append({
            "type": kind, "node_from": a, "node_to": b, "weight": weight,
            "min_bandwidth": least, "max_bandwidth": most,
        })  # fmt: skip

    def xgmi(self, a, b, *, weight=15, most=0, least=0):
        """Both directions."""
        for i, j in ((a, b), (b, a)):
            self.link(i, j, kind=11, weight=weight, most=most, least=least)

    def files(self):
        """Path below `nodes` and content of each file."""
        found = {}
        for node, properties in enumerate(self.properties):
            text = "".join(f"{key} {value}\n" for key, value in properties.items())
            found[f"{node}/properties"] = text
            for number, link in enumerate(self.links[node]):
                body = "".join(f"{key} {value}\n" for key, value in link.items())
                found[f"{node}/io_links/{number}/properties"] = body
        return found

    def text(self):
        """Blocks as `head` prints them."""
        return "".join(f"==> nodes/{p} <==\n{body}\n" for p, body in self.files().items())

    def grep(self):
        """As `grep -r .` prints them."""
        base = "/sys/class/kfd/kfd/topology/nodes"
        return "".join(
            f"{base}/{p}:{line}\n" for p, body in self.files().items() for line in body.splitlines()
        )


def kfd_mi250x():
    """Four MI250X: xGMI to the CPU as well, bandwidths stated."""
    machine = KfdMachine(cpus=4)
    for i, bus in enumerate(MI250X_BUS):
        machine.gpu(int(bus[5:7], 16) << 8, gfx=90010, device=0x7408, cpu=(3, 1, 0, 2)[i // 2],
                    kind=11, weight=13, most=36000)  # fmt: skip
    for i in range(8):
        for j in range(i + 1, 8):
            links = mi250x_links(i, j)
            machine.xgmi(4 + i, 4 + j, weight=15 if links else 30, most=links * 50000, least=50000)
    return machine


def kfd_mi300x(parts):
    """Eight MI300X in `parts` partitions each (SPX 1, DPX 2, QPX 4, CPX 8)."""
    machine = KfdMachine(cpus=2)
    nodes = []
    for board, bus in enumerate(MI300X_BUS):
        for part in range(parts):
            node = machine.gpu(int(bus[5:7], 16) << 8 | part, gfx=90402, device=0x74A1,
                               cpu=board // 4)  # fmt: skip
            nodes.append((node, board))
    for i, (a, board) in enumerate(nodes):
        for b, other in nodes[i + 1 :]:
            if board == other:
                machine.xgmi(a, b, weight=13, most=819200)
            else:
                machine.xgmi(a, b, weight=15 if parts == 1 else 41, most=64000 if parts == 1 else 0)
    return machine


def kfd_mi300a(parts):
    """Four MI300A (TPX: three partitions each): no PCIe between CPU and GPU."""
    machine = KfdMachine(cpus=4)
    nodes = []
    for board in range(4):
        for part in range(parts):
            node = machine.gpu((board + 1) << 8 | part, gfx=90402, device=0x74A0, cpu=board,
                               kind=11, weight=13, most=0)  # fmt: skip
            nodes.append((node, board))
    for i, (a, board) in enumerate(nodes):
        for b, other in nodes[i + 1 :]:
            inside = board == other
            machine.xgmi(a, b, weight=13 if inside else 15 if parts == 1 else 41,
                         most=819200 if inside else 128000)  # fmt: skip
    return machine
