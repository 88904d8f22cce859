"""`advise` and `map --stack` through `main`: predictions only, since nothing here is a GPU."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.evaluation.test_protocols import node
from toposeat import mapping
from toposeat.cli.main import main
from toposeat.model.placement_file import load_placement, save_placement
from toposeat.topology.topology_file import save_topology

FAR = "0,8000000\n8000000,0\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """`m.json`: measured by get and staged; `far.place`: two ranks on the far pair; `t.csv`."""
    monkeypatch.chdir(tmp_path)
    for name in ("UCX_TLS", "UCX_RNDV_SCHEME", "UCX_CUDA_IPC_ENABLE_GET_ZCOPY"):
        monkeypatch.delenv(name, raising=False)
    machine = node()
    save_topology(machine, tmp_path / "m.json")
    save_placement(mapping.seat_ranks(machine, 2, (0, 3), metadata={}), tmp_path / "far.place")
    (tmp_path / "t.csv").write_text(FAR)
    return tmp_path


COMMON = ("-p", "far.place", "-t", "m.json", "--traffic", "t.csv")


def advised(capsys: pytest.CaptureFixture[str], *words: str) -> Any:
    assert main(["advise", *COMMON, *words, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


@pytest.mark.usefixtures("folder")
def test_without_runs_nothing_is_recommended(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("UCX_RNDV_SCHEME", "get_zcopy")
    monkeypatch.setenv("UCX_CUDA_IPC_ENABLE_GET_ZCOPY", "on")
    found = advised(capsys, "--stack", "openmpi-ucx")
    assert found["schema"] == "toposeat/advice/1"
    assert found["stack"]["rule"] == [{"from_bytes": 0, "protocol": "get"}]
    assert found["recommended"] is None
    assert found["clocked"] is None
    best = found["candidates"][0]
    assert best["variables"] == {"UCX_RNDV_SCHEME": "auto", "UCX_TLS": "^cuda_ipc"}
    # two 8 MB messages that do not hinder each other: 30 us + 2 ms staged, 10 us + 4 ms by get
    assert best["predicted_gain"] == pytest.approx(1 - 2030 / 4010, rel=1e-6)
    assert {c["name"]: c["lacking"] for c in found["candidates"]} == {
        "through the host": "",
        "receiver reads": "set already",
        "sender writes": "not measured here: put",
    }
    assert main(["advise", *COMMON, "--stack", "openmpi-ucx"]) == 0
    said = capsys.readouterr()
    assert "predicted, not verified: nothing recommended yet" in said.out
    assert "export" not in said.out
    assert "Next: toposeat advise" in said.err


@pytest.mark.usefixtures("folder")
def test_where_nothing_helps_that_is_the_answer(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["advise", *COMMON, "--stack", "openmpi-ucx"]) == 0  # staged already
    assert "keep the environment as it is" in capsys.readouterr().out


def test_the_advice_is_saved_once(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["advise", *COMMON, "--stack", "mpich", "-o", "a.json"]
    assert main(words) == 0
    saved = json.loads((folder / "a.json").read_text())
    assert saved["stack"]["kind"] == "mpich"
    capsys.readouterr()
    assert main(words) == 2
    assert "exists" in capsys.readouterr().err


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("words", "said", "code"),
    [
        (["--stack", "nccl"], "no stack 'nccl'", 2),
        (["--stack", "mpich", "--tries", "0", "--", "true"], "no candidate to try", 2),
        (["--", "torchrun", "--nproc-per-node", "2", "app.py"], "does not tell which MPI", 2),
        (["--stack", "mpich", "--", "torchrun"], "no program after", 2),
    ],
)
def test_refused(
    words: list[str], said: str, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["advise", *COMMON, *words]) == code
    error = capsys.readouterr().err
    assert said in error
    assert "hint:" in error


def test_a_machine_without_curves_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["map", "ring:4", "-t", "k80-16", "--stack", "per-pair"]) == 1
    said = capsys.readouterr().err
    assert "no curves" in said
    assert "toposeat measure" in said
    assert main(["map", "ring:4", "-t", "mi250x-8", "--stack", "openmpi-ucx"]) == 2
    assert "for NVIDIA GPUs" in capsys.readouterr().err
    assert main(["map", "ring:64", "-t", "fattree:2:2:2", "--stack", "mpich"]) == 2


def test_curves_of_a_stand_in_are_not_for_real_runs(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    machine = replace(node(), metadata={"emulated": "k80-16"})
    save_topology(machine, folder / "m.json", overwrite=True)
    found = advised(capsys, "--stack", "mpich")
    assert "EMULATED" in found["notes"][0]
    assert main(["advise", *COMMON, "--stack", "mpich", "--", "true"]) == 2
    assert "measured on a stand-in" in capsys.readouterr().err


def test_the_placement_depends_on_the_protocol(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "t.csv").write_text(
        "0,0,0,9e6\n0,0,0,0\n0,0,0,0\n9e6,0,0,0\n".replace("9e6", "9000000")
    )
    words = ["map", "t.csv", "-t", "m.json", "--stack", "openmpi-ucx", "-o", "p.place"]
    assert main([*words, "--json"]) == 0
    said = capsys.readouterr()
    found = json.loads(said.out)
    protocols = found["protocols"]
    assert protocols["chosen"] == "receiver reads"
    assert protocols["verified"] is False
    options = {each["name"]: each for each in protocols["options"]}
    # By get ranks 0 and 3 move together, where it is faster; staged every pair is alike.
    assert options["present"]["device_of_rank"] == [0, 1, 2, 3]
    a, b = (options["receiver reads"]["device_of_rank"][rank] for rank in (0, 3))
    assert abs(a - b) == 1
    assert found["placed"]["predicted_s"] == options["receiver reads"]["placed_s"]
    assert options["receiver reads"]["placed_s"] < options["present"]["placed_s"]
    assert load_placement(folder / "p.place").ranks == 4
    assert "toposeat advise -p p.place" in said.err
    assert main([*words[:-2]]) == 0
    text = capsys.readouterr().out
    assert "predicted, not verified" in text
    assert main(["map", "t.csv", "-t", "m.json", "--stack", "per-pair", "--json"]) == 0
    best = json.loads(capsys.readouterr().out)["placed"]["predicted_s"]
    assert best <= options["receiver reads"]["placed_s"] * (1 + 1e-9)
