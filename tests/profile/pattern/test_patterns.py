import itertools
import math
from itertools import product

import numpy as np
import pytest

from toposeat.errors import UsageError
from toposeat.model.traffic import MemorySpace, TrafficKind
from toposeat.profile.pattern.patterns import DEFAULT_BYTES, PATTERNS, pattern_traffic
from toposeat.profile.pattern.recognise import recognise

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


def test_stencil2d_sends_to_grid_neighbours_first_dimension_slowest():
    # 0 1 2
    # 3 4 5
    sent = volumes("stencil2d:2x3,bytes=10")
    assert sent == dict.fromkeys(
        [
            *[(0, 1), (1, 0), (1, 2), (2, 1), (3, 4), (4, 3), (4, 5), (5, 4)],
            *[(0, 3), (3, 0), (1, 4), (4, 1), (2, 5), (5, 2)],
        ],
        10,
    )


def test_weight_enlarges_messages_along_the_first_dimension_only():
    traffic = pattern_traffic("stencil2d:2x3,bytes=10,weight=3,messages=7")
    nbytes = traffic.table().dense_bytes(6)
    assert nbytes[0, 3] == 210
    assert nbytes[0, 1] == 70
    assert traffic.table().dense_messages(6)[0].tolist() == [0, 7, 0, 7, 0, 0]
    assert volumes("stencil2d:2x2,bytes=10,weight=1.5")[0, 2] == 15


def test_wrap_joins_the_ends():
    sent = volumes("stencil2d:4x3,bytes=10,wrap")
    assert sent[0, 9] == sent[9, 0] == 10  # first dimension
    assert sent[0, 2] == sent[2, 0] == 10  # second
    assert len(sent) == 12 * 4


def test_wrap_of_two_doubles_and_wrap_of_one_sends_nothing():
    assert volumes("stencil2d:2x1,bytes=10,wrap") == {(0, 1): 20, (1, 0): 20}
    assert volumes("stencil2d:2x1,bytes=10") == {(0, 1): 10, (1, 0): 10}
    traffic = pattern_traffic("stencil2d:2x1,bytes=10,wrap")
    assert traffic.table().messages.tolist() == [2, 2]
    assert volumes("stencil3d:1x1x1,wrap") == {}


def test_stencil3d_by_coordinates():
    shape, wrap = (2, 3, 4), True
    sent = volumes("stencil3d:2x3x4,bytes=5,weight=3,wrap")
    expected = {}
    places = list(itertools.product(*map(range, shape)))
    for place, axis, step in itertools.product(places, range(3), (-1, 1)):
        there = list(place)
        there[axis] = (there[axis] + step) % shape[axis]
        pair = (places.index(place), places.index(tuple(there)))
        expected[pair] = expected.get(pair, 0) + (15 if axis == 0 else 5)
    assert wrap
    assert sent == expected


@pytest.mark.parametrize(
    ("text", "wrap"),
    [
        ("stencil2d:3x4,diagonals,bytes=5", False),
        ("stencil2d:3x2,diagonals,bytes=5,wrap", True),
        ("stencil3d:3x1x4,diagonals,bytes=5", False),
        ("stencil3d:4x2x3,diagonals,bytes=5,wrap", True),
    ],
)
def test_diagonals_reach_every_rank_within_one_step(text, wrap):
    shape = tuple(map(int, text.partition(":")[2].partition(",")[0].split("x")))
    expected = np.zeros((math.prod(shape),) * 2, np.int64)
    steps = product(*(((-1, 0, 1) if extent > 1 else (0,)) for extent in shape))
    for step in filter(any, steps):
        for place in product(*map(range, shape)):
            there = tuple(p + s for p, s in zip(place, step, strict=True))
            if wrap:
                there = tuple(t % extent for t, extent in zip(there, shape, strict=True))
            if all(0 <= t < extent for t, extent in zip(there, shape, strict=True)):
                source, target = (int(np.ravel_multi_index(p, shape)) for p in (place, there))
                expected[source, target] += 5 if source != target else 0
    traffic = pattern_traffic(text)
    assert traffic.table().dense_bytes(traffic.ranks).tolist() == expected.tolist()


def test_a_cube_with_diagonals_is_recognised_as_27_points():
    found = recognise(pattern_traffic("stencil3d:4x5x6,diagonals"))
    assert "3-D 4x5x6 halo with diagonals (27-point)" in found["pattern"]


def test_the_default_message_is_one_mebibyte_between_devices():
    traffic = pattern_traffic("stencil2d:4x4")
    assert DEFAULT_BYTES == MIB
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


def test_llm_groups_are_rings_in_the_order_asked():
    # Order tp-cp-dp-pp: rank = tp + 2 (cp + dp' ...); tp pairs, then dp rings of 3, then stages.
    traffic = pattern_traffic("llm:tp=2,dp=3,pp=2,layers=2,hidden=8,seq=8,microbatches=1")
    collective = traffic.table(kind=TrafficKind.COLLECTIVE)
    edges = set(zip(collective.source.tolist(), collective.target.tolist(), strict=True))
    tensor = {(r, r ^ 1) for r in range(12)}
    data = {(r, r - r % 6 + (r + 2) % 6) for r in range(12)}
    assert edges == tensor | data
    stages = traffic.table(kind=TrafficKind.POINT_TO_POINT)
    assert set(zip(stages.source.tolist(), stages.target.tolist(), strict=True)) == {
        (r, (r + 6) % 12) for r in range(12)
    }
    # The same job with data parallelism fastest: pairs of tensor ranks are now 3 apart.
    other = volumes("llm:tp=2,dp=3,pp=1,order=dp-tp-cp-pp,layers=2,hidden=8,seq=8")
    assert {(0, 3), (3, 0), (0, 1), (1, 2), (2, 0)} <= set(other)


def test_llm_messages_and_context_ring():
    traffic = pattern_traffic("llm:cp=4,layers=3,hidden=16,seq=64,microbatch=2,microbatches=5")
    ring = traffic.table(kind=TrafficKind.POINT_TO_POINT)
    keys_and_values = 2 * (2 * 16 * 16) * 2  # two tensors of b s/cp h values of 2 bytes
    steps = 3 * 3 * 5  # cp - 1 per layer and micro-batch
    assert ring.bytes.tolist() == [3 * keys_and_values * steps] * 4  # forward once, backward twice
    assert ring.messages.tolist() == [2 * steps] * 4
    gradients = traffic.table(kind=TrafficKind.COLLECTIVE)
    parameters = 12 * 3 * 16 * 16
    assert gradients.bytes.tolist() == [2 * 3 * round(parameters * 2 / 4)] * 4
    assert gradients.messages.tolist() == [6] * 4


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


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ("stencil4d:2x2", "unknown pattern 'stencil4d'"),
        ("stencil2d", "expected NAME:ARGUMENTS"),
        ("stencil2d:", "expected NAME:ARGUMENTS"),
        ("stencil2d:wrap=1", "expected a process grid"),
        ("stencil2d:4", "expected 2 dimensions, got 1"),
        ("stencil3d:4x4", "expected 3 dimensions, got 2"),
        ("stencil2d:0x4", "is not a process grid"),
        ("stencil2d:-1x4", "is not a process grid"),
        ("stencil2d:4xx4", "is not a process grid"),
        ("stencil2d:٤x4", "is not a process grid"),
        ("stencil2d:100000x100000", "more than 131072 ranks"),
        ("stencil2d:4x4,wrap,wrap", "wrap is given twice"),
        ("ring:4\n\nA", r"from 1 to 131072, got '4\n\nA'"),
        ("halo:2x2,layers=2" + " \v" * 9 + "3", "got '2 "),
        ("stencil2d:4x4,wrap=yes", "wrap takes no value"),
        ("stencil2d:4x4,", "empty option"),
        ("stencil2d:4x4,wieght=3", "unknown option 'wieght'"),
        ("stencil2d:4x4,weight", "weight needs a value"),
        ("stencil2d:4x4,weight=0", "weight must be greater than 0"),
        ("stencil2d:4x4,weight=nan", "weight=nan is not a number"),
        ("stencil2d:4x4,bytes=0", "bytes must be a whole number"),
        ("stencil2d:4x4,bytes=-5", "bytes=-5 is not a number"),
        ("stencil2d:4x4,bytes=5parsecs", "is not a number"),
        ("stencil2d:4x4,bytes=1e99", "bytes must be a whole number"),
        ("stencil2d:4x4,messages=1.5", "messages must be a whole number"),
        ("stencil2d:4x4,bytes=1e15,messages=1000000000", "do not fit in 62 bits"),
        ("ring:0", "the number of ranks must be"),
        ("ring:x", "the number of ranks must be"),
        ("alltoall:4000x2x2", "more than 4194304 pairs"),
        ("random:4,degree=4", "degree must be a whole number from 0 to 3"),
        ("llm:2,tp=2", "'2' is out of place"),
        ("llm:tp=2,ep=2", "expert parallelism"),
        ("llm:tp=2,pp=3", "32 layers do not divide into pp=3"),
        ("llm:cp=3", "seq=4096 does not divide into cp=3"),
        ("llm:tp=2,order=tp-tp", "order must name"),
        ("llm:tp=2,order=tp-ddp", "order must name"),
        ("llm:tp=2,dp=2,order=tp-pp", "order leaves out dp, which"),
        ("llm:dp=4,pp=2,ep=2,experts=2,order=dp-pp-ep", "order must have cp, ep and dp side by"),
        ("llm:tp=10000,dp=10000", "more than 131072 ranks"),
    ],
)
def test_errors_name_the_cause_and_list_the_forms(text, cause):
    with pytest.raises(UsageError) as caught:
        pattern_traffic(text)
    assert cause in caught.value.message
    assert "\n" not in caught.value.message + caught.value.hint
    name = text.partition(":")[0]
    own = [kind.form for kind in PATTERNS.values() if kind.form.startswith(f"{name}:")]
    examples = [kind.form.partition("[")[0] for kind in PATTERNS.values()]
    hint = caught.value.hint
    assert all(form in hint for form in own or examples) or hint.startswith("did you mean 'stencil")
