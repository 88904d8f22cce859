"""The demo's story: every machine's verdict, and the clock's beside the prediction."""

from tests.report import samples
from toposeat.model.runs import ClockedOrder, ClockedResult, Gain
from toposeat.report import render_demo_text


def clocked(mean, low, high):
    return ClockedResult(
        what="seconds of the program",
        command=("mpirun", "app"),
        host="here",
        started_at="now",
        default_s=(2.0, 2.0, 2.0),
        again_s=(2.0, 2.0, 2.0),
        control=Gain(mean=0.001, deviation=0.0, low=-0.01, high=0.01),
        orders=(
            ClockedOrder(
                name="placed",
                seconds=(1.0, 1.0, 1.0),
                gain=Gain(mean=mean, deviation=0.01, low=low, high=high),
                predicted=0.6,
            ),
        ),
        emulated="k80-16",
    )


def test_the_story_has_one_line_for_each_thing_to_know():
    traffic = samples.stencil((2, 2, 4), weight=3)
    tree, box = samples.k80_16(), samples.small_tree()
    gained = samples.mapping(tree, traffic, samples.K80_PLACED)
    kept = samples.mapping(box, samples.stencil((4,)), range(4))
    text = render_demo_text([(tree, gained), (box, kept)], clocked(0.5, 0.48, 0.52))
    lines = text.splitlines()
    assert lines[0].startswith("k80-16    Predicted gain from moving 14 of 16 ranks")
    assert "CUDA_VISIBLE_DEVICES=0,2,4,6,8,10,12,14,1,3,5,7,9,11,13,15" in text
    clock = next(line for line in lines if line.startswith("Clocked "))
    assert "saves 50.0 %, emulated (+48.0 to +52.0 %)" in clock
    assert clock.endswith("; predicted for these runs: saves 60.0 %")
    assert "\nsmall-tree" in text.partition("Clocked")[2]
    assert "No gain: the default placement is kept" in text
    assert text.count("VISIBLE_DEVICES") == 1


def test_noise_is_called_noise_and_no_clock_is_left_out():
    tree, traffic = samples.k80_16(), samples.stencil((2, 2, 4), weight=3)
    gained = [(tree, samples.mapping(tree, traffic, samples.K80_PLACED))]
    noise = render_demo_text(gained, clocked(0.01, -0.02, 0.04))
    assert "no measurable difference; predicted for these runs: saves 60.0 %" in noise
    assert "Clocked" not in render_demo_text(gained, None)
