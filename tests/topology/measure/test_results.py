"""Curves and ratio matrices from times."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.topology.measure.fake_node import FakeWorkers
from toposeat.errors import InputError
from toposeat.model.quantity import Source
from toposeat.topology import read_topology
from toposeat.topology.measure import (
    PairResults,
    measure_both_ways,
    measure_pairs,
    raw_file,
    with_results,
)
from toposeat.topology.measure.results import SIZES, Transfers


@given(
    st.lists(st.floats(1e-6, 1e-4), min_size=len(SIZES), max_size=len(SIZES)),
    st.floats(1e7, 1e11),
)
def test_a_curve_gives_back_the_times_it_was_made_of(waits: list[float], rate: float) -> None:
    times = [wait + size / rate for wait, size in zip(sorted(waits), SIZES, strict=True)]
    results = PairResults(2)
    for size, seconds in zip(SIZES, times, strict=True):
        results.add(Transfers(1, 0, "put", size, (seconds,)))
    curve = results.curve(1, 0, "put")
    assert curve is not None
    assert curve.source is Source.MEASURED
    slope = float(results.bandwidth("put")[1, 0])
    for size, seconds in zip(SIZES, times, strict=True):
        latency, bandwidth = curve.at(size)
        if latency > 0 or size > 2048:
            assert latency + size / bandwidth == pytest.approx(seconds)
        else:  # a small message cannot be faster than its bytes
            assert seconds <= size / slope * (1 + 1e-9)


def test_too_few_sizes_make_no_curve() -> None:
    results = PairResults(2)
    assert results.curve(0, 1, "get") is None
    results.add(Transfers(0, 1, "get", 8, (1e-5,)))
    assert results.curve(0, 1, "get") is None


def test_ratios_of_the_sixteen_gpu_node() -> None:
    results = PairResults(16)
    machine = read_topology("k80-16")
    measure_pairs(FakeWorkers(machine), ["get"], 0.0, results, lambda *_: None)
    rate, ratio = results.bandwidth("get"), results.bandwidth_ratio("get")
    assert ratio[0, 8] == pytest.approx(1.0)
    assert ratio[0, 1] > ratio[0, 2] > ratio[0, 4] > 1.0
    # below what large messages alone show: small ones of every pair wait as long
    assert ratio[0, 1] < rate[0, 1] / rate[0, 8]
    assert results.latency_ratio("get")[0, 8] == pytest.approx(1.0)
    assert np.isnan(results.bandwidth_ratio("put")).all()


def test_both_directions_of_a_pair_share_what_its_links_carry_together() -> None:
    machine = read_topology("k80-16")
    uplink = next(x for x in machine.links if x.combined_bytes_per_s is None)
    links = tuple(
        replace(x, combined_bytes_per_s=x.forward_bytes_per_s) if x.id == uplink.id else x
        for x in machine.links
    )
    machine = replace(machine, links=links)
    workers, results = FakeWorkers(machine), PairResults(16)
    measure_pairs(workers, ["get"], 0.0, results, lambda *_: None)
    seen: list[tuple[int, int]] = []
    measure_both_ways(workers, "get", results, lambda *at: seen.append(at))
    assert len(seen) == 120
    both, alone = results.both_ways("get"), results.bandwidth("get")
    assert both == pytest.approx(both.T, nan_ok=True)
    assert np.nanmin(results.both_ways_ratio("get")) == 1.0
    learned = with_results(machine, workers.pci, results, "get")
    for (a, b), route in learned.route_of_pair.items():
        i, j = (int(name.removeprefix("gpu")) for name in (a, b))
        shared = uplink.id in route.links
        assert both[i, j] <= alone[i, j] + alone[j, i]
        if shared and route.cap_bytes_per_s is None:
            assert route.combined_bytes_per_s is not None
            assert route.combined_bytes_per_s.source is Source.MEASURED
        if route.combined_bytes_per_s is not None:
            assert route.combined_bytes_per_s.value == pytest.approx(both[i, j])
    count = workers.asked
    measure_both_ways(workers, "get", results, lambda *_: None)
    assert workers.asked == count  # what is known is not measured again


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
        ("[" * 100000, "Expected `object`"),
        ("{}", "missing required field `source`"),
        (json.dumps({**GOOD, "more": 1}), "unknown field `more`"),
        (json.dumps({**GOOD, "source": 2}), "no transfer between 2 GPUs: 2 to 1"),
        (json.dumps({**GOOD, "target": 0}), "0 to 0"),
        (json.dumps({**GOOD, "seconds": []}), "length >= 1"),
        (json.dumps({**GOOD, "seconds": [float("nan")]}), "malformed"),
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
