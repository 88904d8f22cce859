"""Whether all ranks of a line run on this node: only then no port is opened."""

import socket

import pytest

from toposeat.launch.allocation import all_here
from toposeat.launch.launchers.launcher import LauncherKind
from toposeat.launch.line import parse_launch_line

HERE = socket.gethostname()
JOB_HERE = {"SLURM_JOB_NODELIST": HERE}
JOB_OF_TWO = {"SLURM_JOB_NODELIST": f"{HERE},other"}


@pytest.mark.parametrize(
    ("kind", "line", "environment", "expected"),
    [
        ("none", "./a", JOB_OF_TWO, True),
        ("torchrun", "torchrun --nnodes 2 a.py", JOB_OF_TWO, True),
        ("openmpi", "mpirun -n 2 ./a", {}, True),
        ("openmpi", "mpirun -n 2 ./a", JOB_HERE, True),
        ("openmpi", "mpirun -n 2 ./a", JOB_OF_TWO, False),
        ("openmpi", f"mpirun -host {HERE}:2 -n 2 ./a", JOB_OF_TWO, True),
        ("openmpi", "mpirun -host localhost -n 2 ./a", {}, True),
        ("openmpi", "mpirun -host other -n 2 ./a", {}, False),
        ("openmpi", "mpirun -n 1 ./a : -host other -n 1 ./b", {}, False),
        ("openmpi", "mpirun --dvm-uri file:x -n 2 ./a", {}, False),
        ("openmpi", "mpirun -n 2 ./a", {"PRTE_MCA_prte_default_hostfile": "x"}, False),
        ("openmpi", "mpirun -hostfile /no/such/file -n 2 ./a", {}, False),
        ("mpich", "mpiexec -n 2 ./a", {}, True),
        ("mpich", "mpiexec -n 2 ./a", {"HYDRA_HOST_FILE": "x"}, False),
        ("srun", "srun -n 2 ./a", {}, False),
        ("srun", "srun -n 2 ./a", JOB_HERE, True),
        ("srun", "srun -n 2 ./a", JOB_OF_TWO, False),
        ("srun", f"srun -w {HERE} -n 2 ./a", JOB_OF_TWO, True),
        ("flux", "flux run -n 2 ./a", {}, False),
    ],
)
def test_ranks_are_here_where_nothing_leads_elsewhere(kind, line, environment, expected):
    own = parse_launch_line(line.split(), identify=lambda _: kind)
    assert all_here(own, environment) is expected


def test_a_file_of_hosts_is_read(tmp_path):
    hosts = tmp_path / "hosts"
    words = ["mpirun", "-hostfile", str(hosts), "-n", "2", "./a"]
    line = parse_launch_line(words, identify=lambda _: LauncherKind.OPENMPI)
    hosts.write_text(f"{HERE}.cluster slots=4\n")
    assert all_here(line, {})
    hosts.write_text(f"{HERE} slots=4\nother slots=4\n")
    assert not all_here(line, {})
