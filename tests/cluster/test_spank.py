"""The Slurm plugin: `srun --toposeat=FILE` seats every task, and troubles nobody else."""

import sys
from pathlib import Path

import pytest

from tests.support.cluster import LOGIN
from toposeat import topology
from toposeat.errors import UnavailableError
from toposeat.installed import native_path
from toposeat.model.placement import HostDevice, Placement, Seat
from toposeat.model.placement_file import save_placement

MACHINE = "polaris-4"
NODES = ("tb1", "tb2", "tb3", "tb4")
# No blocks, no rounds, and devices in another order on every node.
NODE_OF_RANK = (3, 0, 2, 2, 1, 0, 3, 1, 0, 3, 1, 2, 2, 1, 0, 3)
DEVICES = ((2, 0, 3, 1), (1, 3, 2, 0), (0, 2, 1, 3), (3, 1, 0, 2))
NOBODY = "65534"

# The device that a program takes which counts devices itself.
SEES = """
import ctypes, os, socket
driver = ctypes.CDLL("libcuda.so.1")
device, context, text = ctypes.c_int(), ctypes.c_void_p(), ctypes.create_string_buffer(64)
assert driver.cuInit(0) == 0
local = int(os.environ["SLURM_LOCALID"]) if "," in os.environ["CUDA_VISIBLE_DEVICES"] else 0
assert driver.cuDeviceGet(ctypes.byref(device), local) == 0
assert driver.cuDeviceGetPCIBusId(text, 64, device) == 0
print(os.environ["SLURM_PROCID"], socket.gethostname(), text.value.decode().lower())
"""


@pytest.fixture(scope="module")
def plugin(cluster):
    """The file that makes Slurm load the plugin, in force for the tests of this file."""
    try:
        library = native_path("lib/toposeat_spank.so")
    except UnavailableError:
        pytest.skip("the plugin was not built: no headers of Slurm")
    stack = cluster.share / "plugstack.conf"
    stack.write_text(f"optional {library}\n")
    yield stack
    stack.unlink()


@pytest.fixture(scope="module")
def plan(cluster, plugin):
    """16 ranks on the nodes' CPUs 0 and 1; also the file `plan`, and `hosts` for srun."""
    ids = [str(device.pci_bus_id) for device in topology.read_topology(MACHINE).devices]
    seats = []
    for rank, node in enumerate(NODE_OF_RANK):
        local = NODE_OF_RANK[:rank].count(node)
        index = DEVICES[node][local]
        seats.append(
            Seat(
                rank=rank,
                host=NODES[node],
                local_rank=local,
                pci_bus_id=ids[index],
                index=index,
                cpus=str(local % 2),
                memory_node=0,
            )
        )
    devices = tuple(HostDevice(index=i, pci_bus_id=each) for i, each in enumerate(ids))
    placement = Placement(
        seats=tuple(seats), devices_of_host=dict.fromkeys(NODES, devices), vendor="nvidia"
    )
    save_placement(placement, cluster.share / "plan")
    (cluster.share / "host_of_task").write_text("".join(f"{seat.host}\n" for seat in seats))
    return placement


@pytest.fixture(scope="module")
def emulated(cluster):
    """An environment with the plan's GPUs, and with what an mpirun around srun may have left."""
    environment = cluster.emulated(MACHINE)
    del environment["CUDA_DEVICE_ORDER"]  # the plugin sets it
    return {**environment, "OMPI_COMM_WORLD_RANK": "7", "OMPI_COMM_WORLD_LOCAL_RANK": "7"}


def srun(cluster, *words, environment=None, cwd=None):
    """16 tasks, each on the node of the plan; srun says nothing of waiting for the nodes."""
    hosts = f"SLURM_HOSTFILE={cluster.share}/host_of_task"
    line = ["env", hosts, "srun", "--quiet", "-N4", "-n16", "-m", "arbitrary"]
    return cluster.on(LOGIN, [*line, *words], environment=environment, cwd=cwd)


@pytest.mark.parametrize("visibility", ["permute", "mask"])
def test_every_rank_sees_its_device(cluster, plan, emulated, visibility):
    options = ["--toposeat=plan", f"--toposeat-visibility={visibility}"]
    done = srun(cluster, *options, sys.executable, "-SEc", SEES, environment=emulated)
    assert (done.returncode, done.stderr) == (0, "")
    told = sorted((row.split() for row in done.stdout.splitlines()), key=lambda row: int(row[0]))
    assert told == [[str(seat.rank), seat.host, seat.pci_bus_id] for seat in plan.seats]


def test_every_rank_has_its_cpus_and_memory(cluster, plan):
    look = (
        "echo $SLURM_PROCID $(grep Cpus_allowed_list /proc/self/status)"
        " $(grep -c prefer[^:]*:0 /proc/self/numa_maps)"
    )
    done = srun(cluster, "--toposeat=plan", "sh", "-c", look)
    assert (done.returncode, done.stderr) == (0, "")
    told = {int(row.split()[0]): row.split()[2:] for row in done.stdout.splitlines()}
    assert {rank: row[0] for rank, row in told.items()} == {s.rank: s.cpus for s in plan.seats}
    assert all(int(row[1]) > 0 for row in told.values())


def test_a_job_that_does_not_ask_is_untouched(cluster, plan, plugin):
    line = ["srun", "-wtb1", "sh", "-c", "env; grep _allowed /proc/self/status; ulimit -a"]
    beside = cluster.on(LOGIN, line)
    aside = plugin.rename(plugin.with_name("aside"))
    without = cluster.on(LOGIN, line)
    aside.rename(plugin)
    for done in (beside, without):  # the second may wait for the first to leave its node
        said = [row for row in done.stderr.splitlines() if not row.startswith("srun: job ")]
        assert (done.returncode, said) == (0, [])

    def lines(text):
        # numbers of the job and of ports differ from job to job
        return sorted(
            row.partition("=")[0] if row.startswith("SLURM_") else row for row in text.splitlines()
        )

    assert lines(beside.stdout) == lines(without.stdout)


def test_a_damaged_placement_is_said_once_per_node(cluster, plan):
    whole = (cluster.share / "plan").read_text()
    (cluster.share / "damaged").write_text(whole.replace("local_rank", "local rank"))
    done = srun(cluster, "--toposeat=damaged", "hostname")
    assert done.returncode == 0
    assert sorted(done.stdout.split()) == sorted(seat.host for seat in plan.seats)
    warnings = sorted(done.stderr.splitlines())
    assert [row.partition(" damaged:")[0] for row in warnings] == [
        f"srun --toposeat: warning: {node}:" for node in NODES
    ]
    assert all(row.endswith("; started without placement") for row in warnings)


def test_strict_starts_no_task_that_is_not_as_placed(cluster, plan):
    options = ["--toposeat=plan", "--toposeat-strict"]
    assert srun(cluster, *options, "true").returncode == 0
    done = srun(cluster, "--toposeat=absent", "--toposeat-strict", "echo", "started")
    assert (done.returncode, done.stdout) == (98, "")
    assert done.stderr.count("not started: --toposeat-strict and 1 warning above") == len(NODES)
    elsewhere = cluster.on(LOGIN, ["srun", "-N1", "-n16", "-O", "-wtb1", *options, "true"])
    assert elsewhere.returncode == 98
    assert "rank 0: runs on host tb1 and is placed on host tb4" in elsewhere.stderr


def test_wrong_words_end_srun_before_anything_starts(cluster, plan):
    done = srun(cluster, "--toposeat=plan", "--toposeat-visibility=most", "echo", "started")
    assert done.returncode != 0
    assert done.stdout == ""
    wanted = "--toposeat-visibility must be permute, mask, rotate or cpu-only, not 'most'"
    assert wanted in done.stderr


def test_the_placement_is_read_as_the_user(cluster, plan):
    """Slurm's daemon is root, and root may read what the user may not."""
    secret = Path("/tmp/local/plan")
    words = [f"--uid={NOBODY}", f"--toposeat={secret}", "sh", "-c", "echo $CUDA_VISIBLE_DEVICES"]
    for mode, seen in (("600", 0), ("644", 16)):
        for node in NODES:
            cluster.on(node, ["install", "-m", mode, cluster.share / "plan", secret])
        done = srun(cluster, *words, cwd=Path("/tmp"))
        assert done.returncode == 0
        assert len(done.stdout.split()) == seen
        assert done.stderr.count("Permission denied") == (4 if seen == 0 else 0)
