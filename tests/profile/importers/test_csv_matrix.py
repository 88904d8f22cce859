from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from toposeat.errors import InputError
from toposeat.model.traffic import MemorySpace, TrafficKind
from toposeat.profile.importers.matrices import read_csv_matrix


def written(tmp_path: Path, text: str | bytes) -> Path:
    path = tmp_path / "matrix.csv"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def test_row_is_sender(tmp_path: Path) -> None:
    traffic = read_csv_matrix(written(tmp_path, "0,5,0\n7,0,0\n0,0,0\n"))
    assert traffic.ranks == 3
    table = traffic.tables[TrafficKind.POINT_TO_POINT, MemorySpace.DEVICE]
    assert table.dense_bytes(3).tolist() == [[0, 5, 0], [7, 0, 0], [0, 0, 0]]
    assert table.messages.tolist() == [1, 1]
    assert len(traffic.report) == 2  # messages and memory are assumptions, and said to be
    assert "matrix.csv" in traffic.origin


@pytest.mark.parametrize(
    "text",
    [
        "# from a profile\n\n0,5\n7,0\n",
        "a,b\n0,5\n7,0\n",
        ",0,1\n0,0,5\n1,7,0\n",
        "rank,r0,r1\nr0,0,5\nr1,7,0\n",
        "0, 5\r\n7 ,0\r\n",
        "\ufeff0,5\n7,0",
        "0,5.0\n7e0,0\n",
        "   # indented comment\n0,5\n# between\n7,0\n",
    ],
)
def test_forms(tmp_path: Path, text: str) -> None:
    traffic = read_csv_matrix(written(tmp_path, text))
    assert traffic.table().dense_bytes(2).tolist() == [[0, 5], [7, 0]]


@pytest.mark.parametrize(
    ("text", "line", "cause"),
    [
        ("", None, "no number"),
        ("# nothing\n\n", None, "no number"),
        ("a,b\n", None, "no number"),
        ("0,1\n2\n", 2, "expected 2 columns, found 1"),
        ("0,1\n\n2,3,4\n", 3, "expected 2 columns, found 3"),
        ("0,1,2\n3,4,5\n", 2, "not square: 2 rows of 3 columns"),
        ("0,1\n2,3\n4,5\n", 3, "not square: 3 rows of 2 columns"),
        (",0,1\n0,0,5\n1,7\n", 3, "expected 3 columns, found 2"),
        ("0,1\n-2,3\n", 2, "column 1: -2 is negative"),
        ("0,1\nnan,3\n", 2, "column 1: nan is not a number of bytes"),
        ("0,inf\n2,3\n", 1, "column 2: inf is not a number of bytes"),
        ("0,1\n,3\n", 2, "column 1: the cell is empty"),
        ("0,1\n2,x\n", 2, "column 2: 'x' is not a number"),
        ("0,x\n2,1\n", 1, "column 2: 'x' is not a number"),
        ("0,1.5\n2,1\n", 1, "column 2: 1.5 is not a whole number"),
        ("0,0x10\n2,1\n", 1, "column 2: '0x10' is not a number"),
        ("0,٣\n2,1\n", 1, "is not a number"),
        ("0,1e30\n2,1\n", 1, "too large"),
        (f"0,{2**62}\n2,1\n", 1, "too large"),
        ("0,1e9999\n2,1\n", 1, "too large"),
        ("0,99999999999999999999\n2,1\n", 1, "too large"),
        ("0,3000000000000000000\n3000000000000000000,1\n", 2, "do not fit in 62 bits"),
        (b"0,1\n2,\xff\n", None, "not a text file"),
    ],
)
def test_damage_is_named_with_its_line(
    tmp_path: Path, text: str | bytes, line: int | None, cause: str
) -> None:
    path = written(tmp_path, text)
    with pytest.raises(InputError) as caught:
        read_csv_matrix(path)
    assert cause in caught.value.message
    assert caught.value.line == line
    assert caught.value.message.startswith(f"{path}:{line}: " if line else f"{path}: ")
    assert caught.value.hint
    assert "\n" not in caught.value.message


def test_a_missing_file_and_a_folder(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file"):
        read_csv_matrix(tmp_path / "nowhere.csv")
    with pytest.raises(InputError, match="a folder, not a file"):
        read_csv_matrix(tmp_path)


def test_recorded_applications(shared_dir: Path) -> None:
    files = sorted((shared_dir / "traffic").glob("*.csv"))
    assert len(files) >= 10
    for path in files:
        name, kind, *_ = path.name.split(".")
        traffic = read_csv_matrix(path)
        recorded = path.parent / f"{name}.json"  # has all kinds of most applications
        if recorded.exists():
            expected = np.array(json.loads(recorded.read_text())["kinds"][kind]["bytes"])
        else:
            expected = np.loadtxt(path, delimiter=",", dtype=np.int64)
        assert np.array_equal(traffic.table().dense_bytes(traffic.ranks), expected), path.name


@given(
    st.integers(1, 6).flatmap(
        lambda n: st.lists(
            st.lists(st.integers(0, 2**55), min_size=n, max_size=n), min_size=n, max_size=n
        )
    )
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_what_is_written_is_read(tmp_path: Path, matrix: list[list[int]]) -> None:
    text = "\n".join(",".join(map(str, row)) for row in matrix)
    traffic = read_csv_matrix(written(tmp_path, text))
    assert traffic.table().dense_bytes(len(matrix)).tolist() == matrix


@given(st.one_of(st.binary(max_size=60), st.text("0123456789,\n#-.einfaxr ", max_size=60)))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=300)
def test_any_file_is_traffic_or_an_input_error(tmp_path: Path, content: str | bytes) -> None:
    try:
        traffic = read_csv_matrix(written(tmp_path, content))
    except InputError as error:
        assert error.hint
    else:
        assert traffic.ranks >= 1
