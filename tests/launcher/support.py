"""Starting toposeat-exec in an environment made for one test."""

import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tests.support.processes import LONGEST_S

PROGRAMS = Path(__file__).parent / "programs"
PCI = ("0000:1a:00.0", "0000:3d:00.0", "0000:88:00.0", "0000:b1:00.0")
UUID = ("GPU-aaaa1111", "GPU-bbbb2222", "GPU-cccc3333", "GPU-cccc4444")
COLUMNS = "rank\thost\tlocal_rank\tpci\tuuid\tindex\tcpus\tmemnode\tnic"


def seat_line(rank, index, *, host="*", local_rank=None, uuid=None, cpus="-", node="-", nic="-"):
    """One line of the table; the device is number `index` of the four of these tests."""
    own = rank if local_rank is None else local_rank
    cells = (rank, host, own, PCI[index], uuid or UUID[index], index, cpus, node, nic)
    return "\t".join(str(cell) for cell in cells)


def placement_text(seats, *, vendor="nvidia", devices=None, hosts=("*",)):
    """A placement on hosts with four devices."""
    listed = devices or ",".join(f"{i}={PCI[i]}={UUID[i]}" for i in range(4))
    lines = ["# toposeat/placement/1", f"# vendor: {vendor}"]
    lines += [f"# devices {host}: {listed}" for host in hosts]
    return "\n".join([*lines, COLUMNS, *seats]) + "\n"


def node_tree(root, *, nics=None, interfaces=None, devices=None):
    """A made /sys, and the environment in which toposeat-exec looks there.

    Args:
        root: a folder that it is made in.
        nics: state and rate of the only port, by name of the adapter: ("4: ACTIVE", "200 Gb/sec").
        interfaces: operstate by name; a node without any tells nothing of them.
        devices: CPUs of PCI devices by bus id; the four of these tests by default.
    """
    for name, (state, rate) in (nics or {}).items():
        port = root / f"sys/class/infiniband/{name}/ports/1"
        port.mkdir(parents=True)
        (port / "state").write_text(f"{state}\n")
        (port / "rate").write_text(f"{rate}\n")
        (port / "link_layer").write_text("InfiniBand\n")
    for name, state in {"lo": "unknown", **(interfaces or {})}.items():
        (root / f"sys/class/net/{name}").mkdir(parents=True)
        (root / f"sys/class/net/{name}/operstate").write_text(f"{state}\n")
    for pci, cpus in (devices or dict.fromkeys(PCI, "0")).items():
        (root / f"sys/bus/pci/devices/{pci}").mkdir(parents=True)
        (root / f"sys/bus/pci/devices/{pci}/local_cpulist").write_text(f"{cpus}\n")
        (root / f"sys/bus/pci/devices/{pci}/numa_node").write_text("-1\n")
    return {"TOPOSEAT_SYSROOT": str(root)}


def build_programs(folder, compiler):
    """Compile the stand-in CUDA driver, applications, and a private MPI library into `folder`."""

    def build(name, source, *flags):
        line = [compiler, "-o", folder / name, PROGRAMS / source, *flags, "-ldl"]
        subprocess.run(line, check=True)

    shared = ("-shared", "-fPIC")
    build("libcuda.so.1", "driver.c", *shared)
    build("application", "application.c")
    build("starter", "starter.c")
    build("libmpi.so", "mpi.c", *shared, "-Wl,-soname,libmpi.so")
    linked = (f"-L{folder}", "-lmpi", f"-Wl,-rpath,{folder}")
    build("plugin.so", "plugin.c", *shared, *linked)
    build("host", "host.c")
    build("direct", "plugin.c", "-DDIRECT", *linked)


@dataclass(frozen=True)
class Outcome:
    """What one start of toposeat-exec did."""

    code: int
    stdout: str
    stderr: str

    @property
    def warnings(self):
        return [line for line in self.stderr.splitlines() if ": warning: " in line]

    @property
    def variables(self):
        """The environment, if the program was `env -0`."""
        pairs = (entry.partition("=") for entry in self.stdout.split("\0") if entry)
        return {name: value for name, _, value in pairs}

    def report(self, folder, rank=0):
        """The seat report that the rank left in `folder`."""
        found = {}
        for line in (folder / f"rank-{rank}.seat").read_text().splitlines()[1:]:
            key, _, value = line.partition("\t")
            found.setdefault(key, []).append(value)
        return found


@dataclass(frozen=True)
class Exec:
    """toposeat-exec with a clean environment: nothing of this process but PATH."""

    program: Path
    folder: Path
    base: Mapping[str, str] = field(default_factory=dict)

    def place(self, text):
        path = self.folder / "app.place"
        path.write_text(text)
        return path

    def run(self, *arguments, env=None, check=True):
        variables = {"PATH": os.environ["PATH"], **self.base, **(env or {})}
        done = subprocess.run(
            [str(self.program), *map(str, arguments)],
            env=variables,
            capture_output=True,
            timeout=LONGEST_S,
            check=False,
        )
        outcome = Outcome(
            done.returncode, done.stdout.decode(), done.stderr.decode(errors="replace")
        )
        if check:
            assert outcome.code == 0, outcome.stderr
        return outcome

    def variables(self, text, *options, rank=0, env=None, check=True):
        """Seat `rank` of a job that MPICH started, and show what its program sees."""
        ranks = len(text[text.index("\nrank\thost") :].strip().splitlines()) - 1
        job = {"PMI_RANK": str(rank), "PMI_SIZE": str(ranks), "MPI_LOCALRANKID": str(rank)}
        line = ("-m", self.place(text), *options, "env", "-0")
        return self.run(*line, env={**job, **(env or {})}, check=check)
