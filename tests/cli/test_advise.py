"""`advise` through `main`, up to where runs would begin; `map --stack` with measured curves."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.evaluation.test_protocols import node
from toposeat import mapping
from toposeat.cli.main import main
from toposeat.model.placement_file import load_placement, save_placement
from toposeat.topology.topology_file import save_topology


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """`m.json`: measured by get and staged; `far.place`: two ranks on the far pair."""
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
def test_refused(words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["advise", "-p", "far.place", *words]) == 2
    error = capsys.readouterr().err
    assert said in error
    assert "hint:" in error


def test_a_stack_is_refused_where_it_is_not_known(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["map", "ring:4", "-t", "mi250x-8", "--stack", "openmpi-ucx"]) == 2
    assert "for NVIDIA GPUs" in capsys.readouterr().err
    assert main(["map", "ring:64", "-t", "fattree:2:2:2", "--stack", "mpich"]) == 2


def test_the_placement_depends_on_the_protocol(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """By get ranks 0 and 3 move together, where it is faster; staged every pair is alike."""
    (folder / "t.csv").write_text("0,0,0,9000000\n0,0,0,0\n0,0,0,0\n9000000,0,0,0\n")
    words = ["map", "t.csv", "-t", "m.json", "--stack", "openmpi-ucx", "--json"]
    assert main(words) == 0
    assert json.loads(capsys.readouterr().out)["device_of_rank"] == [0, 1, 2, 3]
    monkeypatch.setenv("UCX_RNDV_SCHEME", "get_zcopy")
    monkeypatch.setenv("UCX_CUDA_IPC_ENABLE_GET_ZCOPY", "on")
    assert main([*words, "-o", "p.place"]) == 0
    said = capsys.readouterr()
    found = json.loads(said.out)
    assert found["stack"]["rule"] == [{"from_bytes": 0, "protocol": "get"}]
    a, b = (found["device_of_rank"][rank] for rank in (0, 3))
    assert abs(a - b) == 1
    assert load_placement(folder / "p.place").ranks == 4
    assert "toposeat advise -p p.place" in said.err
