"""`toposeat export`: what is printed, what is written, and what is in the way."""

import json
import os

import pytest

from tests.support.processes import unfolded
from toposeat.cli.main import main
from toposeat.launch.launchers import EXPORTERS


@pytest.fixture
def place(tmp_path, capsys):
    path = tmp_path / "job.place"
    assert main(["map", "stencil3d:2x2x4", "-t", "k80-16", "-o", str(path)]) == 0
    capsys.readouterr()
    return str(path)


def test_one_file_is_printed_as_it_is(place, capsys):
    assert main(["export", place, "--launcher", "openmpi4"]) == 0
    out, err = capsys.readouterr()
    assert out.startswith("rank 0=localhost slot=")
    assert len(out.splitlines()) == 16
    assert "Next: mpirun -n 16 --rankfile rankfile" in err


@pytest.mark.parametrize("launcher", EXPORTERS)
def test_every_launcher_answers_a_plan_that_names_no_host(launcher, place, capsys):
    code = main(["export", place, "--launcher", launcher])
    err = capsys.readouterr().err
    # Pods are bound to nodes by name, and there is none.
    assert (code, "error:" in err) == ((2, True) if launcher == "kubernetes" else (0, False)), err


def test_without_a_file_the_line_is_the_result(place, capsys):
    assert main(["export", place, "--launcher", "mpich", "--program", "./a b"]) == 0
    out, err = capsys.readouterr()
    assert out.startswith("mpiexec -n 16 -bind-to user:")
    assert out.endswith(" './a b'\n")
    kept, cores = err.splitlines()
    assert kept.startswith("Note: CPUs that the site keeps")
    assert cores.startswith("Note: cores are guessed from CPU numbers")


def test_files_are_written_once(place, tmp_path, capsys):
    folder = tmp_path / "out"
    command = ["export", place, "--launcher", "openmpi", "-o", str(folder)]
    assert main(command) == 0
    out, err = capsys.readouterr()
    assert out == ""
    assert f"Next: cd {folder}; mpirun -n 16 --map-by rankfile:file=rankfile" in unfolded(err)
    assert sorted(each.name for each in folder.iterdir()) == ["rankfile", "seat.sh"]
    assert os.access(folder / "seat.sh", os.X_OK)
    (folder / "rankfile").unlink()
    assert main(command) == 2  # seat.sh is in the way: nothing at all is written
    assert not (folder / "rankfile").exists()
    assert main([*command, "-f"]) == 0
    assert (folder / "rankfile").exists()


def test_json_has_files_command_and_environment(place, capsys):
    assert main(["export", place, "--launcher", "pals", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["schema"] == "toposeat/export/1"
    assert document["command"][:3] == ["mpiexec", "-n", "16"]
    assert document["environment"]["CUDA_DEVICE_ORDER"] == "PCI_BUS_ID"
    assert document["ranks"] == 16


def test_a_cluster(tmp_path, capsys):
    conf, path = tmp_path / "topology.conf", str(tmp_path / "job.place")
    conf.write_text("SwitchName=leaf Nodes=n[1-3]\n")
    machine = ["-t", str(conf), "--node", "dgx-1v", "--hosts", "n[1-3]"]
    assert main(["map", "ring:24", *machine, "--solver", "random", "-o", path]) == 0
    capsys.readouterr()
    assert main(["export", path, "--launcher", "slurm"]) == 0
    out, err = capsys.readouterr()
    assert "==> hostfile <==" in out
    assert "==> seat.sh <==" in out
    assert "Next: SLURM_HOSTFILE=hostfile srun -N 3 -n 24 -m arbitrary" in err
