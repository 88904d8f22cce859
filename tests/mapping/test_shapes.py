"""Shapes of large machines: what is read, what is refused in one line."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from toposeat.errors import InputError, ToposeatError, UsageError
from toposeat.mapping import is_shape, read_shape
from toposeat.mapping.shapes import MAX_SLOTS


@pytest.mark.parametrize(
    ("text", "slots", "per_host"),
    [
        ("hierarchy:4:8:128", 4096, 32),
        ("hierarchy:4:8:128,node=1", 4096, 4),
        ("hierarchy:8", 8, 8),
        ("fattree:8:16:32:4", 16384, 8),
        ("torus3d:8x8x16,nodes=2", 2048, 1),
        ("torus4d:2x2x2x2,devices=4", 64, 4),
        ("dragonfly:9:16:4:4", 2304, 4),
        ("dragonfly:9:16:4", 576, 1),
    ],
)
def test_sizes(text, slots, per_host):
    shape = read_shape(text)
    assert is_shape(text)
    assert shape.slots == slots
    assert shape.slots_per_host == per_host
    assert len(shape.hosts) == len(set(shape.hosts)) == slots // per_host


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ("hierarchy:4:0:2", "a shape has 1 to"),
        ("hierarchy:99999999999", "a shape has 1 to"),
        ("hierarchy:65536:65536", "1 to 4194304 slots"),
        ("hierarchy:999999999", "1 to 4194304 slots"),
        ("hierarchy:", "not the shape"),
        ("hierarchy:4:-1", "not the shape"),
        ("hierarchy:4:8,costs=10:1", "costs must not fall"),
        ("hierarchy:4:8,costs=1:10:100", "costs has 3 numbers, expected 2"),
        ("hierarchy:4:8,costs=1:nan", "not a list of numbers"),
        ("hierarchy:4:8,costs=1:inf", "not a list of numbers"),
        ("hierarchy:4:8,costs=", "expected NAME=VALUE"),
        ("hierarchy:4:8,bandwidth=0", "from 1e-9 to 1e9 GB/s"),
        ("hierarchy:4:8,speed=3", "unknown option 'speed'"),
        ("hierarchy:4:8,costs=1,costs=2", "costs is given twice"),
        ("hierarchy:4:8,node=3", "node must be a whole number from 1 to 2"),
        ("torus3d:8x8x8,ends=closed", "ends must be joined or open"),
        ("torus3d:8x8", "torus3d has 3 sizes, got 2"),
        ("torus3d:8x8x8,nodes=0", "nodes must be a whole number"),
        ("torus3d:128x128x128,nodes=4", "more than 4194304 slots"),
        ("torus2d:100000x2", "65535 routers"),
        ("torus5d:2x2x2x2x2", "not the shape"),
        ("dragonfly:4", "a dragonfly has groups"),
        ("dragonfly:60000:60:1", "more links than memory"),
        ("fattree:8", "a fat tree has"),
    ],
)
def test_what_makes_no_sense_is_refused_in_one_line(text, cause):
    with pytest.raises(UsageError, match=re.escape(cause)) as error:
        read_shape(text)
    assert "\n" not in error.value.message
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
