"""An allocation of a real Slurm and a layout: one command, and the exported line starts the job."""

from tests.support.cluster import LOGIN, toposeat
from toposeat.model.placement_file import load_placement

MAP = (
    "map llm:tp=4,dp=4 -t slurm-job,taper=4 --node rtx-4-crossed-bridges --hosts job"
    " --solver random -f -o job.place"
)


def test_the_exported_line_starts_the_ranks_on_their_hosts(cluster, tmp_path):
    folder = cluster.share / tmp_path.name
    folder.mkdir()
    show = folder / "show"
    show.write_text("#!/bin/sh\necho rank=$SLURM_PROCID host=$(hostname)\n")
    show.chmod(0o755)
    steps = [
        f"{toposeat()} {MAP} > map.txt",
        f"{toposeat()} export job.place --launcher slurm --program {show} -o out --json > e.json",
        "cd out",
        "eval \"$(python3 -c \"import json; print(json.load(open('../e.json'))['line'])\")\"",
    ]
    done = cluster.on(
        LOGIN, ["salloc", "-N4", "--ntasks-per-node=4", "sh", "-ec", "; ".join(steps)], cwd=folder
    )
    assert done.returncode == 0, done.stderr
    assert "slurm-job of rtx-4-crossed-bridges, 4 hosts, 16 x" in (folder / "map.txt").read_text()
    planned = {seat.rank: seat.host for seat in load_placement(folder / "job.place").seats}
    assert set(planned.values()) == set(cluster.nodes)
    started = [line.split() for line in done.stdout.splitlines() if line.startswith("rank=")]
    found = {int(rank.removeprefix("rank=")): host[len("host=") :] for rank, host in started}
    assert found == planned
