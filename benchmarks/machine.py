"""What every benchmark shares: the line it begins with, taking turns, medians and quartiles."""

from __future__ import annotations

import argparse
import os
import platform
import random
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from statistics import median, quantiles
from typing import TypeVar

Taken = TypeVar("Taken")


def describe() -> str:
    """Processor, CPUs, load, system, date."""
    model = "unknown processor"
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            model = line.partition(":")[2].strip()
            break
    load = ", ".join(f"{each:.1f}" for each in os.getloadavg())
    today = datetime.now(UTC).date().isoformat()
    return (
        f"machine: {model}, {os.cpu_count()} CPUs, load {load}, {platform.system()}"
        f" {platform.release()}, Python {platform.python_version()}, {today}"
    )


def parser(doc: str, *, rounds: int) -> argparse.ArgumentParser:
    """Options of a benchmark: `--rounds`, and what the caller adds."""
    made = argparse.ArgumentParser(
        description=doc, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    made.add_argument("--rounds", type=int, default=rounds, help=f"default: {rounds}")
    return made


def in_turns(
    calls: Mapping[str, Callable[[], Taken]], rounds: int, *, warm: int = 1
) -> dict[str, list[Taken]]:
    """What each call returns, by its name; every round makes each once, in an order of its own.

    The first `warm` rounds are not counted: files, byte code and memory come into caches.
    """
    names, shuffle = list(calls), random.Random(1).shuffle
    taken: dict[str, list[Taken]] = {name: [] for name in names}
    for turn in range(rounds + warm):
        shuffle(names)
        for name in names:
            value = calls[name]()
            if turn >= warm:
                taken[name].append(value)
    return taken


def thread_ms(call: Callable[[], object]) -> Callable[[], float]:
    """CPU milliseconds of this thread: other work on a busy machine counts by its caches only."""

    def timed() -> float:
        begin = time.thread_time_ns()
        call()
        return (time.thread_time_ns() - begin) / 1e6

    return timed


def ratios(values: Sequence[float], reference: Sequence[float]) -> list[float]:
    """Of the same rounds: slow drift of the machine cancels."""
    return [a / b for a, b in zip(values, reference, strict=True)]


def differences(values: Sequence[float], reference: Sequence[float]) -> list[float]:
    """Of the same rounds."""
    return [a - b for a, b in zip(values, reference, strict=True)]


def middle(values: Sequence[float]) -> tuple[float, float, float]:
    """Median and both quartiles."""
    if len(values) < 2:
        return values[0], values[0], values[0]
    low, _, high = quantiles(values, n=4)
    return median(values), low, high


def markdown_table(head: Sequence[str], rows: Iterable[Iterable[str]]) -> Iterator[str]:
    """Its lines."""
    for row in (head, ["---"] * len(head), *rows):
        yield "| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |"


def rewrite_section(page: Path, name: str, text: str) -> None:
    """Put `text` between the two comments of a page that a command fills.

    Raises:
        ValueError: the page has no such pair of comments.
    """
    parts = re.compile(rf"(<!-- {name}: [^>]*-->\n).*?(<!-- end of {name} -->)", re.DOTALL)
    made, found = parts.subn(lambda part: f"{part[1]}{text}{part[2]}", page.read_text("utf-8"))
    if found != 1:
        raise ValueError(f"{page} has {found} sections '<!-- {name}: ... -->', not one")
    page.write_text(made, encoding="utf-8")
