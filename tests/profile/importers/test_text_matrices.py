"""Matrices and pair lists in text files: forms, recorded applications, damage with its line."""

import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.tables import literals
from toposeat.errors import InputError
from toposeat.model.traffic import MemorySpace, PairTable, TrafficKind
from toposeat.profile import holds_traffic, read_traffic

TABLES = literals(Path(__file__).with_name("matrices.txt"))

HEAD = "source,target,bytes\n"
LONG_HEAD = "source,target,bytes,messages\n"
quick = settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


def written(tmp_path, text, name="matrix.csv"):
    path = tmp_path / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def test_row_is_sender(tmp_path):
    traffic = read_traffic(written(tmp_path, "0,5,0\n7,0,0\n0,0,0\n"))
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
def test_forms_of_a_matrix(tmp_path, text):
    traffic = read_traffic(written(tmp_path, text))
    assert traffic.table().dense_bytes(2).tolist() == [[0, 5], [7, 0]]


def test_fractions_are_rounded_and_that_is_said(tmp_path):
    traffic = read_traffic(written(tmp_path, "0,1000.25\n999.5,0\n"))
    assert traffic.origin == "CSV matrix matrix.csv"
    assert traffic.table().bytes.tolist() == [1000, 1000]
    assert any("rounded" in line for line in traffic.report)


@pytest.mark.parametrize(("text", "line", "cause"), TABLES["damaged"])
def test_damage_is_named_with_its_line(tmp_path, text, line, cause):
    path = written(tmp_path, text)
    with pytest.raises(InputError) as caught:
        read_traffic(path)
    assert cause in caught.value.message
    assert caught.value.line == line
    assert caught.value.message.startswith(f"{path}:{line}: " if line else f"{path}: ")
    assert caught.value.hint
    assert "\n" not in caught.value.message


def test_recorded_applications(shared_dir):
    files = sorted((shared_dir / "traffic").glob("*.csv"))
    assert len(files) >= 10
    for path in files:
        name, kind, *_ = path.name.split(".")
        traffic = read_traffic(path)
        recorded = path.parent / f"{name}.json"  # has all kinds of most applications
        if recorded.exists():
            expected = np.array(json.loads(recorded.read_text())["kinds"][kind]["bytes"])
        else:
            expected = np.loadtxt(path, delimiter=",", dtype=np.int64)
        assert np.array_equal(traffic.table().dense_bytes(traffic.ranks), expected), path.name


@quick
@given(
    matrix=st.integers(2, 6).flatmap(
        lambda n: st.lists(
            st.lists(st.integers(0, 2**55), min_size=n, max_size=n), min_size=n, max_size=n
        )
    ),
)
def test_what_is_written_is_read(tmp_path, matrix):
    text = "\n".join(",".join(map(str, row)) for row in matrix)
    traffic = read_traffic(written(tmp_path, text))
    assert traffic.table().dense_bytes(len(matrix)).tolist() == matrix


@pytest.mark.parametrize(
    "text",
    [
        LONG_HEAD + "0,1,5,2\n2,0,7,1\n",
        "# a run\n\nsource,target,bytes,messages\r\n0,1,5,2\r\n\r\n2,0,7,1\r\n",
        "\ufeff" + LONG_HEAD + "0,1,5,2\n# between\n2,0,7,1",
        LONG_HEAD + "0,1,2,1\n2,0,7,1\n0,1,3,1\n",
    ],
)
def test_forms_of_a_pair_list(tmp_path, text):
    path = written(tmp_path, text)
    traffic = read_traffic(path)
    assert (traffic.origin, traffic.ranks) == ("pair list matrix.csv", 3)
    assert holds_traffic(path)
    assert traffic.table() == PairTable.from_pairs([0, 2], [1, 0], [5, 7], [2, 1])
    assert traffic.report == (
        "a pair list does not say where the buffers were: device memory is assumed",
    )


def test_pairs_without_messages_and_silent_ranks_at_the_end(tmp_path):
    text = "# ranks=10\n" + HEAD + "0,1,5\n0,1,6\n1,0,0\n"
    traffic = read_traffic(written(tmp_path, text))
    assert traffic.table() == PairTable.from_pairs([0, 1], [1, 0], [11, 0], [2, 1])
    assert "one message per line" in traffic.report[0]
    assert traffic.ranks == 10


def test_a_matrix_whose_labels_are_other_words_stays_a_matrix(tmp_path):
    assert read_traffic(written(tmp_path, "a,b,c\n0,1,2\n3,0,4\n5,6,0\n")).ranks == 3
    with pytest.raises(InputError, match="not square"):
        read_traffic(written(tmp_path, "source,target,size,bytes\n0,1,2,3\n"))


@quick
@given(
    rows=st.lists(
        st.tuples(*(st.integers(0, most) for most in (40, 40, 2**40, 99))), min_size=1, max_size=30
    )
)
def test_pairs_are_added_up(tmp_path, rows):
    body = "".join(",".join(map(str, row)) + "\n" for row in rows)
    traffic = read_traffic(written(tmp_path, LONG_HEAD + body))
    size = Counter()
    count = Counter()
    for a, b, nbytes, messages in rows:
        size[a, b] += nbytes
        count[a, b] += messages
    table = traffic.table()
    ends = list(zip(table.source.tolist(), table.target.tolist(), strict=True))
    assert Counter(dict(zip(ends, table.bytes.tolist(), strict=True))) == size
    assert Counter(dict(zip(ends, table.messages.tolist(), strict=True))) == count
    assert traffic.ranks == 1 + max(max(a, b) for a, b, _, _ in rows)
