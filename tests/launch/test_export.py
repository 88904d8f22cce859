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
from toposeat.errors import UsageError
from toposeat.launch import export_placement
from toposeat.launch.launchers.launcher import version_answer
from toposeat.model.cpu_list import parse_cpu_list
from toposeat.model.placement import HostDevice, Placement, Seat

pytestmark = pytest.mark.each_abi

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


def value_of(export, option):
    """What stands behind `option`, as a word of its own or after `=`."""
    for at, word in enumerate(export.command):
        if word == option:
            return export.command[at + 1]
        if word.startswith(option + "="):
            return word.partition("=")[2]
    raise AssertionError(f"no {option} in {export.command}")


BLOCKS = placement(
    ["n1", "n1", "n2", "n2"], [2, 0, 2, 0], ["0-3", "4-7", "0-3", "4-7"]
)  # the same on both hosts
# Launchers that number ranks node by node: tests/launch/test_export_nodes.py
BY_NODE = (*("torchrun", "torchrun-c10d", "kubernetes"),)
MIXED = placement(["n2", "n1", "n2", "n1"], [0, 1, 3, 2], ["0", "1", "2", "3"])


def test_openmpi_4_gets_physical_cpus_and_one_device_list():
    export = export_placement(BLOCKS, "openmpi4")
    assert file_of(export, "rankfile").splitlines() == [
        "rank 0=n1 slot=0-3",
        "rank 1=n1 slot=4-7",
        "rank 2=n2 slot=0-3",
        "rank 3=n2 slot=4-7",
    ]
    assert value_of(export, "--mca") == "rmaps_rank_file_physical"
    assert "CUDA_VISIBLE_DEVICES=2,0" in export.command


def test_slurm_blocks_and_masks():
    export = export_placement(BLOCKS, "slurm", visibility="mask")
    assert value_of(export, "--cpu-bind") == "mask_cpu:0xf,0xf0"
    assert value_of(export, "--gpu-bind") == "map_gpu:2,0"
    assert value_of(export, "-w") == "n[1-2]"
    assert not export.files
    assert any("allow-task-sharing" in note for note in export.notes)


def test_slurm_permutes_by_the_script_because_srun_sets_the_variable_itself():
    export = export_placement(BLOCKS, "slurm")
    assert export.command[-2:] == ("./seat.sh", "./app")
    assert "n1:1) devices=2,0 ;;" in file_of(export, "seat.sh")


def test_flux_lists_by_local_rank():
    export = export_placement(BLOCKS, "flux")
    assert "cpu-affinity=map:0-3;4-7" in export.command
    assert "--env=CUDA_VISIBLE_DEVICES=2,0" in export.command
    masked = export_placement(BLOCKS, "flux", visibility="mask")
    assert "gpu-affinity=map:2;0" in masked.command


def test_flux_masks_devices_of_amd_by_the_script():
    """Flux's own map sets CUDA_VISIBLE_DEVICES only."""
    amd = placement(["n1", "n1"], [2, 0], ["0-3", "4-7"], vendor="amd")
    export = export_placement(amd, "flux", visibility="mask")
    assert export.command[-4:] == ("-o", "gpu-affinity=off", "./seat.sh", "./app")
    assert "n1:0) devices=2 ;;" in file_of(export, "seat.sh")
    assert "export ROCR_VISIBLE_DEVICES=$devices" in file_of(export, "seat.sh")


def test_intel_masks_are_hexadecimal():
    export = export_placement(BLOCKS, "intel")
    assert value_of(export, "I_MPI_PIN_DOMAIN") == "[0xf,0xf0]"
    assert file_of(export, "machinefile") == "n1:2\nn2:2\n"


def test_one_line_of_variables_lists_the_devices_of_the_job_alone():
    """The line of issue 17; what the job does not use stays hidden from launchers that take all."""
    crossed = placement(["n1"] * 4, [3, 1, 2, 0], [None] * 4)
    export = export_placement(crossed, "env")
    assert export.line == "CUDA_DEVICE_ORDER=PCI_BUS_ID CUDA_VISIBLE_DEVICES=3,1,2,0"
    assert not export.notes
    both = export_placement(BLOCKS, "env")
    assert both.line == "CUDA_DEVICE_ORDER=PCI_BUS_ID CUDA_VISIBLE_DEVICES=2,0"
    assert any("every node alike" in note for note in both.notes)
    assert any("bind no CPUs" in note for note in both.notes)
    amd = placement(["*"] * 2, [1, 0], [None] * 2, vendor="amd")
    assert export_placement(amd, "env").line == "ROCR_VISIBLE_DEVICES=1,0"
    intel = placement(["*"] * 2, [1, 3], [None] * 2, vendor="intel")
    assert export_placement(intel, "env").line.endswith(" ZE_AFFINITY_MASK=1,3")


def with_nics(place, *nics):
    seats = zip(place.seats, nics, strict=True)
    return replace(place, seats=tuple(replace(seat, nic=nic) for seat, nic in seats))


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
    place = with_nics(BLOCKS, "cxi1", "cxi0", "cxi1", "cxi0")
    told = {"MPICH_OFI_NIC_POLICY": "USER", "MPICH_OFI_NIC_MAPPING": "0:1; 1:0"}
    for launcher in ("cray", "pals", "slurm"):
        assert told.items() <= export_placement(place, launcher).environment.items()
    pals = export_placement(place, "pals")
    assert "MPICH_OFI_NIC_MAPPING='0:1; 1:0' " in pals.line
    assert "./seat.sh" not in pals.command
    assert "--env=MPICH_OFI_NIC_MAPPING=0:1; 1:0" in export_placement(place, "flux").command
    assert value_of(export_placement(place, "intel"), "I_MPI_MULTIRAIL") == "1"
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
    ("launcher", "place", "visibility", "words"),
    [
        ("intel", placement(["a", "b", "b", "a"], [0, 0, 1, 1], [None] * 4), "permute", "no words"),
        # rounds of two and a last one of one rank: Hydra would begin the file anew
        ("intel", placement(list("aabbab"), [0, 1, 0, 1, 2, 2], [None] * 6), "permute", "no words"),
        ("env", MIXED, "permute", "different orders"),
        ("env", placement(["a", "a", "b"], [0, 1, 0], [None] * 3), "permute", "different orders"),
        ("env", BLOCKS, "mask", "whole node"),
        (
            "env",  # the specification of Level Zero: its order is not that of the mask
            placement(["a", "a"], [1, 0], [None] * 2, vendor="intel"),
            "permute",
            "Level Zero's own order",
        ),
        ("torchrun", MIXED, "permute", "consecutive ranks"),
        ("torchrun", BLOCKS, "mask", "cannot"),
        ("cray", placement(["a", "a", "b"], [0, 1, 2], [None] * 3), "permute", "different numbers"),
        ("openmpi", placement(["a", "a"], [1, 1], [None] * 2), "permute", "share a device"),
        ("lsf", BLOCKS, "permute", "no files for launcher"),
        ("slurm", BLOCKS, "sideways", "does not exist"),
    ],
)
def test_what_a_launcher_cannot_express(launcher, place, visibility, words):
    with pytest.raises(UsageError, match=words) as error:
        export_placement(place, launcher, visibility=visibility)
    assert error.value.hint


def test_vendors_without_an_order_get_cpus_only():
    export = export_placement(
        placement(["n1", "n1"], [1, 0], ["0", "1"], vendor="intel"), "openmpi4"
    )
    assert not any("VISIBLE" in word for word in export.command)
    assert any("no variable orders" in note for note in export.notes)
    amd = export_placement(placement(["*", "*"], [1, 0], [None] * 2, vendor="amd"), "script")
    assert "export ROCR_VISIBLE_DEVICES=$devices" in file_of(amd, "seat.sh")


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
    return "openmpi4" if re.search(r"\) 4\.", version_answer(mpi.mpirun)) else "openmpi"


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


def test_every_form_has_the_same_list(tmp_path):
    """Of a placement on half of the devices: what `run` shows too is that of toposeat-exec."""
    place = placement(["n1"] * 2, [2, 0], [None] * 2)
    lists = set()
    for launcher in ("env", "torchrun", "openmpi4", "mpich", "flux"):
        lists |= set(
            re.findall(r"VISIBLE_DEVICES[= ]([\d,]+)", export_placement(place, launcher).line)
        )
    for launcher in ("script", "slurm"):
        text = file_of(export_placement(place, launcher), "seat.sh")
        lists |= {listed for listed, _ in _seats_of_script(text).values()}
    assert lists == {"2,0"}


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
