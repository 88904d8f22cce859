"""`map LAYOUT -t slurm-job --node KIND --hosts job`: an allocation and a layout, in one command."""

import json
import os
import re
from collections import Counter
from pathlib import Path

import pytest

from tests.support.processes import executable, unfolded
from toposeat.cli.main import main
from toposeat.launch import export_placement
from toposeat.model.placement_file import load_placement

# What `scontrol show topology` of Slurm 22.05 prints: on a spine the nodes of all its leaves.
TREE = [
    *(f"SwitchName=leaf{i} Level=0 LinkSpeed=1 Nodes=h[{4 * i + 1}-{4 * i + 4}]" for i in range(8)),
    "SwitchName=spine Level=1 LinkSpeed=1 Nodes=h[1-32] Switches=leaf[0-7]",
]
BLOCKS = [
    "BlockName=b1 BlockIndex=0 Nodes=h[1-16] BlockSize=16",
    "BlockName=b2 BlockIndex=1 Nodes=h[17-32] BlockSize=16",
]
LAYOUT = "llm:tp=8,pp=4,dp=8"


@pytest.fixture
def slurm(tmp_path, monkeypatch):
    """Makes this process one of a job, with a `scontrol` that prints these lines."""

    def answers(lines, nodes):
        scontrol = tmp_path / "scontrol"
        printed = "\n".join(f"echo '{line}'" for line in lines)
        executable(scontrol, f"#!/bin/sh\n[ \"$1 $2\" = 'show topology' ] || exit 1\n{printed}\n")
        monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
        monkeypatch.setenv("SLURM_JOB_ID", "7")
        monkeypatch.setenv("SLURM_JOB_NODELIST", nodes)

    return answers


def mapped(capsys, source, *options):
    words = ["map", LAYOUT, "-t", source, "--node", "hgx-h100", "--hosts", "job", "--json"]
    assert main([*words, *options]) == 0
    out, err = capsys.readouterr()
    return json.loads(out), err


def test_the_order_of_the_job_is_the_default(slurm, tmp_path, capsys):
    slurm(TREE, "h[1-32]")
    place = tmp_path / "job.place"
    words = ["map", LAYOUT, "-t", "slurm-job", "--node", "hgx-h100", "--hosts", "job"]
    assert main([*words, "--solver", "default", "-o", str(place)]) == 0
    out, err = capsys.readouterr()
    assert "slurm-job of hgx-h100: 256 slots" in out
    assert "-t slurm-job,taper=2" in out
    assert f"Next: toposeat export {place} --launcher torchrun" in unfolded(err)
    assert "./app" not in err
    halo = str(tmp_path / "halo.place")
    assert main(["map", "ring:256", *words[2:], "--solver", "default", "-o", halo]) == 0
    err = capsys.readouterr().err
    assert f"Next: toposeat run -p {halo} -- srun -n 256 ./app" in unfolded(err)
    assert f"Export: toposeat export {halo} --launcher torchrun" in err
    seats = load_placement(place).seats
    assert [seat.host for seat in seats] == [f"h{1 + rank // 8}" for rank in range(256)]
    assert [seat.local_rank for seat in seats] == list(range(8)) * 32


def test_tapered_leaves_make_the_order_of_nodes_matter(slurm, tmp_path, capsys):
    """The default is the job's order: by number, or as text, where 40 % and more are to be had."""
    place = tmp_path / "job.place"
    text = ",".join(sorted(f"h{i}" for i in range(1, 33)))
    slurm(TREE, text)
    found, _ = mapped(capsys, "slurm-job,taper=4", "-o", str(place))
    default, placed = found["default"]["predicted_s"], found["placed"]["predicted_s"]
    assert placed < 0.6 * default
    exported = export_placement(load_placement(place), "torchrun-c10d")
    assert "--nnodes=32 --nproc-per-node=8" in exported.files[0].text
    slurm(TREE, "h[1-32]")
    found, _ = mapped(capsys, "slurm-job,taper=4", "--solver", "default")
    assert found["default"]["predicted_s"] < default


def test_part_of_a_cluster_of_blocks(slurm, capsys):
    slurm(BLOCKS, "h[9-24,30-32]")
    assert main(["discover", "-t", "slurm-job"]) == 0
    out = capsys.readouterr().out
    assert "slurm-job: 19 hosts" in out
    assert re.search(r"^b1 +8 +h\[9-16\]$", out, re.MULTILINE)
    assert re.search(r"^b2 +11 +h\[17-24,30-32\]$", out, re.MULTILINE)


@pytest.mark.parametrize(
    ("nodes", "lines", "cause"),
    [
        ("h[1-33]", TREE, "no switch above h33"),
        ("h[1-32]", [], "prints nothing"),
        ("", TREE, "no job"),
    ],
)
def test_what_slurm_does_not_tell(slurm, nodes, lines, cause, capsys):
    slurm(lines, nodes)
    assert main(["map", LAYOUT, "-t", "slurm-job", "--node", "hgx-h100", "--hosts", "job"]) != 0
    out, err = capsys.readouterr()
    assert out == ""
    assert cause in err
    assert "hint:" in err


def test_a_plan_that_the_line_cannot_start(slurm, tmp_path, capsys):
    """Ranks that talk across a cyclic order, which `srun --mpi=pmi2` cannot say."""
    slurm(TREE, "h[1-16]")
    traffic = tmp_path / "far.csv"
    far = [f"{rank},{(5 * rank + 3 * k) % 64},1000000,1" for rank in range(64) for k in (1, 7)]
    traffic.write_text("\n".join(["# ranks=64", "source,target,bytes,messages", *far]) + "\n")
    machine = ["-t", "slurm-job", "--node", "polaris-4", "--budget", "0.2"]
    line = ["srun", "--mpi=pmi2", "-n64", "./app"]
    place = tmp_path / "app.place"
    assert main(["map", str(traffic), *machine, "-o", str(place), "--", *line]) == 0
    said = capsys.readouterr().err
    assert "under --mpi=pmi2 an MPI knows the ranks of its node only where they are" in said
    assert "mpiexec -n 64; or, with Open MPI, srun --mpi=pmix" in said
    assert "Next: toposeat run" not in said


@pytest.mark.parametrize(
    ("places", "expected"),
    [("8(x4)", {"h1": 8, "h2": 8}), ("4,8,2(x2)", {"h1": 4, "h2": 8, "h3": 2, "h4": 2})],
)
def test_places_of_nodes_are_counted_as_run_counts_them(
    places, expected, *, slurm, tmp_path, monkeypatch
):
    slurm(TREE, "h[1-4]")
    monkeypatch.setenv("SLURM_JOB_CPUS_PER_NODE", places)
    place = tmp_path / "job.place"
    words = ["map", "llm:tp=8,dp=2", "-t", "slurm-job", "--node", "hgx-h100", "--hosts", "job"]
    assert main([*words, "--solver", "default", "-o", str(place)]) == 0
    assert Counter(seat.host for seat in load_placement(place).seats) == expected


def test_too_few_places_are_refused_as_by_run(slurm, monkeypatch, capsys):
    """By the launcher of the line: srun counts CPUs, mpirun the tasks of the job."""
    slurm(TREE, "h[1-2]")
    monkeypatch.setenv("SLURM_JOB_CPUS_PER_NODE", "64(x2)")
    monkeypatch.setenv("SLURM_TASKS_PER_NODE", "2(x2)")
    executable(
        Path(os.environ["PATH"].partition(":")[0], "mpirun"),
        "#!/bin/sh\necho 'mpirun (Open MPI) 5.0.1'\n",
    )
    words = ["map", "llm:tp=8,dp=2", "-t", "slurm-job", "--node", "hgx-h100", "--hosts", "job"]
    assert main(words) == 0
    capsys.readouterr()
    assert main([*words, "--", "mpirun", "-n", "16", "./app"]) == 1
    err = capsys.readouterr().err
    assert "leaves places for 4 of 16 ranks" in err
    assert "salloc -N 2 --ntasks-per-node=8" in err
