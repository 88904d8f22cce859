"""`advise` through `main`, up to where runs would begin."""

import pytest

from tests.support.four_gpus import node
from toposeat import mapping
from toposeat.cli.main import main
from toposeat.model.placement_file import save_placement
from toposeat.topology.topology_file import save_topology


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """`m.json`, a node; `far.place`: two ranks on the far pair."""
    monkeypatch.chdir(tmp_path)
    for name in ("UCX_TLS", "UCX_RNDV_SCHEME", "UCX_CUDA_IPC_ENABLE_GET_ZCOPY"):
        monkeypatch.delenv(name, raising=False)
    machine = node()
    save_topology(machine, tmp_path / "m.json")
    save_placement(mapping.seat_ranks(machine, 2, (0, 3), metadata={}), tmp_path / "far.place")
    return tmp_path


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--stack", "nccl", "--", "true"], "no stack 'nccl'"),
        (["--stack", "mpich"], "no command to run"),
        (["--", "torchrun", "--nproc-per-node", "2", "app.py"], "does not say which MPI"),
        (["--stack", "mpich", "--", "torchrun"], "no program after"),
    ],
)
def test_refused(words, said, capsys):
    assert main(["advise", "-p", "far.place", *words]) == 2
    error = capsys.readouterr().err
    assert said in error
    assert "hint:" in error


def test_a_stack_is_refused_where_it_is_not_known(capsys):
    assert main(["map", "ring:4", "-t", "mi250x-8", "--stack", "openmpi-ucx"]) == 2
    assert "for NVIDIA GPUs" in capsys.readouterr().err
    assert main(["map", "ring:64", "-t", "fattree:2:2:2", "--stack", "mpich"]) == 2
