"""A plan over several hosts in each launcher's documented words, or refused in one message."""

import re
from pathlib import Path

import pytest

from tests.launch.test_export import placement
from tests.support.processes import executable, ran
from tests.support.tables import rows, variables
from toposeat.errors import InputError
from toposeat.launch import run_placed
from toposeat.model.placement import Placement
from toposeat.model.placement_file import parse_placement, save_placement

LINES = Path(__file__).with_name("lines.txt")
ANSWERS = {
    "srun": "slurm 22.05.8",
    "flux": "flux-core 0.60",
    "ompi4": "mpirun (Open MPI) 4.1.4",
    "ompi5": "mpirun (Open MPI) 5.0.11",
    "mpich40": "HYDRA build details:\n    Version: 4.0.2",
    "mpich43": "HYDRA build details:\n    Version: 4.3.0",
    "intel": "Intel(R) MPI Library for Linux* OS, Version 2021.18",
    "pals": "mpiexec version 1.4.0 (PALS)",
}
OWN_NAMES = ("srun", "flux")
MIXED = ["n2", "n10", "n10", "n2"]
CYCLIC = ["n2", "n10", "n2", "n10"]
BLOCKS = ["n2", "n2", "n10", "n10"]
CRAY = {"SLURM_JOB_NODELIST": "n[2,10]", "SLURM_MPI_TYPE": "cray_shasta"}
JOB = {"SLURM_JOB_NODELIST": "n[2,10]", "SLURM_JOB_CPUS_PER_NODE": "2(x2)"}


NAMED = {"MIXED": MIXED, "CYCLIC": CYCLIC, "BLOCKS": BLOCKS, "CRAY": CRAY, "JOB": JOB}


def hosts_of(cell):
    return NAMED.get(cell) or cell.split()


def variables_of(cell):
    """`JOB A=1` is those of JOB, and A."""
    name, _, more = cell.partition(" ")
    return {**NAMED[name], **variables(more or "-")} if name in NAMED else variables(cell)


def plan(hosts, *, bound=True):
    cpus = [str(rank) if bound else None for rank in range(len(hosts))]
    devices = [hosts[:rank].count(host) for rank, host in enumerate(hosts)]
    return placement(hosts, devices, cpus)


def launch(tmp_path, line, hosts, environment=None, **options):
    """What `run` would start, with a launcher that only knows its version."""
    name, *rest = line.split()
    launcher = executable(
        tmp_path / (name if name in OWN_NAMES else "mpiexec"),
        f"#!/bin/sh\ncat <<'END'\n{ANSWERS[name]}\nEND\n",
    )
    argv = [str(launcher), *rest]
    placed = hosts if isinstance(hosts, Placement) else plan(hosts)
    save_placement(placed, tmp_path / "app.place", overwrite=True)
    return run_placed(
        argv,
        placed,
        tmp_path / "app.place",
        dry_run=True,
        environment={"PATH": f"{tmp_path}:/usr/bin:/bin", **(environment or {})},
        **options,
    )


def words(record):
    """The line up to toposeat-exec, the launcher by its name."""
    line = " ".join(record.launched)
    line = line[: re.search(r" \S*toposeat-exec ", line).start()]
    return re.sub(r"\S*/", "", line)


@pytest.mark.parametrize(
    ("line", "hosts", "environment", "expected", "file"), rows(LINES, "planned")
)
def test_the_words_of_each_launcher(*, tmp_path, line, hosts, environment, expected, file):
    record = launch(tmp_path, line, hosts_of(hosts), variables_of(environment))
    texts = {name: text for name, text in record.launch_files.items() if name != "seats.place"}
    found = [f"{name}: {' '.join(text.splitlines())}" for name, text in texts.items()]
    assert (words(record), found or ["-"]) == (expected, [file])


def test_seats_follow_the_processes_that_the_mpi_renumbers(tmp_path):
    """Process 1 of the first host becomes rank 3: it gets that rank's seat under its own number."""
    record = launch(tmp_path, "pals -n 4 app", MIXED)
    seats = parse_placement(record.launch_files["seats.place"]).seats
    assert [(seat.rank, seat.host, seat.local_rank, seat.cpus) for seat in seats] == [
        (0, "n2", 0, "0"),
        (1, "n2", 1, "3"),
        (2, "n10", 0, "1"),
        (3, "n10", 1, "2"),
    ]
    assert "seats.place" in " ".join(record.launched)


@pytest.mark.parametrize(
    ("line", "hosts", "environment", "said", "hint"), rows(LINES, "not planned")
)
def test_what_does_not_fit_is_said_at_once_with_what_to_type(
    *, tmp_path, line, hosts, environment, said, hint
):
    with pytest.raises(InputError, match=re.escape(said)) as refused:
        launch(tmp_path, line, hosts_of(hosts), variables_of(environment))
    assert hint in refused.value.hint
    assert refused.value.message.startswith("nothing was started")


def test_everything_that_does_not_fit_is_in_one_message(tmp_path):
    environment = {"SLURM_JOB_NODELIST": "n[2-3]", "SLURM_JOB_CPUS_PER_NODE": "1,8"}
    with pytest.raises(InputError) as refused:
        launch(tmp_path, "srun -n4 -N3 app", MIXED, environment)
    assert refused.value.message.count(";") == 2
    for text in ("is for n[2,10]", "n2 has 1 for 2", "the line says -N3"):
        assert text in refused.value.message


def test_hosts_of_another_machine_are_taken_in_order_on_request(tmp_path):
    environment = {"SLURM_JOB_NODELIST": "m[1-3]"}
    record = launch(tmp_path, "srun -n4 app", MIXED, environment, other_machine=True)
    assert record.launch_files["hostfile"] == "m1\nm2\nm2\nm1\n"
    seats = parse_placement(record.launch_files["seats.place"]).seats
    assert [seat.host for seat in seats] == ["m1", "m2", "m2", "m1"]


def test_local_ranks_are_those_that_launchers_count(tmp_path):
    """Whoever edits a placement may number a host's ranks backwards; no launcher does."""
    text = (
        "# toposeat/placement/1\n# vendor: nvidia\n# devices n2: 0=-=-,1=-=-\n"
        "rank\thost\tlocal_rank\tpci\tuuid\tindex\tcpus\tmemnode\tnic\n"
        "0\tn2\t1\t-\t-\t1\t-\t-\t-\n1\tn2\t0\t-\t-\t0\t-\t-\t-\n"
    )
    record = launch(tmp_path, "srun -n2 app", parse_placement(text))
    seats = parse_placement(record.launch_files["seats.place"]).seats
    assert [(seat.rank, seat.local_rank, seat.index) for seat in seats] == [(0, 0, 1), (1, 1, 0)]


TORCHRUN = "torchrun --nnodes=2 --nproc-per-node=2 --rdzv-endpoint=n2:29511 --rdzv-conf=timeout=9"
C10D = "--rdzv-backend=c10d --max-restarts=1"


def test_srun_starts_torchrun_on_every_node_of_the_plan(tmp_path):
    """Node ranks follow the plan, not the job's order of nodes."""
    line = f"srun -N2 --ntasks-per-node=1 {TORCHRUN} t.py"
    record = launch(tmp_path, line, ["n10", "n10", "n2", "n2"], JOB)
    words = " ".join(record.launched)
    assert f"SLURM_HOSTFILE=hostfile {tmp_path}/srun " in words
    assert " -N 2 -n 2 -m arbitrary " in words
    assert "--ntasks-per-node" not in words
    assert record.launch_files["hostfile"] == "n10\nn2\n"
    start = words.index(" sh -c ")
    assert words[start:].startswith(
        ' sh -c PET_NODE_RANK=$SLURM_PROCID exec "$0" "$@" torchrun --rdzv_backend=static'
        " --master_addr=n10 --master_port=29511 --nnodes=2 --nproc-per-node=2"
        " --rdzv-conf=timeout=9 --no_python "
    )
    assert re.search(r"/toposeat-exec -m \S+ --local-rank-env LOCAL_RANK .*-- \S+ -u t.py$", words)
    in_order = launch(tmp_path, line, BLOCKS, JOB)
    assert " --ntasks-per-node=1 -m block " in " ".join(in_order.launched)
    assert "hostfile" not in in_order.launch_files


@pytest.mark.parametrize("said", [C10D, "--max-restarts=1 --rdzv_backend etcd-v2", ""])
def test_an_elastic_line_stays_elastic(tmp_path, said):
    """Nodes are sorted by the address of each task, which the shell makes of its number."""
    line = f"srun -N2 {TORCHRUN} {said} t.py"
    told = []
    environment = JOB | ({} if said else {"PET_RDZV_BACKEND": "c10d"})
    record = launch(
        tmp_path,
        line,
        ["n10", "n10", "n2", "n2"],
        environment,
        tell=lambda *lines: told.extend(lines),
    )
    start = record.launched.index("sh")
    before, behind = " ".join(record.launched[:start]), " ".join(record.launched[start + 3 :])
    assert " -N 2 -n 2 -m arbitrary" in before
    assert behind.startswith(f"{TORCHRUN} {said}".strip() + " --no_python ")
    addresses = []
    for task in ("0", "1"):
        words = (*record.launched[start : start + 3], "sh", "-c", "echo $PET_LOCAL_ADDR")
        done = ran(words, env={"SLURM_PROCID": task, "PATH": "/usr/bin:/bin"}, check=True)
        addresses.append(done.stdout.strip())
    assert addresses == ["n10", "n10~1"] == sorted(addresses)
    (warning,) = told
    assert "without n10 the job ends" in warning


def test_c10d_without_an_end_point_meets_at_the_first_host(tmp_path):
    line = f"srun -N2 torchrun --nnodes=2 --nproc-per-node=2 {C10D} t.py"
    record = launch(tmp_path, line, BLOCKS, JOB)
    assert "--rdzv_endpoint=n2:29400" in record.launched


@pytest.mark.parametrize(("line", "hosts", "cause"), rows(LINES, "torchrun not planned"))
def test_what_torchrun_below_srun_cannot_start(tmp_path, line, hosts, cause):
    line = line.replace("TORCHRUN", TORCHRUN).replace("C10D", C10D)
    with pytest.raises(InputError, match=re.escape(cause)):
        launch(tmp_path, line, hosts_of(hosts), JOB)
