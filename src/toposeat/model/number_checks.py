"""Ranges that every number of a machine must be within, and the errors for those that are not."""

from __future__ import annotations

from toposeat.model.quantity import Quantity

# Ranges that every link of a machine is within. Numbers beyond are typing errors, and their
# quotients would overflow in the evaluators.
BANDWIDTH_RANGE_BYTES_PER_S = (1e-3, 1e30)
MAX_LATENCY_S = 3600.0

# Ranges that every pair, device memory and bond is within: HBM4 carries 20 TB/s, and light goes
# 0.3 mm in a picosecond.
PAIR_RANGES = {"bandwidth": (1e-3, 1e14), "latency": (1e-12, MAX_LATENCY_S)}
_UNITS = {"bandwidth": "bytes/s", "latency": "s"}

MAX_INDEX = 999_999_999  # what placement files and the launcher can hold
MAX_MEMORY_BYTES = 1 << 60


def check_number(what: str, value: int | None, most: int) -> None:
    """Raise ValueError unless `value` is None or 0 to `most`."""
    if value is not None and not 0 <= value <= most:
        raise ValueError(f"{what} must be 0 to {most}, not {str(value)[:30]}")


def check_pair_number(what: str, value: float | None) -> None:
    """Raise ValueError on a bandwidth (bytes/s) or latency (s) that no pair has.

    None and NaN stand for "not known", 0 for a zero that a tool printed.
    """
    low, high = PAIR_RANGES[what]
    if value and (value < low or value > high):  # NaN is neither
        raise ValueError(
            f"a {what} of {value:g} {_UNITS[what]} is not within {low:g} to {high:g}: no pair of"
            " devices has it"
        )


def check_bandwidth(quantity: Quantity | None) -> None:
    """Raise ValueError on a bandwidth that no link has; 0 stands for "not known"."""
    low, high = BANDWIDTH_RANGE_BYTES_PER_S
    if quantity is not None and quantity.value and not low <= quantity.value <= high:
        raise ValueError(
            f"a bandwidth of {quantity.value:g} bytes/s is not within {low:g} to {high:g}"
        )


def check_latency(quantity: Quantity | None) -> None:
    """Raise ValueError on a latency that no link has."""
    if quantity is not None and quantity.value > MAX_LATENCY_S:
        raise ValueError(f"a latency of {quantity.value:g} s is beyond {MAX_LATENCY_S:g} s")
