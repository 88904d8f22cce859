"""CPU set, memory policy and NIC variables, read back by the kernel's own account."""

import os
import re
import subprocess
from pathlib import Path

import pytest

from tests.launcher.support import PCI, UUID, node_tree, placement_text, seat_line
from tests.support.tables import rows, variables

NICS = Path(__file__).with_name("nics.txt")
CPUS = sorted(os.sched_getaffinity(0))
STATUS = ("grep", "Cpus_allowed_list", "/proc/self/status")
needs_two_cpus = pytest.mark.skipif(len(CPUS) < 2, reason="this process may use one CPU only")


def allowed(stdout):
    return stdout.split()[1]


@needs_two_cpus
@pytest.mark.parametrize("cpu", CPUS[:2])
def test_the_program_runs_on_the_cpus_of_its_seat(launcher, cpu):
    text = placement_text([seat_line(0, 0, cpus=str(cpu))])
    done = launcher.run("-m", launcher.place(text), *STATUS)
    assert allowed(done.stdout) == str(cpu)
    assert done.stderr == ""


@needs_two_cpus
def test_a_cpu_set_is_never_widened(launcher, exec_program):
    text = placement_text([seat_line(0, 0, cpus=f"{CPUS[0]}-{CPUS[1]}")])
    place = str(launcher.place(text))
    line = ["taskset", "-c", str(CPUS[1]), str(exec_program), "-m", place, *STATUS]
    done = subprocess.run(line, capture_output=True, text=True, check=True)
    assert allowed(done.stdout) == str(CPUS[1])
    assert "may use only some" in done.stderr


@needs_two_cpus
def test_cpus_that_were_taken_away_are_said_and_left_alone(launcher, exec_program):
    place = str(launcher.place(placement_text([seat_line(0, 0, cpus=str(CPUS[0]))])))
    line = ["taskset", "-c", str(CPUS[1]), str(exec_program), "-m", place]
    done = subprocess.run([*line, *STATUS], capture_output=True, text=True, check=True)
    assert allowed(done.stdout) == str(CPUS[1])
    assert f"CPUs {CPUS[0]} are not among those this process may use ({CPUS[1]})" in done.stderr
    strict = subprocess.run([*line, "--strict", *STATUS], capture_output=True, check=False)
    assert strict.returncode == 98


def test_cpus_this_machine_does_not_have_are_said(launcher):
    text = placement_text([seat_line(0, 0, cpus="8000-8191")])
    done = launcher.run("-m", launcher.place(text), *STATUS)
    assert "CPUs 8000-8191 are not among those" in done.warnings[0]


def test_a_seat_without_cpus_leaves_them_alone(launcher):
    done = launcher.run("-m", launcher.place(placement_text([seat_line(0, 0)])), *STATUS)
    own = Path("/proc/self/status").read_text()
    assert f"Cpus_allowed_list:\t{allowed(done.stdout)}\n" in own
    assert done.stderr == ""


# ---- cpu-only: ranks move to where the device they will pick is ----


@needs_two_cpus
def test_cpu_only_takes_the_cpus_of_the_device_that_the_program_counts(launcher):
    first, second = CPUS[:2]
    seats = [seat_line(0, 1, cpus=str(first)), seat_line(1, 0, cpus=str(second))]
    place = launcher.place(placement_text(seats))
    for rank, cpu in ((0, second), (1, first)):
        env = {"PMI_RANK": str(rank), "PMI_SIZE": "2", "MPI_LOCALRANKID": str(rank)}
        done = launcher.run("-m", place, "--visibility", "cpu-only", *STATUS, env=env)
        assert allowed(done.stdout) == str(cpu)
        assert f"this rank will use device {PCI[rank]}, not {PCI[1 - rank]}" in done.warnings[0]


@needs_two_cpus
def test_cpu_only_with_devices_in_order_is_silent(launcher):
    seats = [seat_line(0, 0, cpus=str(CPUS[0])), seat_line(1, 1, cpus=str(CPUS[1]))]
    env = {"PMI_RANK": "1", "PMI_SIZE": "2", "MPI_LOCALRANKID": "1"}
    place = launcher.place(placement_text(seats))
    done = launcher.run("-m", place, "--visibility", "cpu-only", *STATUS, env=env)
    assert (allowed(done.stdout), done.stderr) == (str(CPUS[1]), "")


# ---- memory policy ----


def memory_policy_allowed():
    """Whether a child may set its policy (containers without CAP_SYS_NICE may not)."""
    code = "import ctypes; raise SystemExit(ctypes.CDLL(None).syscall(238, 0, None, 0) != 0)"
    return os.uname().machine == "x86_64" and os.system(f"python3 -c '{code}'") == 0


needs_policy = pytest.mark.skipif(
    not memory_policy_allowed() or not Path("/sys/devices/system/node/node0").is_dir(),
    reason="set_mempolicy is forbidden here, or there are no NUMA nodes",
)


@pytest.fixture
def policy(launcher):
    """Seats a rank and gives back the policy that its report read back, and the warnings."""

    def seat(node, *options):
        place = launcher.place(placement_text([seat_line(0, 0, node=node)]))
        folder = launcher.folder / "reports"
        folder.mkdir(exist_ok=True)
        done = launcher.run("-m", place, *options, "--report", folder, "true")
        return [done.report(folder)["memory_policy"][0], *done.warnings]

    return seat


@needs_policy
@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ((), "preferred:0"),
        (("--memory-policy", "bind"), "bind:0"),
        (("--memory-policy=none",), "default"),
    ],
)
def test_memory_is_taken_from_the_node_of_the_seat(policy, options, expected):
    assert policy("0", *options) == [expected]


@needs_policy
def test_the_program_inherits_the_policy(launcher):
    place = launcher.place(placement_text([seat_line(0, 0, node="0")]))
    code = (
        "import ctypes, os\n"
        "mode, nodes = ctypes.c_int(), (ctypes.c_ulong * 16)()\n"
        "call = ctypes.CDLL(None).syscall\n"
        "assert call(239, ctypes.byref(mode), nodes, 1024, 0, 0) == 0\n"
        "print(mode.value, nodes[0])"
    )
    done = launcher.run("-m", place, "python3", "-c", code)
    assert done.stdout == "1 1\n"  # MPOL_PREFERRED, node 0


def test_a_node_that_does_not_exist_is_said(policy):
    found = policy("1023")
    assert "NUMA node 1023 does not exist here" in found[1]


# ---- NIC ----


NIC_VARIABLES = {
    *("UCX_NET_DEVICES", "PSM3_NIC", "MPICH_OFI_NIC_POLICY", "MPICH_OFI_NIC_MAPPING"),
    *("MPICH_OFI_NUM_NICS", "MPIR_CVAR_CH4_OFI_PREF_NIC", "I_MPI_MULTIRAIL"),
    *("HFI_UNIT", "FI_OPX_HFI_SELECT", "FI_TCP_IFACE", "NCCL_IB_HCA"),
    *("FI_CXI_DEVICE_NAME", "FI_EFA_IFACE", "FI_VERBS_DEVICE_NAME", "FI_VERBS_IFACE"),
}
CRAY = "MPICH_OFI_NIC_POLICY=USER I_MPI_MULTIRAIL=1"


def node_of(cell, root):
    """The environment of a node with these NICs."""
    states = variables(cell)
    interfaces = {name: state for name, state in states.items() if re.match("lo|ens|hsn", name)}
    ports = {
        name: ("1: DOWN", "100 Gb/sec (1X NDR)")
        if state == "down"
        else ("4: ACTIVE", f"{state} Gb/sec (4X)")
        for name, state in states.items()
        if name not in interfaces
    }
    root.mkdir()
    if not states:
        return {"TOPOSEAT_SYSROOT": str(root)}
    return node_tree(root, nics=ports, interfaces=interfaces)


@pytest.mark.parametrize(("seats", "node", "given", "expected", "said"), rows(NICS, "nics"))
def test_libraries_are_pointed_at_the_nic(
    *, launcher, tmp_path, seats, node, given, expected, said
):
    env = {**node_of(node, tmp_path / "tree"), **variables(given)}
    text = placement_text([seat_line(i, i, nic=nic) for i, nic in enumerate(seats.split(","))])
    options = [] if said.startswith("warning") else ["--strict"]  # nothing is in its way
    done = launcher.variables(text, *options, env=env)
    found = {name: done.variables[name] for name in NIC_VARIABLES & set(done.variables)}
    expected = variables(expected.replace("CRAY", CRAY))
    assert found == {name: text.replace(r"\s", " ") for name, text in expected.items()}
    kind, _, words = said.partition(": ")
    assert [line.partition("rank 0: ")[2] for line in done.warnings] == [words] * (
        kind == "warning"
    )
    assert words in done.stderr if kind != "-" else not done.stderr


def test_cray_mpich_gets_the_table_of_the_ranks_own_host(launcher, tmp_path):
    here = os.uname().nodename
    seats = [seat_line(i, i, host=here, nic=nic) for i, nic in enumerate(("cxi1", "cxi0"))]
    seats += [seat_line(2, 0, host="elsewhere", local_rank=0, nic="cxi3")]
    env = node_of("hsn0=up hsn1=up hsn3=up", tmp_path / "tree")
    text = placement_text(seats, hosts=(here, "elsewhere"))
    for rank in (0, 1):
        found = launcher.variables(text, rank=rank, env=env).variables
        assert found["MPICH_OFI_NIC_MAPPING"] == "0:1; 1:0"


@pytest.mark.skipif(
    not Path("/sys/devices/system/node/node0/cpulist").exists(), reason="no NUMA nodes here"
)
def test_cray_mpich_picks_by_numa_node_where_a_neighbours_nic_is_not_known(launcher, tmp_path):
    cpu = Path("/sys/devices/system/node/node0/cpulist").read_text().strip().split("-")[0]
    if not cpu.isdigit() or int(cpu) not in CPUS:
        pytest.skip("the first CPU of node 0 is not for this process")
    text = placement_text([seat_line(0, 0, nic="cxi0", cpus=cpu), seat_line(1, 1)])
    found = launcher.variables(text, env=node_of("hsn0=up", tmp_path / "tree")).variables
    assert found["MPICH_OFI_NIC_POLICY"] == "NUMA"
    assert "MPICH_OFI_NIC_MAPPING" not in found


# ---- the seat follows the device ----


def bound(launcher, text, *options, **variables):
    env = {"PMI_RANK": "0", "PMI_SIZE": "2", "MPI_LOCALRANKID": "0", **variables}
    done = launcher.run("-m", launcher.place(text), *options, *STATUS, env=env)
    return allowed(done.stdout), done


@needs_two_cpus
@pytest.mark.parametrize("listed", ["1", UUID[1], "1,3", f"{UUID[1]},{UUID[3]}"])
@pytest.mark.parametrize("mode", ["permute", "mask", "rotate", "cpu-only"])
def test_cpus_are_those_of_the_device_that_an_inherited_list_leaves(launcher, mode, listed):
    """As `srun --gpus-per-task=1` does: placed on device 0, given device 1."""
    first, second = map(str, CPUS[:2])
    text = placement_text([seat_line(0, 0, cpus=first), seat_line(1, 1, cpus=second)])
    order = {"CUDA_VISIBLE_DEVICES": listed, "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
    assert bound(launcher, text, "--visibility", mode, **order)[0] == second


@needs_two_cpus
def test_a_device_that_nobody_is_placed_on_has_the_cpus_that_the_kernel_tells(launcher, tmp_path):
    first, second = map(str, CPUS[:2])
    text = placement_text([seat_line(0, 0, cpus=first), seat_line(1, 1, cpus=first)])
    order = {"CUDA_VISIBLE_DEVICES": "3", "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
    tree = node_tree(tmp_path / "tree", devices={PCI[3]: second})
    cpus, done = bound(launcher, text, **order, **tree)
    assert cpus == second
    assert f"will use device {PCI[3]}, not {PCI[0]}, and gets the CPUs" in done.stderr
    cpus, done = bound(launcher, text, **order, TOPOSEAT_SYSROOT=str(tmp_path))
    assert "which CPUs are near it is not known" in done.stderr
    assert cpus not in (first, second)


@needs_two_cpus
def test_the_own_device_alone_is_the_seat_but_for_its_peers(launcher):
    first, second = map(str, CPUS[:2])
    text = placement_text([seat_line(0, 0, cpus=first), seat_line(1, 1, cpus=second)])
    order = {"CUDA_VISIBLE_DEVICES": "0", "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
    cpus, done = bound(launcher, text, **order)
    assert cpus == first
    assert "this rank has its own device all the same" in done.warnings[0]


@needs_two_cpus
def test_slices_that_the_placement_does_not_know_leave_cpus_alone(launcher):
    text = placement_text([seat_line(0, 0, cpus=str(CPUS[0])), seat_line(1, 1)])
    cpus, done = bound(launcher, text, CUDA_VISIBLE_DEVICES="MIG-11111111-2222")
    assert cpus not in map(str, CPUS[:2])
    assert "is none of the devices in the placement" in done.warnings[0]


def test_the_report_tells_what_is(launcher, tmp_path):
    folder = launcher.folder / "reports"
    folder.mkdir()
    text = placement_text([seat_line(0, 2, cpus=str(CPUS[0]), nic="mlx5_3")])
    done = launcher.run(
        *("-m", launcher.place(text), "--report", folder, "sh", "-c", "echo $$"),
        env={
            "PMI_RANK": "0",
            "PMI_SIZE": "1",
            "MPI_LOCALRANKID": "0",
            **node_of("mlx5_3=200", tmp_path / "tree"),
        },
    )
    report = done.report(folder)
    expected = {
        "rank": ["0"],
        "launcher": ["hydra"],
        "rank_source": ["PMI_RANK"],
        "local_rank_source": ["MPI_LOCALRANKID"],
        "seated": ["yes"],
        "visibility": ["permute"],
        "device_pci": ["0000:88:00.0"],
        "visible_devices": ["2"],
        "nic": ["UCX_NET_DEVICES=mlx5_3:1", "PSM3_NIC=mlx5_3"],
        "pid": [done.stdout.strip()],
        "host": [os.uname().nodename],
        "cpus": [str(CPUS[0])],
    }
    assert {key: report[key] for key in expected} == expected
    assert not [path for path in folder.iterdir() if path.name.startswith(".")]


def test_a_report_that_cannot_be_written_stops_nothing_but_strict(launcher):
    place = launcher.place(placement_text([seat_line(0, 0)]))
    gone = launcher.folder / "gone"
    done = launcher.run("-m", place, "--report", gone, "echo", "ran")
    assert done.stdout == "ran\n"
    assert "cannot write the report" in done.warnings[0]
    assert launcher.run("-m", place, "--report", gone, "--strict", "true", check=False).code == 98


def test_an_emulated_node_has_not_the_cpus_of_its_machine(launcher, tmp_path):
    place = launcher.place(placement_text([seat_line(0, 0, cpus="8000-8191", node="7", nic="ib0")]))
    emulated = {"TOPOSEAT_EMULATED_MACHINE": "k80", "MPI_LOCALRANKID": "0", "PMI_RANK": "0"}
    done = launcher.run("-m", place, "--report", tmp_path, "env", "-0", env=emulated)
    assert done.stderr.count("only its devices are applied") == 1
    assert done.warnings == []
    assert done.variables["CUDA_VISIBLE_DEVICES"] == "0"
    assert "nearby_rank" not in done.report(tmp_path)
    quiet = {**emulated, "TOPOSEAT_EMULATOR_QUIET": "1"}
    assert launcher.run("-m", place, "true", env=quiet).stderr == ""
