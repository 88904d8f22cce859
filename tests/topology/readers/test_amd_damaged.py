"""Damaged output of AMD's and Intel's tools: read, or refused with one line."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.mutations import damaged
from tests.topology.readers import amd_samples as samples
from toposeat.errors import InputError
from toposeat.topology.formats import parse_file
from toposeat.topology.readers.file_text import decoded

SAMPLES: dict[str, Callable[[], str]] = {
    "rocm-smi": samples.rocm_smi_mi250x,
    "amd-smi": samples.amd_smi_mi250x,
    "amd-smi JSON": lambda: samples.amd_smi_json(
        samples.MI300X_BUS[:4], lambda i, j: 15 * (i != j), lambda i, j: "XGMI"
    ),
    "TransferBench": lambda: samples.transferbench(2, 4, lambda i, j: 50.0 + i - j),
    "TransferBench CSV": lambda: samples.transferbench(2, 4, lambda i, j: 9.0 + i, csv=True),
    "xpu-smi": lambda: samples.xpu_smi(2, 2, samples.max1550, ["0-51", "52-103"]),
    "KFD": lambda: samples.kfd_mi300a(3).text(),
    "KFD by grep": lambda: samples.kfd_mi250x().grep(),
}
RECORDED = {
    "rocm-bandwidth-test": "rocm-bandwidth-test/4gpu-nps4-distances.txt",
    "rocm-bandwidth-test, measured": "rocm-bandwidth-test/2gpu-mi50-noP2P.txt",
}
FEW = settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


def judge(data: bytes, path: Path) -> None:
    try:
        parsed = parse_file(decoded(data, path))
    except InputError as error:
        message = str(error)
        assert "\n" not in message
        assert len(message) < 900
        assert error.hint
        return
    assert parsed.devices


@pytest.mark.parametrize("name", SAMPLES)
def test_a_damaged_sample(name: str) -> None:
    content = SAMPLES[name]().encode()
    parse_file(decoded(content, Path("node.txt")))

    @FEW
    @given(damaged(content))
    def check(data: bytes) -> None:
        judge(data, Path("node.txt"))

    check()


@pytest.mark.parametrize("name", RECORDED)
def test_a_damaged_recording(name: str, shared_dir: Path) -> None:
    path = shared_dir / "machines" / RECORDED[name]
    content = path.read_bytes()

    @FEW
    @given(damaged(content))
    def check(data: bytes) -> None:
        judge(data, path)

    check()


@FEW
@given(st.permutations(range(6)), st.integers(0, 3))
def test_the_order_of_rows_and_of_tables_does_not_matter(order: list[int], first: int) -> None:
    """Tables may print devices in another order than the one before."""
    weight = {(i, j): 15 if (i + j) % 3 else 30 for i in range(6) for j in range(6)}

    def table(title: str, cell: Callable[[int, int], object], rows: list[int]) -> str:
        head = "       " + " ".join(f"GPU{i}" for i in rows)
        body = [f"GPU{i} " + " ".join(str(cell(i, j)) for j in rows) for i in rows]
        return "\n".join([f"=== {title} ===", head, *body, ""])

    parts = [
        table("Weight between two GPUs", lambda i, j: 0 if i == j else weight[i, j], order),
        table("Link Type between two GPUs", lambda i, j: "XGMI" if i != j else 0, list(range(6))),
    ]
    facts = parse_file(decoded("\n".join(parts[:: -1 if first % 2 else 1]).encode(), Path("x")))
    links = {frozenset((p.source, p.target)) for p in facts.pairs if p.bond is not None}
    assert links == {
        frozenset((f"GPU{i}", f"GPU{j}"))
        for i in range(6) for j in range(i) if weight[i, j] == 15
    }  # fmt: skip
