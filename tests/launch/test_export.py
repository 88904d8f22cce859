"""Launchers' own files: read back as each launcher documents them, and run where it is here."""

import os
import re
import shlex
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.mpi import ALL_MPI_NAMES, STANDARD
from tests.support.processes import executable, ran
from tests.support.tables import rows
from toposeat.errors import UsageError
from toposeat.launch import export_placement
from toposeat.model.cpu_list import parse_cpu_list
from toposeat.model.placement import HostDevice, Placement, Seat

pytestmark = pytest.mark.each_abi
LINES = Path(__file__).with_name("lines.txt")

SHOW = """#!/bin/sh
cpus=$(grep Cpus_allowed_list /proc/self/status | cut -f2)
rank=${OMPI_COMM_WORLD_RANK:-$PMI_RANK}
echo "rank=$rank cpus=$cpus list=${CUDA_VISIBLE_DEVICES-none} order=${CUDA_DEVICE_ORDER-none}"
"""


def placement(hosts, devices, cpus, *, vendor="nvidia"):
    """Rank r on `hosts[r]`, device `devices[r]`; every host has four devices on PCI buses."""
    used = {}
    seats = []
    for rank, host in enumerate(hosts):
        local = used.get(host, 0)
        used[host] = local + 1
        index = devices[rank]
        pci = f"0000:{index + 1:02x}:00.0"
        seats.append(
            Seat(
                rank=rank, host=host, local_rank=local, pci_bus_id=pci, index=index, cpus=cpus[rank]
            )
        )
    of_host = tuple(HostDevice(index=i, pci_bus_id=f"0000:{i + 1:02x}:00.0") for i in range(4))
    return Placement(
        seats=tuple(seats), devices_of_host=dict.fromkeys(used, of_host), vendor=vendor
    )


def file_of(export, name):
    return next(file.text for file in export.files if file.name == name)


BLOCKS = placement(
    ["n1", "n1", "n2", "n2"], [2, 0, 2, 0], ["0-3", "4-7", "0-3", "4-7"]
)  # the same on both hosts
# Launchers that number ranks node by node: tests/launch/test_export_nodes.py
BY_NODE = (*("torchrun", "torchrun-c10d", "kubernetes"),)
MIXED = placement(["n2", "n1", "n2", "n1"], [0, 1, 3, 2], ["0", "1", "2", "3"])


def with_nics(place, *nics):
    seats = zip(place.seats, nics, strict=True)
    return replace(place, seats=tuple(replace(seat, nic=nic) for seat, nic in seats))


AMD = placement(["n1", "n1"], [2, 0], ["0-3", "4-7"], vendor="amd")
INTEL = placement(["n1", "n1"], [1, 0], ["0", "1"], vendor="intel")
ANYWHERE = placement(["*"] * 2, [1, 3], [None] * 2, vendor="intel")
CROSSED = placement(["n1"] * 4, [3, 1, 2, 0], [None] * 4)
CXI = with_nics(BLOCKS, "cxi1", "cxi0", "cxi1", "cxi0")
SHOWN = {
    "blocks": (BLOCKS, "openmpi4 mpich slurm flux intel env torchrun script cray"),
    "blocks masked": (BLOCKS, "slurm flux"),
    "amd": (AMD, "env script"),
    "amd masked": (AMD, "flux"),
    "intel": (INTEL, "openmpi4"),
    "anywhere": (ANYWHERE, "env"),
    "crossed": (CROSSED, "env"),
    "slingshot": (CXI, "cray pals slurm flux intel"),
}


@pytest.mark.parametrize("name", SHOWN)
def test_what_is_written(name):
    """As in `exports/`; TOPOSEAT_UPDATE_GOLDEN=1 makes the files anew: look at each difference."""
    place, launchers = SHOWN[name]
    lines = []
    for launcher in launchers.split():
        how = "mask" if "masked" in name else "permute"
        export = export_placement(place, launcher, visibility=how)
        lines += [f"== {launcher}", export.line]
        lines += [f"environment {key}={value}" for key, value in export.environment.items()]
        for file in export.files:
            told = re.findall(r".*(?:devices|VISIBLE_DEVICES|like)=.*|.+:\d+\).*", file.text)
            text = told if file.name == "seat.sh" else file.text.splitlines()
            lines += [f"{file.name}: {line.strip()}" for line in text]
        lines += [f"note {note}" for note in export.notes]
    expected = Path(__file__).with_name("exports") / f"{name.replace(' ', '-')}.txt"
    if os.environ.get("TOPOSEAT_UPDATE_GOLDEN"):
        expected.write_text("\n".join(lines) + "\n")
    assert lines == expected.read_text().splitlines()


@pytest.mark.parametrize("launcher", ["openmpi", "openmpi4", "mpich", "slurm", "flux", "script"])
def test_nics_are_named_by_the_script(launcher, tmp_path):
    """Run by the shell, for each local rank; what the user set stays."""
    here = os.uname().nodename.partition(".")[0]
    place = placement([here] * 4, [0, 1, 2, 3], [None] * 4)
    nics = ("mlx5_2", "bond0", "NIC0", "mlx5_9")  # a label of nvidia-smi, and one of no NIC here
    export = export_placement(with_nics(place, *nics), launcher)
    assert "./seat.sh" in export.command
    for device in ("infiniband/mlx5_2", "net/bond0"):
        (tmp_path / device).mkdir(parents=True)
    script = tmp_path / "seat.sh"
    script.write_text(file_of(export, "seat.sh").replace("/sys/class", str(tmp_path)))

    def found(local, **variables):
        show = 'echo "${UCX_NET_DEVICES-none} ${PSM3_NIC-none}"'
        line = ["sh", str(script), "sh", "-c", show]
        env = {"PATH": os.environ["PATH"], "LOCAL_RANK": str(local), **variables}
        done = ran(line, env=env, check=True)
        assert ("mlx5_9 is not on" in done.stderr) is (local == 3)
        return done.stdout.split()

    none = ["none"] * 2
    assert [found(i) for i in range(4)] == [["mlx5_2:1", "mlx5_2"], ["bond0"] * 2, none, none]
    assert found(0, UCX_NET_DEVICES="mlx5_7:1") == ["mlx5_7:1", "mlx5_2"]


def test_nics_of_slingshot_are_in_the_table_of_cray_mpich():
    """As sites document it: adapter, colon, local ranks; one table for all hosts."""
    one = placement(["n1"] * 4, [0, 1, 2, 3], [None] * 4)
    for names, table in (
        ("cxi0 cxi0 cxi1 cxi1", "0:0,1; 1:2,3"),  # two ranks an adapter, as sites print it
        ("cxi3 cxi2 hsn1 hsi0", "0:3; 1:2; 2:1; 3:0"),  # the reversed one of Perlmutter
        ("cxi0 cxi0 cxi0 cxi10", None),
        ("cxi0 cxi0 cxi0 cxi0:1", None),
        ("cxi0 cxi0 cxi0 mlx5_0", None),
        ("cxi0 cxi0 cxi0 cxi", None),
    ):
        export = export_placement(with_nics(one, *names.split()), "cray")
        assert export.environment.get("MPICH_OFI_NIC_MAPPING") == table
    for nics in (("cxi1", "cxi0", "cxi0", "cxi1"), ("cxi1", "cxi0", "cxi1", None)):
        other = export_placement(with_nics(BLOCKS, *nics), "cray")
        assert "MPICH_OFI_NIC_POLICY" not in other.environment


@pytest.mark.parametrize(
    ("launcher", "hosts", "devices", "vendor", "visibility", "words"), rows(LINES, "not exported")
)
def test_what_a_launcher_cannot_express(*, launcher, hosts, devices, vendor, visibility, words):
    place = placement(hosts.split(), list(map(int, devices.split())), [None] * 9, vendor=vendor)
    with pytest.raises(UsageError, match=words) as error:
        export_placement(place, launcher, visibility=visibility)
    assert error.value.hint


@st.composite
def placements(draw):
    """Up to three hosts with one to four ranks each, in any order."""
    counts = draw(st.lists(st.integers(1, 4), min_size=1, max_size=3))
    names = draw(st.permutations(["n1", "n2", "n10"]))[: len(counts)]
    hosts = draw(st.permutations([n for n, c in zip(names, counts, strict=True) for _ in range(c)]))
    free = {name: draw(st.permutations(range(4))) for name in names}
    devices = [free[host][hosts[:rank].count(host)] for rank, host in enumerate(hosts)]
    cpu = st.sampled_from([None, "0", "1-2", "3,5"])
    return placement(list(hosts), devices, [draw(cpu) for _ in hosts])


def _seats_of_script(text):
    """Device list and CPUs by `host:local rank`."""
    found = {}
    for line in text.splitlines():
        match = re.fullmatch(r"(\S+:\d+)\) (.*) ;;", line)
        if match:
            words = dict(word.split("=", 1) for word in match[2].split() if word != ":")
            found[match[1]] = words.get("devices", ""), words.get("cpus", "")
    for names, like in re.findall(r"(?m)^(\S+)\) like=(\S+) ;;$", text.replace("\\\n", "")):
        own = {seat: of for seat, of in found.items() if seat.startswith(f"{like}:")}
        for name in names.split("|"):
            found |= {seat.replace(like, name, 1): of for seat, of in own.items()}
    return found


@given(place=placements())
@settings(max_examples=40)
def test_the_script_seats_every_rank(place):
    seats = _seats_of_script(file_of(export_placement(place, "script"), "seat.sh"))
    assert len(seats) == place.ranks
    for seat in place.seats:
        devices, cpus = seats[f"{seat.host}:{seat.local_rank}"]
        assert devices.split(",")[seat.local_rank] == str(seat.index)
        of_host = [str(each.index) for each in place.seats if each.host == seat.host]
        assert devices.split(",") == of_host
        assert cpus == (seat.cpus or "")


def two_cpus():
    cpus = sorted(os.sched_getaffinity(0))
    if len(cpus) < 2:
        pytest.skip("one CPU only: nothing to tell apart")
    return cpus[:2]


def launcher_of(mpi):
    """Which export suits an MPI."""
    if "I_MPI_ROOT" in mpi.env:
        return "intel"
    if mpi.family == "mpich":
        return "mpich"
    said = ran([mpi.mpirun, "--version"], env=mpi.env, check=True).stdout
    return "openmpi4" if re.search(r"\) 4\.", said) else "openmpi"


@pytest.mark.mpi
@pytest.mark.parametrize("mpi", [n for n in ALL_MPI_NAMES if STANDARD not in n], indirect=True)
def test_the_launcher_itself_obeys(mpi, tmp_path):
    """Two ranks with their CPUs exchanged, started by the very line that export prints."""
    first, second = two_cpus()
    place = placement(["*", "*"], [2, 0], [str(second), str(first)])
    launcher = launcher_of(mpi)
    export = export_placement(place, launcher, program="./show.sh")
    for name, text in [("show.sh", SHOW), *((file.name, file.text) for file in export.files)]:
        executable(tmp_path / name, text)
    line = [str(mpi.mpirun), *export.command[1:]]
    done = ran(["sh", "-c", shlex.join(line)], cwd=tmp_path, env={**mpi.env, **export.environment})
    assert done.returncode == 0, done.stderr
    found = {}
    for each in done.stdout.splitlines():
        words = dict(word.split("=", 1) for word in each.split())
        found[int(words["rank"])] = parse_cpu_list(words["cpus"])
        assert (words["list"], words["order"]) == ("2,0", "PCI_BUS_ID")
    assert found == {0: (second,), 1: (first,)}


def test_the_script_seats_by_host_name(tmp_path):
    """Run as each local rank of this host; one without a seat is started without it."""
    first, second = two_cpus()
    status = Path("/proc/self/status").read_text()
    allowed = next(x.split()[1] for x in status.splitlines() if x.startswith("Cpus_allowed_list"))
    here = os.uname().nodename.split(".")[0]
    place = placement([here, here, "elsewhere"], [3, 1, 0], [str(second), str(first), None])
    (tmp_path / "seat.sh").write_text(file_of(export_placement(place, "script"), "seat.sh"))
    (tmp_path / "show.sh").write_text(SHOW)
    found = []
    for local in ("0", "1", "2"):
        env = {"PATH": os.environ["PATH"], "SLURM_LOCALID": local, "PMI_RANK": local}
        done = ran(["sh", "seat.sh", "sh", "show.sh"], cwd=tmp_path, env=env)
        found.append((done.returncode, done.stdout.strip()))
        if local == "2":
            assert "warning: no seat for local rank '2'" in done.stderr
            assert done.stderr.count("\n") == 1
    assert found == [
        (0, f"rank=0 cpus={second} list=3,1 order=PCI_BUS_ID"),
        (0, f"rank=1 cpus={first} list=3,1 order=PCI_BUS_ID"),
        (0, f"rank=2 cpus={allowed} list=none order=none"),
    ]


def test_hosts_that_are_alike_are_written_once(tmp_path):
    """300 hosts of which one differs, as a shell reads them."""
    hosts = [f"n{at:03}" for at in range(300) for _ in range(2)]
    devices = [*([3, 1] * 299), 0, 1]
    export = export_placement(placement(hosts, devices, [None] * 600), "script")
    text = file_of(export, "seat.sh")
    assert len(text.splitlines()) < 50
    assert max(map(len, text.splitlines())) <= 120
    (tmp_path / "seat.sh").write_text(text)
    executable(tmp_path / "hostname", '#!/bin/sh\necho "$NAME.cluster.example"\n')
    for name, listed in (("n000", "3,1"), ("n157", "3,1"), ("n298", "3,1"), ("n299", "0,1")):
        env = {"PATH": f"{tmp_path}:/usr/bin:/bin", "NAME": name, "LOCAL_RANK": "1"}
        show = ["sh", "-c", "echo $CUDA_VISIBLE_DEVICES"]
        done = ran(["sh", "seat.sh", *show], cwd=tmp_path, env=env, check=True)
        assert (done.stdout, done.stderr) == (f"{listed}\n", "")


def test_cpus_that_a_rank_may_not_use_stop_nothing(tmp_path):
    far = max(os.sched_getaffinity(0)) + 1000
    export = export_placement(placement(["*"], [1], [str(far)]), "script")
    (tmp_path / "seat.sh").write_text(file_of(export, "seat.sh"))
    done = ran(
        ["sh", tmp_path / "seat.sh", "sh", "-c", "echo $CUDA_VISIBLE_DEVICES; exit 3"],
        env={"PATH": os.environ["PATH"], "SLURM_LOCALID": "0"},
    )
    assert (done.returncode, done.stdout) == (3, "1\n")
    assert (
        f"warning: cannot bind local rank 0 on {os.uname().nodename.split('.')[0]}" in done.stderr
    )
    assert str(far) in done.stderr
