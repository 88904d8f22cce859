import math
import re
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from toposeat.errors import UsageError
from toposeat.model.traffic import MemorySpace, TrafficKind
from toposeat.profile import PATTERNS, pattern_traffic

MIB = 2**20


def volumes(text):
    """Bytes by (sender, receiver)."""
    traffic = pattern_traffic(text)
    table = traffic.table()
    return {
        (int(a), int(b)): int(n)
        for a, b, n in zip(table.source, table.target, table.bytes, strict=True)
    }


def only_table(traffic, kind):
    assert set(traffic.tables) == {(kind, MemorySpace.DEVICE)}


@pytest.mark.parametrize(
    ("text", "first"),  # bytes along the first dimension, where they are others
    [
        ("stencil2d:2x3,bytes=10", 10),  # 0 1 2 above 3 4 5
        ("stencil2d:2x3,bytes=10,weight=3", 30),
        ("stencil2d:2x2,bytes=10,weight=1.5", 15),
        ("stencil2d:4x3,bytes=10,wrap", 10),
        ("stencil2d:2x1,bytes=10", 10),
        ("stencil2d:2x1,bytes=10,wrap", 10),  # two messages to the one neighbour
        ("stencil3d:1x1x1,bytes=10,wrap", 10),
        ("stencil3d:2x3x4,bytes=5,weight=3,wrap", 15),
        ("stencil2d:3x4,diagonals,bytes=5", 5),
        ("stencil2d:3x2,diagonals,bytes=5,wrap", 5),
        ("stencil3d:3x1x4,diagonals,bytes=5", 5),
        ("stencil3d:4x2x3,diagonals,bytes=5,wrap", 5),
    ],
)
def test_stencils_by_coordinates(text, first):
    """The first dimension is the slowest; a dimension of one has no neighbours."""
    shape = tuple(map(int, text.partition(":")[2].partition(",")[0].split("x")))
    size = int(text.partition("bytes=")[2].partition(",")[0])
    ranks = math.prod(shape)
    nbytes, messages = np.zeros((2, ranks, ranks), np.int64)
    steps = product(*(((-1, 0, 1) if extent > 1 else (0,)) for extent in shape))
    for step in filter(any, steps):
        if sum(map(abs, step)) > 1 and "diagonals" not in text:
            continue
        for place in product(*map(range, shape)):
            there = tuple(p + s for p, s in zip(place, step, strict=True))
            if "wrap" in text:
                there = tuple(t % extent for t, extent in zip(there, shape, strict=True))
            if all(0 <= t < extent for t, extent in zip(there, shape, strict=True)):
                source, target = (int(np.ravel_multi_index(p, shape)) for p in (place, there))
                if source != target:
                    nbytes[source, target] += first if step[0] else size
                    messages[source, target] += 1
    table = pattern_traffic(text).table()
    assert table.dense_bytes(ranks).tolist() == nbytes.tolist()
    assert table.dense_messages(ranks).tolist() == messages.tolist()
    many = pattern_traffic(f"{text},messages=7").table()
    assert (many.dense_bytes(ranks) == 7 * nbytes).all()
    assert (many.dense_messages(ranks) == 7 * messages).all()


def test_the_default_message_is_one_mebibyte_between_devices():
    traffic = pattern_traffic("stencil2d:4x4")
    only_table(traffic, TrafficKind.POINT_TO_POINT)
    assert set(traffic.table().bytes.tolist()) == {MIB}
    assert traffic.origin == "pattern stencil2d:4x4"
    assert traffic.mapped_space is MemorySpace.DEVICE


def test_the_histogram_counts_messages_by_bit_length():
    traffic = pattern_traffic("stencil2d:2x2,bytes=1024,weight=3,messages=2")
    (histogram,) = traffic.histograms.values()
    assert {k: int(n) for k, n in enumerate(histogram) if n} == {11: 8, 12: 8}


def test_ring():
    assert volumes("ring:3,bytes=4,messages=5") == {(0, 1): 20, (1, 2): 20, (2, 0): 20}
    assert volumes("ring:1") == {}


def test_alltoall_is_among_ranks_that_share_all_but_the_first_coordinate():
    traffic = pattern_traffic("alltoall:4x2x2,bytes=100")
    only_table(traffic, TrafficKind.COLLECTIVE)
    assert volumes("alltoall:4x2x2,bytes=100") == {
        (a, b): 100 for a in range(16) for b in range(16) if a != b and a % 4 == b % 4
    }
    assert [c.ranks for c in traffic.communicators] == [
        (0, 4, 8, 12),
        (1, 5, 9, 13),
        (2, 6, 10, 14),
        (3, 7, 11, 15),
    ]
    assert {e.rank: (e.communicator, e.bytes, e.calls) for e in traffic.collectives} == {
        rank: (rank % 4, 100, 1) for rank in range(16)
    }
    assert traffic.collective_model


def test_random_is_reproducible_and_has_its_degree():
    text = "random:16,seed=5,degree=3,bytes=1000"
    traffic = pattern_traffic(text)
    assert pattern_traffic(text).table() == traffic.table()
    assert pattern_traffic("random:16,seed=6,degree=3,bytes=1000").table() != traffic.table()
    table = traffic.table()
    assert np.bincount(table.source).tolist() == [3] * 16
    assert (table.source != table.target).all()
    assert table.bytes.min() >= 1
    assert table.bytes.max() <= 1000
    # Pinned: results named by a seed must be repeatable by anybody.
    assert list(zip(table.source[:3].tolist(), table.target[:3].tolist(), strict=True)) == [
        (0, 10),
        (0, 12),
        (0, 14),
    ]
    assert len(volumes("random:4,degree=3")) == 12


@pytest.mark.parametrize(
    ("text", "tensor_gb", "data_gb", "pipeline_gb"),
    [
        # notes on profiling, section 14: GB per GPU and step
        ("llm:tp=2,dp=2,pp=2,layers=80,hidden=8192,params=70B", 86, 35, 1.1),
        ("llm:tp=2,dp=1,pp=4,layers=80,hidden=8192,params=70B", 43, 0, 1.1),
        ("llm:tp=2,dp=4,layers=32,hidden=4096,params=8e9", 34, 12, 0),
    ],
)
def test_llm_volumes_per_gpu(text, tensor_gb, data_gb, pipeline_gb):
    sent = volumes(text)
    tp = 2
    dp = int(text.split("dp=")[1][0])
    assert sent[0, 1] / 1e9 == pytest.approx(tensor_gb, rel=0.02)
    if data_gb:
        assert sent[0, tp] / 1e9 == pytest.approx(data_gb, rel=0.02)
    if pipeline_gb:
        stage = tp * dp
        both_ways = sent[0, stage] + sent[stage, 0]
        assert both_ways / 1e9 == pytest.approx(pipeline_gb, rel=0.03)


def test_llm_messages():
    """In steps of rings: of 2 (n - 1) for the gradients, and of cp - 1 for keys and values."""
    traffic = pattern_traffic("llm:cp=4,layers=3,hidden=16,seq=64,microbatch=2,microbatches=5")
    steps = 3 * 3 * 5  # cp - 1 per layer and micro-batch
    ring = traffic.table(kind=TrafficKind.POINT_TO_POINT)
    assert ring.messages.tolist() == [2 * steps] * 4
    assert ring.bytes.tolist() == [3 * 2 * (2 * 16 * 16) * 2 * steps] * 4
    assert traffic.table(kind=TrafficKind.COLLECTIVE).messages.tolist() == [6] * 4
    table = pattern_traffic("llm:tp=2,dp=3,pp=2,layers=2,hidden=8,seq=8,microbatches=1").table(
        kind=TrafficKind.COLLECTIVE
    )
    edges = set(zip(table.source.tolist(), table.target.tolist(), strict=True))
    assert edges == {(r, r ^ 1) for r in range(12)} | {
        (r, r - r % 6 + (r + 2) % 6) for r in range(12)
    }


def test_a_single_gpu_job_is_silent():
    traffic = pattern_traffic("llm:tp=1")
    assert traffic.ranks == 1
    assert not len(traffic.table())


@pytest.mark.parametrize(
    ("size", "expected"),
    [("65536", 65536), ("64KiB", 65536), ("1MB", 10**6), ("0.5GiB", 2**29), ("1e6", 10**6)],
)
def test_sizes(size, expected):
    assert volumes(f"ring:2,bytes={size}")[0, 1] == expected


# A pattern and words of the cause; backslashes stand for characters of control.
REFUSED = Path(__file__).with_name("refused.txt").read_text(encoding="utf-8").splitlines()


@pytest.mark.parametrize("line", REFUSED)
def test_errors_name_the_cause_and_list_the_forms(line):
    text, cause = line.split(" | ")
    text = re.sub(r"\\(n|x0b)", lambda found: {"n": "\n", "x0b": "\v"}[found[1]], text)
    with pytest.raises(UsageError) as caught:
        pattern_traffic(text)
    assert cause in caught.value.message
    assert "\n" not in caught.value.message + caught.value.hint
    name = text.partition(":")[0]
    own = [kind.form for kind in PATTERNS.values() if kind.form.startswith(f"{name}:")]
    examples = [kind.form.partition("[")[0] for kind in PATTERNS.values()]
    hint = caught.value.hint
    assert hint
    is_told = hint.startswith("did you mean 'stencil") or name == "llm"
    assert is_told or all(form in hint for form in own or examples)
