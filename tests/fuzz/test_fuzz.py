"""The fuzzer itself: every format has sound seeds, inputs can be made again, faults are seen."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fuzz.attempt import attempt
from tests.fuzz.fuzz_readers import all_targets, inputs_of
from tests.fuzz.job_targets import REMOVE
from tests.fuzz.tally import Job, Tally, read_done, write_done
from tests.fuzz.target import Target
from toposeat.errors import InputError
from toposeat.topology.formats import FORMATS
from toposeat.topology.networks.formats import NETWORK_FORMATS

TARGETS = {target.name: target for target in all_targets(Path("no such folder"), 24_000)}

FORMAT_NAMES = {each.name for each in (*FORMATS, *NETWORK_FORMATS)}


@pytest.fixture(scope="module", autouse=True)
def _no_folder_is_left() -> Iterator[None]:
    yield
    for folder in REMOVE:
        shutil.rmtree(folder, ignore_errors=True)


def test_every_registered_format_has_seeds_of_our_own() -> None:
    assert set(TARGETS) >= FORMAT_NAMES
    assert all(target.seeds for target in TARGETS.values())


@pytest.mark.parametrize("name", TARGETS)
def test_seeds_are_read_and_damage_is_no_fault(name: str) -> None:
    """Importers of traffic are damaged here alone; readers of machines in their own tests, too."""
    target = TARGETS[name]
    outcomes = [attempt(target, seed) for seed in target.seeds]
    assert not any(outcome.fault for outcome in outcomes)
    refused = sum(outcome.refused for outcome in outcomes)
    assert refused <= len(outcomes) // 4
    job = Job(name, 1, 2, 40 if name in FORMAT_NAMES else 3)
    inputs = list(inputs_of(target, job))
    assert inputs == list(inputs_of(target, job))
    assert not [fault for seed in inputs if (fault := attempt(target, seed).fault)]


def outcome_of(read: object) -> str:
    return attempt(Target("any", (), read), (Path("x"), b"")).fault  # type: ignore[arg-type]


def test_faults_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.fuzz.attempt.SLOW_S", 0.05)

    def crash(*_: object) -> None:
        raise KeyError("gpu0")

    def without_hint(*_: object) -> None:
        raise InputError("damaged")

    def two_lines(*_: object) -> None:
        error = InputError("damaged", hint="none")
        error.args = ("damaged\nfile",)  # errors.py would make one line of it
        raise error

    def slow(*_: object) -> None:
        begin = time.thread_time()
        while time.thread_time() - begin < 0.06:
            pass

    assert outcome_of(crash).startswith("KeyError at test_fuzz.py:")
    assert outcome_of(without_hint).startswith("bad message")
    assert outcome_of(two_lines).startswith("bad message")
    assert outcome_of(slow).startswith("slow")


def test_jobs_are_kept_but_not_those_with_faults(tmp_path: Path) -> None:
    good, bad = Job("a", 0, 0, 5), Job("a", 0, 1, 5)
    tally = Tally(inputs=5, read=3, refused=2, messages={7})
    write_done(tmp_path / "done.jsonl", good, tally)
    fault = Tally(inputs=5)
    fault.faults["crash"] += 1
    write_done(tmp_path / "done.jsonl", bad, fault)
    (kept,) = read_done(tmp_path / "done.jsonl")
    assert (kept.job, kept.tally) == (good, tally)
