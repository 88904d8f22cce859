"""Pair lists: forms, damage with its line, and sums against dictionaries."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from toposeat.errors import InputError
from toposeat.model.traffic import PairTable
from toposeat.profile import holds_traffic, read_traffic
from toposeat.profile.importers.matrices import read_pair_list


def written(tmp_path: Path, text: str | bytes) -> Path:
    path = tmp_path / "pairs.csv"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


@pytest.mark.parametrize(
    "text",
    [
        "source,target,bytes,messages\n0,1,5,2\n2,0,7,1\n",
        "# a run\n\nsource,target,bytes,messages\r\n0,1,5,2\r\n\r\n2,0,7,1\r\n",
        "\ufeffsource,target,bytes,messages\n0,1,5,2\n# between\n2,0,7,1",
        "source,target,bytes,messages\n0,1,2,1\n2,0,7,1\n0,1,3,1\n",
    ],
)
def test_forms(tmp_path: Path, text: str) -> None:
    path = written(tmp_path, text)
    traffic = read_traffic(path)
    assert traffic.origin == "pair list pairs.csv"
    assert holds_traffic(path)
    assert traffic.ranks == 3
    assert traffic.table() == PairTable.from_pairs([0, 2], [1, 0], [5, 7], [2, 1])
    assert traffic.report == (
        "a pair list does not say where the buffers were: device memory is assumed",
    )


def test_without_messages_there_is_one_per_line_and_the_report_says_so(tmp_path: Path) -> None:
    traffic = read_pair_list(written(tmp_path, "source,target,bytes\n0,1,5\n0,1,6\n1,0,0\n"))
    assert traffic.table() == PairTable.from_pairs([0, 1], [1, 0], [11, 0], [2, 1])
    assert "one message per line" in traffic.report[0]


def test_silent_ranks_at_the_end(tmp_path: Path) -> None:
    text = "# ranks=10\nsource,target,bytes\n0,1,5\n"
    assert read_pair_list(written(tmp_path, text)).ranks == 10
    with pytest.raises(InputError, match="2 ranks, but the pairs need 4"):
        read_pair_list(written(tmp_path, "# ranks=2\nsource,target,bytes\n3,1,5\n"))


def test_a_matrix_whose_labels_are_other_words_stays_a_matrix(tmp_path: Path) -> None:
    assert read_traffic(written(tmp_path, "a,b,c\n0,1,2\n3,0,4\n5,6,0\n")).ranks == 3
    with pytest.raises(InputError, match="not square"):
        read_traffic(written(tmp_path, "source,target,size,bytes\n0,1,2,3\n"))


HEAD = "source,target,bytes\n"


@pytest.mark.parametrize(
    ("text", "line", "cause"),
    [
        (HEAD, None, "no pair"),
        (HEAD + "0,1\n", 2, "'0,1' is no line of 3 whole numbers"),
        (HEAD + "0,1,2\n\n0,1,2,3\n", 4, "is no line of 3"),
        (HEAD + "0,1,2\n0,1,-2\n", 3, "'0,1,-2'"),
        (HEAD + "0,x,2\n", 2, "'0,x,2'"),
        (HEAD + "0,,2\n", 2, "'0,,2'"),
        (HEAD + "0.5,1,2\n", 2, "'0.5,1,2'"),
        (HEAD + "0,4194304,2\n", None, "at most 4194304 are read"),
        (HEAD + "0,1,900000000000000000\n" * 6, None, "do not fit in 62 bits"),
        (HEAD + "0,1,9999999999999999999\n", 2, "is no line of 3"),
        (HEAD.encode() + b"0,1,\xff\n", None, "not a text file"),
    ],
)
def test_damage_is_named_with_its_line(
    tmp_path: Path, text: str | bytes, line: int | None, cause: str
) -> None:
    with pytest.raises(InputError) as caught:
        read_pair_list(written(tmp_path, text))
    assert cause in str(caught.value)
    assert caught.value.line == line
    assert caught.value.hint


pairs = st.lists(
    st.tuples(st.integers(0, 40), st.integers(0, 40), st.integers(0, 2**40), st.integers(1, 99)),
    min_size=1,
    max_size=30,
)


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(rows=pairs)
def test_pairs_are_added_up(tmp_path: Path, rows) -> None:
    body = "".join(",".join(map(str, row)) + "\n" for row in rows)
    traffic = read_pair_list(written(tmp_path, "source,target,bytes,messages\n" + body))
    size: Counter[tuple[int, int]] = Counter()
    count: Counter[tuple[int, int]] = Counter()
    for a, b, nbytes, messages in rows:
        size[a, b] += nbytes
        count[a, b] += messages
    table = traffic.table()
    ends = list(zip(table.source.tolist(), table.target.tolist(), strict=True))
    assert dict(zip(ends, table.bytes.tolist(), strict=True)) == dict(size)
    assert dict(zip(ends, table.messages.tolist(), strict=True)) == dict(count)
    assert traffic.ranks == 1 + max(max(a, b) for a, b, _, _ in rows)


@settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(body=st.text(alphabet="0123456789,.e+-# \r\n\tx\x00", max_size=60))
def test_any_text_is_read_or_refused(tmp_path: Path, body: str) -> None:
    try:
        traffic = read_pair_list(written(tmp_path, HEAD + body))
    except InputError as error:
        assert "\n" not in str(error)
    else:
        table = traffic.table()
        assert int(np.max([table.source, table.target])) < traffic.ranks
