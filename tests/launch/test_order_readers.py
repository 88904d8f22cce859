"""Rank 0 off the job's first host: what ranks get so that programs meet where it is, or why not."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.launch.test_realise import BLOCKS, JOB, MIXED, launch, plan
from tests.support.processes import executable
from toposeat.errors import InputError
from toposeat.launch import export_placement
from toposeat.model.runs import RunRecord

MOVED = ["n10", "n10", "n2", "n2"]
LINE = "srun -N2 -n4"
RECIPE = """
import os, subprocess
hosts = subprocess.check_output(["scontrol", "show", "hostnames", os.environ["SLURM_JOB_NODELIST"]])
os.environ.update(MASTER_ADDR=hosts.split()[0].decode(), RANK=os.environ["SLURM_PROCID"])
"""


def variables(record: RunRecord) -> dict[str, str]:
    """What toposeat-exec sets for every rank."""
    words = record.launched
    pairs = (words[at + 1].partition("=") for at, word in enumerate(words) if word == "-E")
    return {name: value for name, _, value in pairs}


def notes(record: RunRecord) -> str:
    return "\n".join(note for note in record.notes if note.startswith(("Rank 0", "Warning")))


def test_the_variable_of_the_run_follows_rank_0(tmp_path: Path) -> None:
    for value in ("n2", "n2.cluster.example", "192.0.2.1"):
        record = launch(tmp_path, f"{LINE} app", MOVED, {**JOB, "MASTER_ADDR": value})
        assert variables(record) == {"MASTER_ADDR": "n10"}
        assert notes(record) == f"Rank 0    is on n10: ranks get MASTER_ADDR=n10, not {value}"
    again = launch(tmp_path, f"{LINE} app", MOVED, {**JOB, "MASTER_ADDR": "n10"})
    assert (variables(again), notes(again)) == ({}, "")


@pytest.mark.parametrize("hosts", [BLOCKS, MIXED])
def test_nothing_changes_where_the_first_host_keeps_rank_0(
    tmp_path: Path, hosts: list[str]
) -> None:
    script = tmp_path / "train.py"
    script.write_text(RECIPE)
    record = launch(tmp_path, f"{LINE} python3 {script}", hosts, {**JOB, "MASTER_ADDR": "n2"})
    assert (variables(record), notes(record)) == ({}, "")


@pytest.mark.parametrize(
    ("line", "value"),
    [
        ("mpich43 -genv MASTER_ADDR n2 -n 4 app", "n2"),
        ("ompi4 -x MASTER_ADDR=n2 -n 4 app", "n2"),
        ("srun --export=ALL,MASTER_ADDR=n2 -N2 -n4 app", "n2"),
    ],
)
def test_the_variable_of_the_line_follows_rank_0(tmp_path: Path, line: str, value: str) -> None:
    record = launch(tmp_path, line, MOVED, JOB)
    assert variables(record)["MASTER_ADDR"] == "n10"
    assert f"not {value}" in notes(record)


@pytest.mark.parametrize(
    "text",
    [
        RECIPE,
        "import lightning as L\nL.Trainer(num_nodes=2)\n",
        "from pytorch_lightning import Trainer\n",
        "import jax\njax.distributed.initialize()\n",
        "#!/bin/bash\nexport MASTER_ADDR=$(scontrol show hostname $SLURM_NODELIST | head -n1)\n",
        "#!/bin/bash\nray start --address=$(echo $SLURM_JOB_NODELIST)\n",
    ],
)
def test_a_program_that_asks_slurm_finds_rank_0_first(tmp_path: Path, text: str) -> None:
    script = executable(tmp_path / "train", text)
    for line in (f"{LINE} python3 -u {script}", f"{LINE} {script}"):
        record = launch(tmp_path, line, MOVED, JOB)
        own = variables(record)
        assert own.pop("MASTER_ADDR") == "n10"
        assert own == dict.fromkeys(
            ("SLURM_JOB_NODELIST", "SLURM_NODELIST", "SLURM_STEP_NODELIST"), "n10,n2"
        )
        assert "ranks get SLURM_JOB_NODELIST=n10,n2, whose first host train" in notes(record)


def test_the_words_of_a_shell_are_read_as_a_script_is(tmp_path: Path) -> None:
    from toposeat.launch import run_placed
    from toposeat.model.placement_file import load_placement

    launch(tmp_path, f"{LINE} app", MOVED, JOB)  # leaves srun and the placement
    text = "MASTER_ADDR=$(scontrol show hostnames $SLURM_JOB_NODELIST | head -1) ./app"
    record = run_placed(
        [str(tmp_path / "srun"), "-N2", "-n4", "bash", "-c", text],
        load_placement(tmp_path / "app.place"),
        tmp_path / "app.place",
        dry_run=True,
        environment={"PATH": f"{tmp_path}:/usr/bin:/bin", **JOB},
    )
    assert variables(record)["SLURM_JOB_NODELIST"] == "n10,n2"


def test_other_programs_are_told_of(tmp_path: Path) -> None:
    printer = executable(tmp_path / "job.sh", "#!/bin/sh\necho running on $SLURM_JOB_NODELIST\n")
    binary = tmp_path / "binary"
    binary.write_bytes(b"\x7fELF\0 MASTER_ADDR SLURM_JOB_NODELIST")
    binary.chmod(0o755)
    for program in (printer, binary):
        record = launch(tmp_path, f"{LINE} {program}", MOVED, JOB)
        assert variables(record) == {"MASTER_ADDR": "n10"}
        assert "a program that meets on n2 all the same waits in vain" in notes(record)


def test_nodes_that_are_numbered_otherwise_are_named(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(RECIPE + "rank = int(os.environ['SLURM_NODEID'])\n")
    assert "reads SLURM_NODEID" in notes(launch(tmp_path, f"{LINE} python {script}", MOVED, JOB))


def test_a_file_of_the_scheduler_cannot_be_changed(tmp_path: Path) -> None:
    nodes = tmp_path / "nodes"
    nodes.write_text("n2\nn2\nn10\nn10\n")
    script = executable(
        tmp_path / "train.sh", "#!/bin/sh\nMASTER_ADDR=$(head -n1 $PBS_NODEFILE) exec ./app\n"
    )
    job = {"PBS_NODEFILE": str(nodes)}
    with pytest.raises(InputError, match=r"train\.sh takes its first host from PBS_NODEFILE, n2"):
        launch(tmp_path, f"mpich43 -n 4 {script}", MOVED, job)
    placed = launch(tmp_path, f"mpich43 -n 4 {script}", BLOCKS, job)
    assert variables(placed) == {}


def test_ranks_know_their_number_per_node_where_the_line_said_it(tmp_path: Path) -> None:
    """Lightning starts nothing where Slurm tells tasks without tasks per node."""
    said = f"{LINE} --ntasks-per-node=2 app"
    record = launch(tmp_path, said, MOVED, JOB)
    kept = "--ntasks-per-node" in " ".join(record.launched)
    assert kept != (variables(record).get("SLURM_NTASKS_PER_NODE") == "2")
    assert "SLURM_NTASKS_PER_NODE" not in variables(launch(tmp_path, f"{LINE} app", MOVED, JOB))


@pytest.mark.parametrize("launcher", ["slurm", "openmpi", "mpich"])
def test_exported_files_say_where_rank_0_is(launcher: str) -> None:
    said = "rank 0 is on n10: a program that meets on the job's first host needs MASTER_ADDR=n10"
    assert said in export_placement(plan(MOVED), launcher).notes
    assert not [note for note in export_placement(plan(BLOCKS), launcher).notes if "rank 0" in note]
