"""The table of what was fuzzed: for a terminal, and for the documentation."""

from __future__ import annotations

from collections.abc import Sequence

from tests.fuzz.tally import Done, Tally, total
from tests.fuzz.target import Target

_HEADS = ("seeds", "inputs", "read", "refused", "causes", "faults", "worst", "CPU", "peak")
_GROUPS = {
    "machine": "Files of one machine",
    "network": "Files of networks",
    "job": "Placements and traffic",
    "string": "Texts on the command line: machines, networks, hosts, patterns",
}
_PAGE_HEAD = "| format | inputs | read | refused | causes | faults | worst | peak | last run |"
_PAGE = """\
<!-- made by python -m tests.fuzz.fuzz_readers --page docs/explanation/fuzzing.md; do not edit -->

# Fuzzing of the readers

Files come from other people's machines, so every reader must either read an input or refuse it in
one line with a hint. It must not crash, hang or use unbounded memory. `make fuzz` damages
well-formed inputs in one to four ways: it replaces numbers and words, drops, doubles and moves
lines and tags, cuts columns, cuts and mixes files, and changes encodings. In saved machine trees it
changes values, links, folders and pipes, in profiles and rank records binary fields (small, large
and neighbouring numbers, fields copied, cleared and shifted). These are faults: any other
exception, a message of several lines or without hint, more than 2 s of CPU, more than 512 MiB for
one input, a process that dies. A sixteenth of the topologies that are read are saved and read
again, and must be the same.

*Causes* is the number of different refusals, *worst* the slowest input in milliseconds of CPU,
*peak* the largest process (about 70 MiB of it is Python and the libraries). Inputs come in jobs of
2000. A job that finds a fault is counted only when it passes after the correction, so a row counts
what has passed, each job with the reader of its day. Readers change; `make fuzz` runs the jobs
again.
"""


def print_row(name: str = "format", cells: Sequence[object] = _HEADS) -> None:
    """One line for a terminal."""
    print(f"{name:38}" + "".join(f"{cell!s:>9}" for cell in cells), flush=True)


def print_target(target: Target, t: Tally) -> None:
    """What became of one format."""
    print_row(target.name, _cells(target, t))
    for what, times in t.faults.most_common():
        print(f"    {times} x {what}", flush=True)


def _cells(target: Target, t: Tally) -> tuple[object, ...]:
    return (
        *(len(target.seeds), t.inputs, t.read, t.refused, len(t.messages), t.faults.total()),
        *(f"{t.slowest_s * 1e3:.0f} ms", f"{t.cpu_s:.0f} s", f"{t.peak_bytes / 2**20:.0f} MiB"),
    )


def page(targets: Sequence[Target], done: Sequence[Done]) -> str:
    """The page of the documentation: everything that was done, by format."""
    lines = [_PAGE]
    for group, title in _GROUPS.items():
        rows = [_page_row(t, done) for t in targets if t.group == group]
        lines += [f"## {title}\n", _PAGE_HEAD, "|---|--:|--:|--:|--:|--:|--:|--:|---|", *rows, ""]
    inputs = sum(each.tally.inputs for each in done)
    lines.append(f"{inputs} inputs in all.")
    return "\n".join(lines) + "\n"


def _page_row(target: Target, done: Sequence[Done]) -> str:
    own = [each for each in done if each.job.target == target.name]
    t = total(each.tally for each in own)
    day = max((each.day for each in own), default="never")
    cells = (
        *(target.name, t.inputs, t.read, t.refused, len(t.messages), t.faults.total()),
        *(f"{t.slowest_s * 1e3:.0f} ms", f"{t.peak_bytes / 2**20:.0f} MiB", day),
    )
    return "| " + " | ".join(map(str, cells)) + " |"
