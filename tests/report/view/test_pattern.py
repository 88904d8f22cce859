from dataclasses import replace

from toposeat.model.runs import ClockedOrder, ClockedPattern, ClockedResult, Gain
from toposeat.report import document, render_pattern_text

CLEAR = ClockedResult(
    what="wall time of the slowest rank, per exchange",
    command=("mpirun", "-n", "2"),
    host="box",
    started_at="2026-11-29T10:00:00Z",
    default_s=(2e-3, 2e-3),
    again_s=(2e-3, 2e-3),
    control=Gain(mean=0.002, deviation=0.01, low=-0.01, high=0.014, count=5),
    orders=(
        ClockedOrder(
            name="placed",
            seconds=(1e-3, 1e-3),
            gain=Gain(mean=0.5, deviation=0.01, low=0.49, high=0.51, count=5),
            predicted=0.55,
        ),
        ClockedOrder(
            name="random",
            seconds=(3e-3, 3e-3),
            gain=Gain(mean=-0.2, deviation=0.1, low=-0.3, high=-0.1, count=5),
        ),
    ),
)
SMALL = Gain(mean=0.01, deviation=0.05, low=-0.05, high=0.07, count=5)
NOISY = replace(CLEAR, orders=(replace(CLEAR.orders[0], gain=SMALL), CLEAR.orders[1]))
RESULT = ClockedPattern(
    pattern="ring:2",
    ranks=2,
    topology="box",
    device_of_rank=(1, 0),
    is_default_kept=False,
    randoms=4,
    buffers="host",
    algorithm="",
    mpi="an MPI",
    sizes=(1, 2**20),
    results=(NOISY, CLEAR),
)


def test_measured_and_predicted_have_columns_of_their_own():
    lines = render_pattern_text(RESULT).splitlines()
    top = next(i for i, line in enumerate(lines) if "message" in line)
    assert lines[top].split() == ["message", *(["measured"] * 6), "predicted"]
    (row,) = [line for line in lines if line.startswith("1.00 MiB")]
    assert " 50.0 % " in row
    assert row.endswith(" 55.0 %")


def test_noise_is_named():
    text = render_pattern_text(RESULT)
    assert " 1.0 % ?" in text
    assert "saves 50.0 % at 1.00 MiB, measured; no measurable difference at 1 of 2 sizes" in (
        " ".join(text.split())
    )
    noise = replace(RESULT, sizes=(1,), results=(NOISY,))
    assert "no measurable difference at any size" in render_pattern_text(noise)


def test_times_of_a_stand_in_are_not_called_measured():
    emulated = [replace(each, emulated="k80-16") for each in RESULT.results]
    text = render_pattern_text(replace(RESULT, results=tuple(emulated)))
    assert "measured" not in text.replace("measurable", "")
    assert "EMULATED" in text


def test_json_says_what_is_noise():
    form = document("toposeat/pattern/1", RESULT)
    assert form["schema"] == "toposeat/pattern/1"
    noise = [result["orders"][0]["is_noise"] for result in form["results"]]
    assert noise == [True, False]
