"""What order could gain: against machines whose answer is known without the mapper."""

import math
import re
from pathlib import Path

import pytest

from toposeat import profile
from toposeat.pipeline import possible_gains
from toposeat.pipeline.gain import kinds_for
from toposeat.topology import read_topology


@pytest.mark.parametrize("ranks", [2, 3, 4, 6, 7, 8, 12, 16, 72])
def test_patterns_have_one_rank_per_device(ranks):
    kinds = list(kinds_for(ranks, hosts=2))
    assert len({kind.words for kind in kinds}) == len(kinds)
    for pattern in (each for kind in kinds for each in kind.patterns):
        assert profile.pattern_traffic(pattern).ranks == ranks, pattern


def test_the_page_has_the_patterns_of_eight():
    page = Path(__file__).parents[2] / "docs/how-to/understand-a-machine.md"
    rows = re.findall(r"^\| ([^|`]+) \| (`.+`) \|$", page.read_text(encoding="utf-8"), re.MULTILINE)
    said = {kind: tuple(re.findall(r"`([^`]+)`", patterns)) for kind, patterns in rows}
    assert said == {kind.words: kind.patterns for kind in kinds_for(8)}


@pytest.mark.parametrize("name", ["dgx-a100", "mi300x-8", "full:6", "nvswitch:16"])
def test_uniform_machines_gain_nothing(name):
    gains, orders = possible_gains(read_topology(name))
    assert gains
    assert not orders
    assert all(gain.share == 0 and gain.share_bound == 0 for gain in gains)


def test_the_papers_machine():
    """`k80-16` (seed paper): 2-D about 26 %, collective about 61 %, weighted up to 68 %."""
    gains = {gain.pattern: gain for gain in possible_gains(read_topology("k80-16"))[0]}
    assert gains["stencil2d:4x4"].share == pytest.approx(0.26, abs=0.02)
    assert gains["alltoall:4x4"].share == pytest.approx(0.61, abs=0.02)
    assert 0.6 <= gains["stencil2d:4x4,weight=3"].share <= 0.68
    for gain in gains.values():
        assert gain.share >= 0
        assert gain.share_bound is None or gain.share <= gain.share_bound <= 1
        assert math.isfinite(gain.default_s)


def test_one_device_and_too_many_have_none():
    assert possible_gains(read_topology("tree:1")) == ((), ())
    assert possible_gains(read_topology("nvswitch:160")) == ((), ())
