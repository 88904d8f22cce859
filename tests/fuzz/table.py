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
    "string": "What is typed: machines, networks, hosts, patterns",
}
_PAGE_HEAD = "| format | inputs | read | refused | causes | faults | worst | peak | last run |"
_PAGE = """\
<!-- made by python -m tests.fuzz.fuzz_readers --page docs/explanation/fuzzing.md; do not edit -->

# What the readers were fuzzed with

Files come from other people's machines, so every reader must either read an input or refuse it in
one line with a hint: no crash, no hang, no unbounded memory. `make fuzz` damages well-formed inputs
(one to four of: numbers and words replaced, lines and tags dropped, doubled, moved, columns cut,
files cut and mixed, encodings changed; of saved machine trees: values, links, folders, pipes) and
counts as a fault: any other exception, a message of several lines or without hint, more than 2 s of
CPU, more than 512 MiB for one input, a process that dies. A sixteenth of the topologies that are
read are also saved and read again, and must be the same.

*Causes* are refusals told apart by their words, *worst* is the slowest input in milliseconds of
CPU, *peak* the largest process (about 70 MiB of it is Python and the libraries). Inputs come in
jobs of 2000; a job that found a fault is not counted here until it passes after the correction, so
a row says what has passed, each with the reader of its day. Readers change; `make fuzz` runs anew.
Of profiles and rank records the binary fields are damaged (small, large and neighbouring numbers,
fields copied, cleared and shifted).
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
