from dataclasses import replace

import pytest

from tests.report import samples
from toposeat.model.evaluation import PhaseTime
from toposeat.model.placement import HostDevice, Placement, Seat
from toposeat.model.quantity import Premises
from toposeat.report import (
    TextStyle,
    render_comparison_text,
    render_mapping_text,
    render_placement_text,
)
from toposeat.report.parts import Cell
from toposeat.report.view.mapping import before_after, range_words

K80 = """\
Verdict   Predicted gain from moving 14 of 16 ranks: link time 5.03 ms to 1.68 ms (saves 67 %),
          worst link congestion 5.03 ms to 1.68 ms (saves 67 %).
Order     D0 D2 D4 D6 D8 D10 D12 D14 D1 D3 D5 D7 D9 D11 D13 D15 for ranks 0 to 15 (14 ranks moved)
CUDA_DEVICE_ORDER=PCI_BUS_ID CUDA_VISIBLE_DEVICES=0,2,4,6,8,10,12,14,1,3,5,7,9,11,13,15

Topology  k80-16, 16 x Tesla K80, 31 links nominal
Traffic   stencil3d:2x2x4,weight=3, 16 ranks, 88.0 MiB between devices, 0 B through the host
Busiest   cross-socket: package 0 - package 1, 5.03 ms to 1.68 ms
Proof     Proved optimal for worst link congestion (1.68 ms): no placement has a lower value.
"""

ALL = """\
          Because: exact tree search.
Mapping   objective congestion, solver exact, 12.3 ms

rank       0   1   2   3   4   5   6   7   8   9  10  11  12  13  14  15
device    D0  D2  D4  D6  D8 D10 D12 D14  D1  D3  D5  D7  D9 D11 D13 D15

predicted              default   placed  saves
link time              5.03 ms  1.68 ms   67 %
worst link congestion  5.03 ms  1.68 ms   67 %  <- objective
mean link congestion   1.05 ms   517 us   51 %
hop-bytes              592 MiB  352 MiB   41 %
bytes x pair cost      592 MiB  352 MiB   41 %
"""


def test_the_answer_is_first():
    tree, traffic = samples.k80_16(), samples.stencil((2, 2, 4), weight=3)
    result = samples.mapping(tree, traffic, samples.K80_PLACED)
    assert render_mapping_text(result, tree, traffic) == K80
    assert render_mapping_text(result, tree, traffic, verbose=True) == K80 + ALL


@pytest.mark.parametrize("width", [80, 100])
def test_whatever_there_is_to_say_the_answer_is_short(width):
    tree, traffic = samples.k80_16(), samples.timed(samples.stencil((2, 2, 4), weight=3))
    result = replace(
        samples.mapping(tree, traffic, samples.K80_PLACED),
        notes=tuple(f"note {n}" for n in range(20)),
    )
    text = render_mapping_text(result, tree, traffic, TextStyle(width=width))
    assert len(text.splitlines()) <= (13 if width == 100 else 17)
    assert "- note 0" in text
    assert len(render_mapping_text(result, tree, traffic, verbose=True).splitlines()) > 30


@pytest.mark.parametrize("way", ["trees", "rings"])
def test_what_weakens_a_verdict_is_told_before_anything_else(way):
    tree, traffic = samples.k80_16(), samples.timed(samples.stencil((2, 2, 4), weight=3))
    result = samples.mapping(tree, traffic, samples.K80_PLACED)
    names = ("tensor parallel", "data parallel", "pipeline parallel", "context parallel")
    quick, slow = {f"{way}_s": 2e-3}, {f"{way}_s": 3e-3}
    before = tuple(PhaseTime(label=each, seconds=3e-3, **quick) for each in names)
    after = (before[0], *(PhaseTime(label=each, seconds=1e-3, **slow) for each in names[1:]))
    weak = replace(
        result,
        default=replace(result.default, phases=before),
        placed=replace(result.placed, phases=after),
        notes=tuple(f"note {n}" for n in range(20)),
    )
    text = " ".join(render_mapping_text(weak, tree, traffic).split())
    assert "the slowest alone unchanged (3.00 ms)" in text
    assert f"{way.capitalize()} tensor parallel unchanged" in text
    assert "data parallel 2.00 ms to 3.00 ms (costs 50 %)" in text
    assert f"if all-reduces between nodes go by {way}" in text
    assert "Proof Proved optimal" in text
    assert "expect at most about" in text
    assert "- note 0" in text


def test_why_an_order_was_not_taken_is_told_however_long_that_is():
    tree, traffic = samples.small_tree(), samples.stencil((4,))
    why = (
        "kept the default: a placement predicted 37 % faster was found, but " + "it is slower " * 30
    )
    kept = replace(
        samples.mapping(tree, traffic, range(4)),
        notes=("a note on the machine", "the traffic is that of a grid", why.strip()),
        premises=Premises(gain_range=(0.0, 0.4)),
    )
    text = render_mapping_text(kept, tree, traffic)
    assert "- kept the default: a placement" in text
    assert " ".join(text.split()).count("it is slower") == 30
    assert "Range     saves 0 % to 40 %" in text
    assert "Proof     " in text


@pytest.mark.parametrize(
    ("least", "said"),
    [(0.1, "saves 10 %"), (-1e-12, "saves 0 %"), (-0.2, "costs 20 %"), (-1.5, "costs 2.50x")],
)
def test_a_range_begins_with_what_is_saved_or_lost_at_least(least, said):
    words = range_words(Premises(gain_range=(least, 0.4))) or ""
    saves = "saves " if least < -0.1 else ""
    assert words == f"{said} to {saves}40 % of the default's link time."


def test_a_loss_is_not_green():
    tree, traffic = samples.k80_16(), samples.stencil((2, 2, 4), weight=3)
    gain = samples.mapping(tree, traffic, samples.K80_PLACED)
    for result, look in (
        (gain, "better"),
        (replace(gain, default=gain.placed, placed=gain.default), "worse"),
        (replace(gain, placed=gain.default), ""),
    ):
        cells = [row[-1] for row in before_after(result).rows]
        assert {cell.look for cell in cells if isinstance(cell, Cell)} == {look}


def test_default_kept_says_so():
    tree, traffic = samples.small_tree(), samples.timed(samples.stencil((4,)))
    result = replace(samples.mapping(tree, traffic, range(4)), notes=("ties go to the default",))
    text = render_mapping_text(result, tree, traffic)
    assert "No gain: the default placement is kept" in text
    assert "(default kept)" in text
    assert "VISIBLE_DEVICES" not in text
    assert "- ties go to the default" in text
    assert "Your run spends 24 % of its time in MPI calls (measured where it was" in text
    assert "expect at most" not in text


@pytest.mark.parametrize("width", [60, 80, 120])
def test_64_ranks_fit_the_width(width):
    cluster, traffic = samples.cluster(8, 8), samples.stencil((4, 4, 4))
    result = samples.mapping(cluster, traffic, range(63, -1, -1), proved=False)
    text = render_mapping_text(result, cluster, traffic, TextStyle(width=width), verbose=True)
    wrapped = [line for line in text.splitlines() if "VISIBLE_DEVICES" not in line]
    assert max(len(line) for line in wrapped) <= width
    ranks = [line.split()[1:] for line in text.splitlines() if line.startswith("rank")]
    devices = [line.split()[1:] for line in text.splitlines() if line.startswith("device")]
    assert [n for line in ranks for n in line] == [str(n) for n in range(64)]
    assert [n for line in devices for n in line] == [
        f"node{n // 8:02d}:D{n % 8}" for n in range(63, -1, -1)
    ]


def test_placement_leaves_out_what_nobody_knows():
    placement = Placement(
        seats=(
            Seat(rank=0, local_rank=0, index=2, pci_bus_id="0000:07:00.0", cpus="0-7"),
            Seat(rank=1, local_rank=1, index=0, pci_bus_id="0000:04:00.0", cpus="8-15"),
        ),
        devices_of_host={"*": (HostDevice(index=0), HostDevice(index=2))},
        vendor="nvidia",
        metadata={"objective": "time", "verdict": "Predicted gain.", "costs": "100"},
    )
    assert render_placement_text(placement) == (
        "Verdict   Predicted gain.\n"
        "Placement 2 ranks on 1 host, nvidia\n"
        "\n"
        "rank  host  local rank  device  pci           cpus\n"
        "   0  any            0      D2  0000:07:00.0  0-7\n"
        "   1  any            1      D0  0000:04:00.0  8-15\n"
    )


def test_comparison_is_side_by_side_and_says_it_is_predicted():
    tree, traffic = samples.small_tree(), samples.stencil((4,))
    result = samples.mapping(tree, traffic, (0, 2, 1, 3))
    text = render_comparison_text(
        [("default", result.default), ("bad.place", result.placed)], tree, traffic
    )
    assert text.startswith(
        "Verdict   No gain: default is predicted to be the fastest (210 us).\n\n"
    )
    lines = text.splitlines()[2:]
    assert lines[3].startswith("predicted  link time        saves")
    assert lines[4].split()[:4] == ["default", "210", "us", "0", "%"][:4]
    assert lines[5].split()[:4] == ["bad.place", "629", "us", "costs", "3.00x"][:4]
    assert lines[6] == "Busiest link"
    assert lines[8].split() == [
        "bad.place",
        *["cross-socket:", "package", "0", "-", "package", "1"],
    ]
    assert lines[-1] == "saves: of the link time of default; nothing was measured"
    assert "measured" not in "\n".join(lines[:-1])
    better = render_comparison_text(
        [("bad.place", result.placed), ("default", result.default)], tree, traffic
    )
    assert better.startswith(
        "Verdict   Predicted gain from default over bad.place: link time 629 us to 210 us (saves"
        " 67 %)."
    )
