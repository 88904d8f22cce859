"""Errors are one line of cause and one of hint, whatever was quoted in them."""

from pathlib import Path

import pytest

from toposeat.errors import ApplicationError, InputError, ToposeatError
from toposeat.topology import read_topology


@pytest.mark.parametrize(
    "character", ["\n", "\r", "\x0b", "\x0c", "\x1c", "\x85", "\u2028", "\u2029", "\x1b", "\x00"]
)
def test_control_characters_become_escapes(character):
    quoted = f"a{character}b"
    escaped = quoted.encode("unicode_escape").decode()
    for error in (
        ToposeatError(quoted, hint=quoted),
        InputError(quoted, hint=quoted, path=Path("f"), line=3),
        ApplicationError(quoted, hint=quoted, exit_code=1),
    ):
        assert len(str(error).splitlines()) == len(error.hint.splitlines()) == 1
        assert str(error) == error.message
        assert error.message.endswith(escaped)
        assert error.hint == escaped


def test_a_path_with_a_line_break_is_one_line():
    error = InputError("damaged", path="two\nlines.txt", line=7)
    assert str(error) == "two\\nlines.txt:7: damaged"


def test_letters_of_all_languages_stay():
    assert str(ToposeatError("Gerät 'π' ~ 設備")) == "Gerät 'π' ~ 設備"


def test_a_saved_tree_with_a_link_of_several_lines(tmp_path):
    devices = tmp_path / "sys/bus/pci/devices"
    devices.mkdir(parents=True)
    (devices / "two\nlines").symlink_to("/")
    with pytest.raises(InputError, match="leads out of the folder") as caught:
        read_topology(tmp_path)
    assert len(str(caught.value).splitlines()) == 1
    assert "two\\" in str(caught.value)
    assert caught.value.hint
