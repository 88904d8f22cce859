import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.model.samples import pair_topology
from toposeat.errors import InputError, UsageError
from toposeat.model.files import read_text, replace_atomically, write_atomically
from toposeat.topology import parse_topology, read_topology, save_topology


def saved(tmp_path):
    path = tmp_path / "machine.json"
    save_topology(pair_topology(), path)
    return path


def test_refuses_to_overwrite_and_keeps_the_old_file(tmp_path):
    path = tmp_path / "f"
    write_atomically(path, "old")
    with pytest.raises(UsageError, match="exists") as caught:
        write_atomically(path, "new")
    assert "-f" in caught.value.hint
    assert path.read_text() == "old"
    write_atomically(path, "new", overwrite=True)
    assert path.read_text() == "new"


def test_nothing_is_left_when_writing_fails(tmp_path):
    def fail(target):
        target.write_text("half")
        raise RuntimeError("power cut")

    path = tmp_path / "f"
    path.write_text("old")
    with pytest.raises(RuntimeError):
        replace_atomically(path, fail, overwrite=True)
    assert [p.name for p in tmp_path.iterdir()] == ["f"]
    assert path.read_text() == "old"


def test_missing_folder_is_a_usage_error(tmp_path):
    with pytest.raises(UsageError, match="not a directory"):
        write_atomically(tmp_path / "no" / "f", "x")


def test_a_list_is_no_machine(tmp_path):
    path = tmp_path / "x.json"
    path.write_text("[]")
    with pytest.raises(InputError, match="expected a JSON object"):
        parse_topology(read_text(path), path)


def test_binary_file_names_the_line_of_the_first_bad_byte(tmp_path):
    path = tmp_path / "x.json"
    path.write_bytes(b"{\n\xff\xfe")
    with pytest.raises(InputError, match="not a text file") as caught:
        parse_topology(read_text(path), path)
    assert caught.value.line == 2


def test_missing_file_and_folder(tmp_path):
    with pytest.raises(InputError, match="no such file"):
        read_text(tmp_path / "nothing")
    with pytest.raises(InputError, match="not a file"):
        read_text(tmp_path)


@given(st.data())
def test_any_damage_is_an_input_error_or_harmless(tmp_path_factory, data):
    folder = tmp_path_factory.mktemp("damage")
    text = saved(folder).read_text()
    start = data.draw(st.integers(0, len(text)))
    stop = data.draw(st.integers(start, min(len(text), start + 40)))
    damaged = text[:start] + data.draw(st.text(max_size=5)) + text[stop:]
    path = folder / "damaged.json"
    path.write_text(damaged, encoding="utf-8")
    try:
        read_topology(path)
    except InputError as error:
        assert error.message.count("\n") == 0
        assert error.hint


def test_one_record_of_a_list_is_one_line(tmp_path):
    text = saved(tmp_path).read_text()
    assert json.loads(text)["schema"] == "toposeat/topology/2"
    assert sum('"id": "gpu' in line for line in text.splitlines()) == 2
