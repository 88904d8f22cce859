from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.profile.importers.soundness import reads_or_refuses
from tests.support.mutations import damaged
from toposeat.errors import InputError
from toposeat.profile import read_traffic
from toposeat.profile.importers.matrices import read_treematch_matrix


def test_numbers_between_blanks(tmp_path: Path) -> None:
    path = tmp_path / "comm.mat"
    path.write_text("# LU, class A\n  0 1000 1e3\n1000\t0  10.0 \n1000 10 0\n")
    traffic = read_traffic(path)
    assert traffic.origin == "TreeMatch matrix comm.mat"
    assert traffic.table().dense_bytes(3).tolist() == [
        [0, 1000, 1000],
        [1000, 0, 10],
        [1000, 10, 0],
    ]
    assert not any("rounded" in line for line in traffic.report)


def test_fractions_are_rounded_and_that_is_said(tmp_path: Path) -> None:
    path = tmp_path / "comm.mat"
    path.write_text("0 1000.25\n999.5 0\n")
    traffic = read_traffic(path)
    assert traffic.table().bytes.tolist() == [1000, 1000]
    assert any("rounded" in line for line in traffic.report)


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("0 1\n2 x\n", 2, "column 2: 'x' is not a number"),
        ("0 1\n2 -3\n", 2, "is negative"),
        ("0 1 2\n1 0\n1 1 1\n", 2, "expected 3 columns, found 2"),
        ("0 1\n", 1, "not square: 1 rows of 2 columns"),
        ("0 1e30\n1 0\n", 1, "too large"),
        ("0 0.3\n0.3 0\n", None, "too small to be bytes"),
    ],
)
def test_damage_is_named(tmp_path: Path, text: str, line: int | None, words: str) -> None:
    path = tmp_path / "comm.mat"
    path.write_text(text)
    with pytest.raises(InputError, match=words) as caught:
        read_traffic(path)
    assert caught.value.line == line


@settings(max_examples=80, deadline=None, suppress_health_check=list(HealthCheck))
@given(content=damaged(b"0 1000 1e3\n1000 0 10.5\n1000 10 0\n"))
def test_damaged_files_are_read_or_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "comm.mat"
    path.write_bytes(content)
    reads_or_refuses(lambda: read_treematch_matrix(path))


@st.composite
def matrices(draw: st.DrawFn) -> list[list[int]]:
    ranks = draw(st.integers(2, 8))
    row = st.lists(st.integers(0, 10**12), min_size=ranks, max_size=ranks)
    return draw(st.lists(row, min_size=ranks, max_size=ranks))


@settings(max_examples=40, suppress_health_check=list(HealthCheck))
@given(matrix=matrices())
def test_any_matrix_of_whole_numbers(tmp_path: Path, matrix: list[list[int]]) -> None:
    path = tmp_path / "comm.mat"
    path.write_text("\n".join(" ".join(map(str, row)) for row in matrix))
    assert read_traffic(path).table().dense_bytes(len(matrix)).tolist() == matrix
