"""Rank 0 off the job's first host: what ranks get so that programs meet where it is, or why not."""

import pytest

from tests.launch.test_realise import BLOCKS, JOB, MIXED, launch, plan
from toposeat.launch import export_placement

MOVED = ["n10", "n10", "n2", "n2"]
LINE = "srun -N2 -n4"


def variables(record):
    """What toposeat-exec sets for every rank."""
    words = record.launched
    pairs = (words[at + 1].partition("=") for at, word in enumerate(words) if word == "-E")
    return {name: value for name, _, value in pairs}


def notes(record):
    return "\n".join(note for note in record.notes if note.startswith("Rank 0"))


def test_the_variable_of_the_run_follows_rank_0(tmp_path):
    for value in ("n2", "n2.cluster.example", "192.0.2.1"):
        record = launch(tmp_path, f"{LINE} app", MOVED, {**JOB, "MASTER_ADDR": value})
        assert variables(record)["MASTER_ADDR"] == "n10"
        assert f"ranks get MASTER_ADDR=n10, not {value}, and SLURM_JOB" in notes(record)
    again = launch(tmp_path, f"{LINE} app", MOVED, {**JOB, "MASTER_ADDR": "n10.cluster.example"})
    assert "MASTER_ADDR" not in variables(again)  # rank 0's host, by a name of the user's own


@pytest.mark.parametrize("hosts", [BLOCKS, MIXED])
def test_nothing_changes_where_the_first_host_keeps_rank_0(tmp_path, hosts):
    record = launch(tmp_path, f"{LINE} app", hosts, {**JOB, "MASTER_ADDR": "n2"})
    assert (variables(record), notes(record)) == ({}, "")


@pytest.mark.parametrize(
    ("line", "value"),
    [
        ("mpich43 -genv MASTER_ADDR n2 -n 4 app", "n2"),
        ("ompi4 -x MASTER_ADDR=n2 -n 4 app", "n2"),
        ("srun --export=ALL,MASTER_ADDR=n2 -N2 -n4 app", "n2"),
    ],
)
def test_the_variable_of_the_line_follows_rank_0(tmp_path, line, value):
    record = launch(tmp_path, line, MOVED, JOB)
    assert variables(record)["MASTER_ADDR"] == "n10"
    assert f"not {value}" in notes(record)


def test_lists_of_slurm_follow_rank_0_for_any_program(tmp_path):
    """Whoever reads them: Lightning, JAX and scripts meet on their first host."""
    record = launch(tmp_path, f"{LINE} app", MOVED, JOB)
    lists = ("SLURM_JOB_NODELIST", "SLURM_NODELIST", "SLURM_STEP_NODELIST")
    assert variables(record) == {
        "MASTER_ADDR": "n10",
        **dict.fromkeys(lists, "n10,n2"),
        "SLURM_LAUNCH_NODE_IPADDR": "n10",
    }
    said = "ranks get MASTER_ADDR=n10 and SLURM_JOB_NODELIST=n10,n2"
    assert notes(record) == f"Rank 0    is on n10, not on n2, the job's first host: {said}"
    by_mpirun = launch(tmp_path, "mpich43 -n 4 app", MOVED, {**JOB, "SLURM_JOB_ID": "7"})
    assert variables(by_mpirun) == variables(record)


def test_without_slurm_ranks_are_told_where_to_meet(tmp_path):
    nodes = tmp_path / "nodes"
    nodes.write_text("n2\nn2\nn10\nn10\n")
    job = {"PBS_NODEFILE": str(nodes)}
    assert variables(launch(tmp_path, "ompi5 -n 4 app", MOVED, job)) == {"MASTER_ADDR": "n10"}
    assert variables(launch(tmp_path, "ompi5 -n 4 app", BLOCKS, job)) == {}


def test_ranks_know_their_number_per_node_where_the_line_said_it(tmp_path):
    """Lightning starts nothing where Slurm tells tasks without tasks per node."""
    said = f"{LINE} --ntasks-per-node=2 app"
    record = launch(tmp_path, said, MOVED, JOB)
    kept = "--ntasks-per-node" in " ".join(record.launched)
    assert kept != (variables(record).get("SLURM_NTASKS_PER_NODE") == "2")
    assert "SLURM_NTASKS_PER_NODE" not in variables(launch(tmp_path, f"{LINE} app", MOVED, JOB))


@pytest.mark.parametrize("launcher", ["slurm", "openmpi", "mpich"])
def test_exported_files_say_where_rank_0_is(launcher):
    said = "rank 0 is on n10: a program that meets on the job's first host needs MASTER_ADDR=n10"
    assert said in export_placement(plan(MOVED), launcher).notes
    assert not [note for note in export_placement(plan(BLOCKS), launcher).notes if "rank 0" in note]
