"""A machine that is not there, from a text: `cases/live.txt`, and what tests of discovery ask.

A line is a statement. A path of PCI is the ids of functions from the root port to its end; the
bridges above an end need no line of their own. `K=V` are arguments of FakeSysfs and of FakeGpu.

    node N CPUS PACKAGE          a memory node
    cores N FIRST LAST           every N CPUS from FIRST to LAST are threads of one core
    pci PATH VENDOR CLASS K=V    a function; lines below may say what it has:
    infiniband NAME              an adapter; also `net`, `cxi`
    has FILE TEXT                a file of the function; `is FILE TARGET`, a link
    sys FILE TEXT                a file of sysfs; `link FILE TARGET`, `gone FILE`, `folder FILE`
    kfd N K=V; io N M K=V        a node of KFD, its link to node M
    dev NAME                     a device node; where none is told, none is looked for
    gpu BUS K=V                  the next GPU of NVML
    gpu N K=V                    more of this one, of all where N is `*`
    lanes N COUNT KIND TO        NVLinks of a GPU, or of all (`*`), to the GPU TO and back, or to a
                                 bus id: of a `switch`, a `cpu`, or what number KIND stands for
    alone N                      it has no NVLinks
    only N ...                   NVML shows no others
    apart SIZE=DISTANCE ...      common ancestors of GPUs whose numbers lie in one group of SIZE
    absent, refuses FUNCTION, loses FUNCTION ARGUMENTS, peers STATUS    what NVML says
"""

import shlex
from ast import literal_eval
from shutil import rmtree

from tests.topology.live import fake_machine as fake
from toposeat.topology import discover_this

VENDORS = {
    "nvidia": fake.NVIDIA, "amd": fake.AMD, "mellanox": fake.MELLANOX, "plx": fake.PLX,
    "intel": fake.INTEL,
}  # fmt: skip
CLASSES = {
    "gpu": fake.GPU_CLASS, "nic": fake.NIC_CLASS, "bridge": fake.BRIDGE_CLASS,
    "display": "0x038000", "vga": "0x030000", "accelerator": "0x120000", "ethernet": "0x020000",
}  # fmt: skip
REMOTE = {"gpu": 0, "cpu": 1, "switch": 2}  # NVML's types of what a lane leads to


def discovered(folder, text, **options):
    """What discovery finds of the machine of this text, whose files are written to a folder."""
    dev = folder / "dev"
    nvml = MachineOfText(folder, text).nvml
    where = {"sysfs": folder, "dev": dev if dev.is_dir() else None, "nvml": nvml, **options}
    return discover_this(host="node07", **where)


class MachineOfText:
    """Does what the lines of a text say, each by the method of its first word."""

    def __init__(self, folder, text):
        self.sysfs, self.nvml, self.function = fake.FakeSysfs(folder), fake.FakeNvml(), ""
        for line in text.splitlines():
            word, *rest = shlex.split(line, comments=True) or ["nothing"]
            getattr(self, f"_{word}")(*rest)

    def _nothing(self):
        pass

    def _node(self, number, cpus, package):
        self.sysfs.numa(int(number), cpus, int(package))

    def _cores(self, threads, first, last):
        for cpu in range(int(first), int(last) + 1):
            core = cpu - cpu % int(threads)
            path = f"devices/system/cpu/cpu{cpu}/topology/thread_siblings_list"
            self.sysfs.write(path, f"{core}-{core + int(threads) - 1}")

    def _pci(self, path, vendor, kind, *options):
        *bridges, end = [full(each) for each in path.split("/")]
        above, options = f"pci{(bridges or [end])[0][:-5]}", values(options)
        for at, bridge in enumerate(bridges):
            above += f"/{bridge}"
            if not (self.sysfs.root / "devices" / above).exists():
                maker = fake.PLX if at else fake.INTEL
                node = options.get("node", -1)
                self.sysfs.pci(above, vendor=maker, pci_class=fake.BRIDGE_CLASS, node=node)
        self.function = f"{above}/{end}"
        vendor, kind = VENDORS.get(vendor, vendor), CLASSES.get(kind, kind)
        self.sysfs.pci(self.function, vendor=vendor, pci_class=kind, **options)

    def _adapter(self, kind, name):
        self.sysfs.adapter(kind, name, self.function)

    def _infiniband(self, name):
        self._adapter("infiniband", name)

    def _net(self, name):
        self._adapter("net", name)

    def _cxi(self, name):
        self._adapter("cxi", name)

    def _has(self, path, text):
        self._sys(f"devices/{self.function}/{path}", text)

    def _is(self, path, target):
        self._link(f"devices/{self.function}/{path}", target)

    def _sys(self, path, text):
        self.sysfs.write(path, text)

    def _link(self, path, target):
        path = self.sysfs.root / path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.symlink_to(target)

    def _gone(self, path):
        path = self.sysfs.root / path
        rmtree(path) if path.is_dir() else path.unlink()

    def _folder(self, path):
        (self.sysfs.root / path).mkdir(parents=True)

    def _kfd(self, number, *options):
        properties = {"simd_count": 0, **values(options)}
        base = f"class/kfd/kfd/topology/nodes/{number}"
        self.sysfs.write(f"{base}/properties", in_lines(properties))
        self.sysfs.write(f"{base}/name", "aldebaran" if properties["simd_count"] else "")

    def _io(self, node, to, *options):
        path = f"class/kfd/kfd/topology/nodes/{node}/io_links/{to}/properties"
        link = {"node_from": node, "node_to": to, **values(options)}
        self.sysfs.write(path, in_lines(link))

    def _dev(self, name):
        self.sysfs.write(f"dev/{name}", "")

    def _gpu(self, which, *options):
        if ":" in which:
            self.nvml.gpus.append(fake.FakeGpu(full(which)))
            which = "-1"
        for gpu in self._gpus(which):
            for name, value in values(options).items():
                assert hasattr(gpu, name), name
                setattr(gpu, name, value)

    def _gpus(self, which):
        return self.nvml.gpus if which == "*" else [self.nvml.gpus[int(which)]]

    def _lanes(self, which, count, kind, to):
        remote = REMOTE.get(kind) if kind in REMOTE else int(kind)
        other = self.nvml.gpus[int(to)] if kind == "gpu" else None
        for gpu in self._gpus(which):
            gpu.links += [(other.pci if other else full(to), remote)] * int(count)
            if other:
                other.links += [(gpu.pci, remote)] * int(count)

    def _alone(self, which):
        for gpu in self._gpus(which):
            gpu.links = []

    def _only(self, *numbers):
        self.nvml.gpus = [self.nvml.gpus[int(each)] for each in numbers]

    def _apart(self, *groups):
        distances = {int(size): at for size, at in values(groups).items()}

        def distance(i, j):
            return next((at for n, at in distances.items() if i // n == j // n), 50)

        self.nvml.distance = distance

    def _absent(self):
        self.nvml.present = False

    def _refuses(self, function):
        self.nvml.unsupported.add(function)

    def _loses(self, function, *arguments):
        self.nvml.lost.append((function, *map(int, arguments)))

    def _peers(self, status):
        self.nvml.peer_status = lambda i, j: int(status)


def full(bus):
    """A bus id with its domain."""
    return bus if bus.count(":") > 1 else f"0000:{bus}"


def in_lines(properties):
    """Properties as KFD's files have them."""
    return "\n".join(f"{name} {value}" for name, value in properties.items())


def values(options):
    """Options by their names: what reads as a value of Python is one."""
    found = {}
    for option in options:
        name, _, text = option.partition("=")
        try:
            found[name] = literal_eval(text)
        except (ValueError, SyntaxError):
            found[name] = text
    return found
