"""Shapes of large machines: what is read, what is refused in one line."""

import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.tables import rows
from toposeat.errors import InputError, ToposeatError, UsageError
from toposeat.mapping import is_shape, read_shape
from toposeat.model.shape_text import MAX_SLOTS
from toposeat.topology import read_network

SHAPES = Path(__file__).with_name("shapes.txt")


@pytest.mark.parametrize(("text", "slots", "per_host"), rows(SHAPES, "sizes"))
def test_sizes(text, slots, per_host):
    shape = read_shape(text)
    assert is_shape(text)
    assert (shape.slots, shape.slots_per_host) == (int(slots), int(per_host))
    assert len(shape.hosts) == len(set(shape.hosts)) == shape.slots // shape.slots_per_host


@pytest.mark.parametrize(("text", "cause"), rows(SHAPES, "refused"))
def test_what_makes_no_sense_is_refused_in_one_line(text, cause):
    with pytest.raises(UsageError, match=re.escape(cause)) as error:
        read_shape(text)
    assert "\n" not in error.value.message
    assert error.value.hint


@pytest.mark.parametrize(("text", "cause"), rows(SHAPES, "networks refused"))
def test_networks_that_make_no_sense_are_refused(text, cause, tmp_path):
    conf = tmp_path / "net.conf"
    conf.write_text("SwitchName=leaf Nodes=n[00-31]\n")
    with pytest.raises(ToposeatError, match=re.escape(cause)) as error:
        read_network(text.replace("net.conf", str(conf)))
    assert error.value.hint


@settings(deadline=None)
@given(
    st.from_regex(
        r"(hierarchy|fattree|torus3d|dragonfly):[0-9x:]{0,8}(,[a-z-]{1,9}=[-0-9.:en]{0,9}){0,3}",
        fullmatch=True,
    )
)
def test_any_text_is_read_or_refused(text):
    try:
        shape = read_shape(text)
    except ToposeatError as error:
        assert error.message
        assert error.hint
    else:
        assert 1 <= shape.slots <= MAX_SLOTS


def test_hosts_from_a_file(tmp_path):
    names = tmp_path / "hosts"
    names.write_text("alpha\nbeta\n", encoding="utf-8")
    assert read_shape(f"hierarchy:4:2,hosts={names}").hosts == ("alpha", "beta")
    with pytest.raises(InputError, match="2 host names for 3 nodes"):
        read_shape(f"hierarchy:4:3,hosts={names}")
    names.write_text("alpha\nalpha\n", encoding="utf-8")
    with pytest.raises(InputError, match="named twice"):
        read_shape(f"hierarchy:4:2,hosts={names}")
    with pytest.raises(InputError, match="no such file"):
        read_shape(f"hierarchy:4:2,hosts={tmp_path / 'none'}")
