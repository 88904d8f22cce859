"""The program that lists where a driver's answers and the stand-in's differ, on the stand-in."""

import json
import os
import sys
from pathlib import Path

import pytest
from benchmarks.driver_conformance.__main__ import main

from tests.support.processes import ran
from toposeat.emulation import emulated_node, machine_text
from toposeat.topology import read_topology

_ROOT = Path(__file__).resolve().parents[2]
_H200 = Path(__file__).with_name("driver_13000.json")


def conformance(*words, code=0, **more):
    done = ran(
        [sys.executable, "-m", "benchmarks.driver_conformance", *map(str, words)],
        cwd=_ROOT,
        env={**os.environ, "TOPOSEAT_EMULATOR_FORCE": "1", **more},
        timeout=100,
    )
    assert done.returncode == code, done.stderr
    return done


@pytest.fixture(scope="module")
def record(tmp_path_factory):
    """All answers of a stand-in with one GPU."""
    path = tmp_path_factory.mktemp("conformance") / "answers.json"
    with emulated_node(machine_text(read_topology("k80-16"))) as node:
        one = {**node.environment(os.environ), "CUDA_VISIBLE_DEVICES": "0"}
        conformance("--record", path, **one)
    return path


def test_the_stand_in_answers_every_question(record):
    found = json.loads(record.read_text())
    assert found["driver"] == "stand-in (k80-16)"
    answers = found["answers"]
    assert len(answers) > 40
    broken = {k: v for k, v in answers.items() if isinstance(v, str) and "too few" not in v}
    assert broken == {"memory: touched by the host": "ended by signal 11"}
    assert answers["start: before cuInit"] == [3, 3, 1]
    assert answers["virtual memory: what a pointer says"]["across"] == "across"
    assert answers["peers: enabled twice, disabled twice"].startswith("not asked")


def test_the_stand_in_answers_as_a_real_driver(record, capsys):
    """`driver_13000.json`: one H200 of a virtual machine, driver 580.159.04, 2026-11-26."""
    assert main(["--compare", str(_H200), str(record)]) == 0, capsys.readouterr().out


def test_differences_are_listed(record, tmp_path, capsys):
    assert main(["--compare", str(record), str(record)]) == 0
    assert "0 differ" in capsys.readouterr().out
    other = json.loads(record.read_text())
    other["driver"] = "CUDA driver 99"
    other["answers"]["memory: its range"] = [0, 0, 1024, 1, 1]
    other["answers"]["peers: enabled twice, disabled twice"] = [705, 1, 0, 704, 0]  # had two GPUs
    del other["answers"]["start: before cuInit"]
    path = tmp_path / "other.json"
    path.write_text(json.dumps(other))
    assert main(["--compare", str(record), str(path)]) == 1
    said = capsys.readouterr().out
    assert "2 differ" in said
    assert "CUDA driver 99" in said
    assert "memory: its range" in said
    assert "[0, 0, 1024, 1, 1]" in said
    assert "peers: enabled twice" not in said


def test_beside_the_stand_in(tmp_path):
    with emulated_node(machine_text(read_topology("dgx-1v"))) as node:
        done = conformance("--only", "memory: its", **node.environment(os.environ))
    assert "1 questions asked of both, 0 of one or none; 0 differ" in done.stdout


@pytest.mark.parametrize("text", ["", "[]", '{"schema": "x"}'])
def test_files_that_are_no_record(record, tmp_path, text):
    path = tmp_path / "bad.json"
    path.write_text(text)
    with pytest.raises(SystemExit) as ended:
        main(["--compare", str(record), str(path)])
    assert str(path) in str(ended.value)
