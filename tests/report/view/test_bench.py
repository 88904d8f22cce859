from __future__ import annotations

from dataclasses import replace

from toposeat.model.runs import BenchOrder, BenchResult, BenchRow, BenchRun, BenchSource, Gain
from toposeat.report import bench_json, render_bench_text

CLEAR = BenchRow(
    bytes=2**20,
    default_s=2e-3,
    placed_s=1e-3,
    placed=Gain(mean=0.5, deviation=0.01, low=0.49, high=0.51, count=5),
    random=Gain(mean=-0.2, deviation=0.1, low=-0.3, high=-0.1, count=5),
    control=Gain(mean=0.002, deviation=0.01, low=-0.01, high=0.014, count=5),
    predicted=0.55,
)
NOISY = replace(CLEAR, bytes=1, placed=Gain(mean=0.01, deviation=0.05, low=-0.05, high=0.07))
RUN = BenchRun(order=BenchOrder.DEFAULT, device_of_rank=(0, 1), repeat=0, seconds=(1e-6, 2e-3))
RESULT = BenchResult(
    pattern="ring:2",
    ranks=2,
    topology="box",
    source=BenchSource.MEASURED,
    device_of_rank=(1, 0),
    rows=(NOISY, CLEAR),
    runs=(RUN,),
    repeats=5,
    randoms=4,
    command=("mpirun", "-n", "2"),
)


def test_measured_and_predicted_have_columns_of_their_own() -> None:
    lines = render_bench_text(RESULT).splitlines()
    top = next(i for i, line in enumerate(lines) if "message" in line)
    assert lines[top].split() == ["message", *(["measured"] * 6), "predicted"]
    (row,) = [line for line in lines if line.startswith("1.00 MiB")]
    assert "+50.0 %" in row
    assert row.endswith("+55.0 %")


def test_noise_is_named() -> None:
    text = render_bench_text(RESULT)
    assert "+1.0 % ?" in text
    assert "measured gain of +50.0 % at 1.00 MiB; no measurable difference at 1 of 2 sizes" in (
        " ".join(text.split())
    )
    noise = replace(RESULT, rows=(NOISY,))
    assert "no measurable difference at any size" in render_bench_text(noise)


def test_a_gain_as_small_as_the_control_is_noise() -> None:
    row = replace(
        CLEAR,
        placed=Gain(mean=0.03, deviation=0.01, low=0.02, high=0.04, count=5),
        control=Gain(mean=-0.04, deviation=0.01, low=-0.05, high=-0.03, count=5),
    )
    assert row.is_noise
    assert not CLEAR.is_noise


def test_json_says_where_times_are_from() -> None:
    document = bench_json(RESULT)
    assert document["schema"] == "toposeat/bench/1"
    assert document["source"] == "measured"
    assert [row["is_noise"] for row in document["rows"]] == [True, False]
