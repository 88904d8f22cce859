"""`compare PATTERN`: the options of the microbenchmark program, and its runs."""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from toposeat.cli.command import (
    natural,
    print_command,
    print_json,
    read_machine,
    require_launch,
    show,
    show_decided,
    tell,
)
from toposeat.cli.progress import progress_bar
from toposeat.errors import UsageError
from toposeat.model.files import path_exists
from toposeat.model.map_options import MapOptions

if TYPE_CHECKING:
    from toposeat.model.topology import Topology
    from toposeat.pipeline import StackPath

_SIZES = "1..16M"
_RANDOMS, _REPEATS = 4, 5
_SIZE = re.compile(r"([0-9]{1,10})([KMG]?)(?:i?B)?", re.ASCII | re.IGNORECASE)
_UNITS = {"": 1, "k": 2**10, "m": 2**20, "g": 2**30}
_MAX_SIZE = 2**31 - 1
_STEP = 4  # between the sizes of a range
_OF_PATTERNS = ("sizes", "buffers", "random")
_OF_PLACEMENTS = ("traffic", "time", "node", "hosts")


def add_pattern_options(parser: argparse.ArgumentParser) -> None:
    """What is measured of a pattern."""
    group = parser.add_argument_group("of a pattern")
    group.add_argument(
        "--sizes",
        metavar="LIST",
        help=f"message sizes, 1,1K,1M or a range in steps of four (default: {_SIZES})",
    )
    group.add_argument(
        "--buffers",
        choices=("host", "device"),
        help="host memory, or the memory of the GPU that local rank i sees as number i "
        "(default: host)",
    )
    group.add_argument(
        "--random",
        metavar="N",
        type=natural,
        help=f"how many random orders; each repeat takes the next one (default: {_RANDOMS})",
    )


def pattern_of(args: argparse.Namespace) -> str:
    """The pattern that is given in place of placements; "" where these are files.

    Raises:
        UsageError: there are options of the one beside the other.
    """
    from toposeat import profile  # noqa: PLC0415
    from toposeat.model.runs import COLLECTIVES  # noqa: PLC0415

    first: Path = args.placements[0]
    name, colon, _ = str(first).partition(":")
    is_pattern = colon and name in (*profile.PATTERNS, *COLLECTIVES) and not path_exists(first)
    for option in _OF_PLACEMENTS if is_pattern else _OF_PATTERNS:
        if getattr(args, option) is not None:
            kind = "placements" if is_pattern else "a pattern"
            raise UsageError(f"--{option} is for {kind}", hint="leave it out")
    if is_pattern and len(args.placements) > 1:
        raise UsageError(
            f"{first} is a pattern, and something stands beside it", hint="one pattern at a time"
        )
    return str(first) if is_pattern else ""


def compare_pattern(args: argparse.Namespace, pattern: str) -> int:
    """Plan, run, and print one row per message size."""
    from toposeat import pipeline, report  # noqa: PLC0415
    from toposeat.launch import MicrobenchOptions  # noqa: PLC0415

    if args.launch is None:
        raise UsageError(
            f"{pattern} is a pattern, and there is no line that starts its ranks",
            hint=f"add one: -- mpirun -n N; or predict it: toposeat map {pattern}",
        )
    command = require_launch(args, "compare PATTERN")
    machine = read_machine(args.topology, to_plan=True)
    program = MicrobenchOptions(
        sizes=sizes_of(args.sizes or _SIZES),
        buffers=args.buffers or "host",
    )
    plan = pipeline.plan_pattern(
        pattern,
        machine,
        program,
        options=MapOptions(metric=args.metric, min_gain=0),
        randoms=_RANDOMS if args.random is None else args.random,
        path=_path(args, pattern, command, machine),
    )
    if args.dry_run:
        show_decided(args, as_remark=True)
        for line in pipeline.pattern_lines(plan, command):
            print_command(line)
        return 0
    repeats = _REPEATS if args.repeats is None else args.repeats
    tell(f"Compare   {pattern} on {machine.name}, {len(program.sizes)} sizes: running")
    with progress_bar("runs") as progress:
        result = pipeline.clock_pattern(plan, command, repeats=repeats, progress=progress)
    if args.json:
        print_json(report.document("toposeat/pattern/1", result), args)
    else:
        show(sys.stdout, report.render_pattern_text, result)
        show_decided(args)
    return 0


def _path(
    args: argparse.Namespace, pattern: str, command: Sequence[str], machine: Topology
) -> StackPath:
    """The way that the messages take; host buffers stand for copies straight between GPUs."""
    from toposeat import pipeline, profile  # noqa: PLC0415
    from toposeat.launch import MICROBENCH  # noqa: PLC0415

    if args.buffers != "device":
        if args.stack is not None:
            raise UsageError(
                f"--stack {args.stack[:40]} is for messages between GPUs, not for host buffers",
                hint="add --buffers device, or leave --stack out",
            )
        return pipeline.StackPath()
    ranks = profile.grid_exchange(pattern).ranks
    line = [*command, MICROBENCH]
    return pipeline.path_of_stack(args.stack, line, machine, ranks, environment=os.environ)


def sizes_of(text: str) -> tuple[int, ...]:
    """Message sizes from `1,1K,64KiB` or a range in steps of four, `1..16M`."""
    from toposeat.launch import MOST_SIZES  # noqa: PLC0415

    sizes: set[int] = set()
    for item in text.split(","):
        first, dots, last = (word.strip() for word in item.partition(".."))
        low = _one_size(first, text)
        high = _one_size(last, text) if dots else low
        if low > high:
            raise UsageError(
                f"--sizes {text[:80]}: {item!r} begins with the larger size",
                hint="for example: 1..16M",
            )
        while low <= high:
            sizes.add(low)
            low *= _STEP
        sizes.add(high)
    if len(sizes) > MOST_SIZES:
        raise UsageError(
            f"--sizes {text[:80]}: {len(sizes)} sizes", hint=f"at most {MOST_SIZES} in one run"
        )
    return tuple(sorted(sizes))


def _one_size(word: str, text: str) -> int:
    match = _SIZE.fullmatch(word)
    size = int(match[1]) * _UNITS[match[2].lower()] if match else 0
    if not 1 <= size <= _MAX_SIZE:
        raise UsageError(
            f"--sizes {text[:80]}: {word[:40]!r} is not a message size from 1 B to 2 GiB",
            hint="for example: --sizes 1,1K,64K,1M or --sizes 1..16M",
        )
    return size
