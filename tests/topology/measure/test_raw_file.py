"""The file that lets a measurement go on: whole, interrupted, damaged, hostile."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.topology.measure.fake_node import FakeWorkers
from toposeat.errors import InputError
from toposeat.topology import read_topology
from toposeat.topology.measure import measure_pairs, raw_file

PCI = ["0000:01:00.0", "0000:02:00.0"]
HEAD = json.dumps({"schema": "toposeat/measurement-raw/1", "devices": PCI})
GOOD = {"source": 0, "target": 1, "protocol": "get", "bytes": 8, "seconds": [1e-5]}


def test_an_interrupted_measurement_goes_on_where_it_was(tmp_path: Path) -> None:
    machine = read_topology("dgx-1v")
    workers = FakeWorkers(machine)
    path = tmp_path / "raw"

    def stop(done: int, _total: int) -> None:
        if done == 20:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), raw_file(path, workers.pci) as results:
        measure_pairs(workers, ["get"], 0.0, results, stop)
    before = workers.asked
    path.write_bytes(path.read_bytes()[:-5])  # killed in the middle of a line
    with raw_file(path, workers.pci) as results:
        measure_pairs(workers, ["get"], 0.0, results, lambda *_: None)
    first = dict(results.of)
    assert len({key[:2] for key in first}) == 8 * 7
    # 20 pairs were done, one of them not to its end
    assert workers.asked - before == 1 + 9 * (8 * 7 - 19)
    before = workers.asked
    with raw_file(path, workers.pci) as results:
        measure_pairs(workers, ["get"], 0.0, results, lambda *_: None)
    assert workers.asked - before == 1
    assert results.of == first


@pytest.mark.parametrize(
    ("line", "cause"),
    [
        ("{", "truncated"),
        ("[]", "Expected `object`"),
        ("[" * 100000, "Expected `object`"),
        ("{}", "missing required field `source`"),
        (json.dumps({**GOOD, "more": 1}), "unknown field `more`"),
        (json.dumps({**GOOD, "at_once": 1}), "$.at_once"),
        (json.dumps({**GOOD, "source": 2}), "no transfer between 2 GPUs: 2 to 1"),
        (json.dumps({**GOOD, "source": True}), "$.source"),
        (json.dumps({**GOOD, "target": 0}), "0 to 0"),
        (json.dumps({**GOOD, "protocol": ["get"]}), "$.protocol"),
        (json.dumps({**GOOD, "bytes": -1}), "$.bytes"),
        (json.dumps({**GOOD, "seconds": []}), "length >= 1"),
        (json.dumps({**GOOD, "seconds": [0]}), "`float` > 0.0"),
        (json.dumps({**GOOD, "seconds": [float("nan")]}), "malformed"),
        (json.dumps({**GOOD, "seconds": [1e999]}), "malformed"),
        (json.dumps({**GOOD, "seconds": "abc"}), "$.seconds"),
    ],
)
def test_a_damaged_line_is_named_and_the_file_left_alone(
    tmp_path: Path, line: str, cause: str
) -> None:
    path = tmp_path / "raw"
    path.write_text(f"{HEAD}\n{json.dumps(GOOD)}\n{line}\n")
    before = path.read_bytes()
    with pytest.raises(InputError) as caught, raw_file(path, PCI):
        pass
    assert caught.value.message.startswith(f"{path}:3: ")
    assert cause in caught.value.message
    assert caught.value.hint
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    ("head", "cause"),
    [
        (HEAD.replace("raw/1", "raw/2"), "raw/2"),
        (HEAD.replace("02:00", "03:00"), "other GPUs"),
        (json.dumps(GOOD), "schema ''"),
    ],
)
def test_a_file_of_another_version_or_machine_is_refused(
    tmp_path: Path, head: str, cause: str
) -> None:
    path = tmp_path / "raw"
    path.write_text(head + "\n")
    with pytest.raises(InputError, match=cause), raw_file(path, PCI):
        pass


@pytest.fixture(scope="module")
def damaged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("raw") / "damaged"


@settings(deadline=None)
@given(place=st.integers(0, 300), piece=st.binary(max_size=4))
def test_any_damage_is_read_or_refused(damaged: Path, place: int, piece: bytes) -> None:
    whole = f"{HEAD}\n{json.dumps(GOOD)}\n".encode()
    damaged.write_bytes(whole[:place] + piece + whole[place + len(piece) :])
    try:
        with raw_file(damaged, PCI) as results:
            assert len(results.of) <= 1
    except InputError as error:
        assert str(damaged) in error.message


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot write"), raw_file(tmp_path / "no" / "raw", PCI):
        pass
