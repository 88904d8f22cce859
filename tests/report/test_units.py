import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toposeat.model.plural import plural
from toposeat.report.units import (
    clean,
    format_bytes,
    format_count,
    format_gain,
    format_percent,
    format_power_of_two,
    format_rate,
    format_seconds,
    three_digits,
)

BY_FORM = {
    format_bytes: {
        **{0: "0 B", 512: "512 B", 1023: "1023 B", 1024: "1.00 KiB", 1536: "1.50 KiB"},
        **{1024**2 - 1: "1.00 MiB", 41.8 * 2**30: "41.8 GiB", 999 * 2**30: "999 GiB"},
        **{1023.9 * 2**30: "1024 GiB", 2**63: "8.00 EiB"},
    },
    format_seconds: {
        **{0: "0 s", 3.1: "3.10 s", 61.3: "61.3 s", 0.00162: "1.62 ms", 0.0009999: "1.00 ms"},
        **{12e-6: "12.0 us", 8e-9: "8.00 ns", 12345.0: "12345 s", math.inf: "?"},
    },
    format_rate: {12.3e9: "12.3 GB/s", 900e9: "900 GB/s", 1.8e12: "1.80 TB/s", 0: "0 B/s"},
    format_percent: {0.9999: "99.9 %", 1.0: "100 %", 0.0001: "<0.1 %", 0.0: "0 %"},
    format_count: {1234567: "1,234,567"},
    format_power_of_two: {0: "1 B", 9: "512 B", 10: "1 KiB", 16: "64 KiB", 63: "8 EiB"},
}
GAINS = {
    **{(3.10, 1.62): "saves 48 %", (100, 103): "costs 3 %", (5, 5): "0 %", (0, 0): "0 %"},
    **{(0, 5): "-", (1000, 996): "saves 0.4 %", (10000, 9999): "0 %", (1, math.nan): "-"},
    **{(1000, 1): "saves 99.9 %", (1, 0): "saves 100 %", (1, 1.8): "costs 80 %"},
    (1, 20): "costs 20.0x",
}


@pytest.mark.parametrize("form", BY_FORM)
def test_numbers(form):
    """Never rounded up to all, nor down to nothing."""
    assert {value: form(value) for value in BY_FORM[form]} == BY_FORM[form]


def test_gains_and_plurals():
    assert {ends: format_gain(*ends) for ends in GAINS} == GAINS
    counted = [(1, "link"), (3, "link"), (2, "switch")]
    assert [plural(*each) for each in counted] == ["1 link", "3 links", "2 switches"]


def test_clean_disarms_terminals():
    assert clean("a\x1b[31mred\x07") == "a\ufffd[31mred\ufffd"
    assert clean("two\nlines\tand\u2028more") == "two lines and more"
    assert clean("\u202egnp.exe") == "\ufffdgnp.exe"
    assert clean("Gerät 日本 🚀") == "Gerät 日本 🚀"


@given(st.text())
def test_clean_is_one_printable_line(text):
    assert clean(text) == "" or clean(text).isprintable()
    assert clean(clean(text)) == clean(text)


@given(st.floats(min_value=1e-9, max_value=1e15))
def test_three_digits_stay_close(value):
    assert float(three_digits(value)) == pytest.approx(value, rel=0.006)


@given(st.integers(min_value=1, max_value=2**62))
def test_bytes_stay_close(value):
    number, unit = format_bytes(value).split()
    factor = 1024 ** ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB").index(unit)
    assert float(number) * factor == pytest.approx(value, rel=0.006)
