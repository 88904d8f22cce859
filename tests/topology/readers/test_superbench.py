"""SuperBench's gpu_copy results: engines, directions, NUMA nodes."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from tests.topology.readers.recorded import facts_of, facts_of_text
from toposeat.errors import InputError
from toposeat.topology.facts import MachineFacts


@pytest.fixture(scope="module")
def facts(shared_dir: Path) -> MachineFacts:
    return facts_of(shared_dir / "machines/superbench/2gpu-gpu_copy_bw.txt")


def values(facts: MachineFacts, engine: str, operation: str, *, both_ways: bool) -> np.ndarray:
    (found,) = (
        n for n in facts.pairs
        if (n.engine, n.operation, n.both_ways) == (engine, operation, both_ways)
    )  # fmt: skip
    return found.values


def test_pairs_by_engine_and_operation(facts: MachineFacts) -> None:
    assert values(facts, "ce", "write", both_ways=False)[0, 1] == pytest.approx(279.287e9)
    assert values(facts, "ce", "write", both_ways=False)[1, 0] == pytest.approx(278.308e9)
    assert values(facts, "sm", "read", both_ways=False)[1, 0] == pytest.approx(261.804e9)
    assert values(facts, "sm", "read", both_ways=False)[1, 1] == pytest.approx(682.311e9)
    assert values(facts, "ce", "read", both_ways=True)[1, 0] == pytest.approx(526.288e9)
    assert len(facts.pairs) == 8


def test_host_copies_for_each_numa_node_by_dma(facts: MachineFacts) -> None:
    found = {(h.device, h.numa_node): (h.to_device, h.from_device) for h in facts.host}
    assert found[0, 0] == (pytest.approx(26.2387e9), pytest.approx(25.8516e9))
    assert found[1, 1] == (pytest.approx(26.2412e9), pytest.approx(26.0804e9))
    assert len(found) == 4


def test_says_what_it_does_not_use(facts: MachineFacts) -> None:
    assert any("5 results of all GPUs at once" in line for line in facts.report)
    assert any("both directions at once" in line for line in facts.report)


def test_kernels_count_where_dma_was_not_run() -> None:
    facts = facts_of_text("gpu1_to_cpu_by_sm_under_numa0 6.5\ncpu_to_gpu0_by_dma_under_numa0 26\n")
    assert [(h.device, h.to_device, h.from_device) for h in facts.host] == [
        (0, 26e9, None),
        (1, None, 6.5e9),
    ]


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("gpu0_to_gpu1_by_sm 1\ngpu0_to_gpu1_by_sm 2\n", 2, "stated in line 1 already"),
        ("gpu0_to_gpu1_by_sm 0\n", 1, "a bandwidth of 0 GB/s"),
        ("gpu0_to_gpu1_by_sm 1.2.3\n", 1, "a bandwidth of 1.2.3 GB/s"),
        ("gpu0_to_gpu1_by_sm 9\ngpu1_to_gpu0_by_sm 38.1e-320\n", 2, "no pair of devices has it"),
        ("gpu0_to_gpu1_by_sm 9\ncpu_to_gpu0_by_dma 100001\n", 2, "no pair of devices has it"),
        ("gpu_all_to_gpu_all_write_by_sm 5\n", None, "no results of single GPUs"),
        ("gpu0_to_gpu999_by_sm 1\n", None, "no results of single GPUs"),
    ],
)
def test_refuses(text: str, line: int | None, words: str) -> None:
    with pytest.raises(InputError, match=re.escape(words)) as caught:
        facts_of_text(text)
    assert caught.value.line == line
    assert caught.value.hint
