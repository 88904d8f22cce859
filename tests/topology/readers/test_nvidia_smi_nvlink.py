"""`nvidia-smi nvlink -s` and `-L`: lanes, inactive ones, MIG slices, damage."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.topology.readers.recorded import facts_of, facts_of_text, row_of

GOLDEN = {  # indices, lanes, inactive (device, lane), bytes/s of the others, words of the report
    "8gpu-h800-nvlink-s.txt": (
        (0, 1, 7), 24, (), 26.562e9, ("line 19 leaves something out", "GPU 2, 3, 4, 5, 6 not"),
    ),
    "8gpu-v100-inactive.txt": (
        tuple(range(7)), 42, ((3, 3), (3, 5), (4, 1), (5, 0), (5, 4), (6, 1)), 25.781e9,
        ("2 of 6 NVLinks of GPU 3 are inactive: lanes 3, 5", "1 of 6 NVLinks of GPU 4",
         "2 of 6 NVLinks of GPU 5", "1 of 6 NVLinks of GPU 6", "its end may be cut"),
    ),
    "a100-good.txt": ((7,), 12, (), 25e9, ("GPU 0, 1, 2, 3, 4, 5, 6 not listed",)),
    "a100-gpud.txt": (tuple(range(8)), 96, (), 25e9, ("its end may be cut",)),
}  # fmt: skip


def test_every_recorded_file_has_expectations(shared_dir):
    assert {p.name for p in (shared_dir / "machines/nvidia-smi-nvlink").iterdir()} == set(GOLDEN)


@pytest.mark.parametrize("name", sorted(GOLDEN))
def test_says_what_the_file_says(shared_dir, name):
    facts = facts_of(shared_dir / "machines/nvidia-smi-nvlink" / name)
    indices, lanes, inactive, rate, words = GOLDEN[name]
    assert tuple(d.index for d in facts.devices) == indices
    assert len({d.uuid for d in facts.devices}) == len(indices)
    assert len(facts.lanes) == lanes
    down = [(row_of(facts)[x.device], x.lane) for x in facts.lanes if x.bytes_per_s is None]
    assert tuple(down) == inactive
    assert {x.bytes_per_s for x in facts.lanes} - {None} == {rate}
    assert len(facts.report) == len(words)
    for word in words:
        assert any(word in line for line in facts.report)


def test_mig_slices_are_children_of_their_gpu(shared_dir):
    facts = facts_of(shared_dir / "machines/nvidia-smi-L/1gpu-a100-7mig.txt")
    parent, *slices = facts.devices
    assert (parent.id, parent.index, parent.parent) == ("GPU0", 0, None)
    assert [s.id for s in slices] == [f"GPU0/{i}" for i in range(7)]
    assert {(s.parent, s.index, s.name) for s in slices} == {
        ("GPU0", None, "NVIDIA A100-SXM4-80GB MIG 1g.10gb")
    }
    assert slices[6].uuid == "MIG-00000000-0000-0000-0000-000000000006"
    assert (facts.lanes, facts.origin) == ((), "nvidia-smi -L text")


HEAD = "GPU {}: NVIDIA A100 (UUID: GPU-0000000{}-0000-0000-0000-000000000000)\n"


@settings(max_examples=50, deadline=None)
@given(
    st.lists(
        st.lists(st.one_of(st.none(), st.integers(1, 99_999)), min_size=1, max_size=18),
        min_size=1, max_size=8,
    )
)  # fmt: skip
def test_reads_back_what_was_printed(rates):
    text = "".join(
        HEAD.format(i, i)
        + "".join(
            f"\t Link {n}: " + ("<inactive>" if rate is None else f"{rate / 1000:g} GB/s") + "\n"
            for n, rate in enumerate(gpu)
        )
        for i, gpu in enumerate(rates)
    )
    facts = facts_of_text(text)
    found = {(row_of(facts)[x.device], x.lane): x.bytes_per_s for x in facts.lanes}
    expected = {(i, n): rate for i, gpu in enumerate(rates) for n, rate in enumerate(gpu)}
    assert found.keys() == expected.keys()
    for key, rate in expected.items():
        assert found[key] == (None if rate is None else pytest.approx(rate * 1e6, rel=1e-5))
