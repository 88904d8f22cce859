"""The page on the MPI calls that the interposer sees, from interposer/calls.tsv."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

_INTRODUCTION = """# MPI calls that are recorded

This page is made from `interposer/calls.tsv`, from which the interposer itself is generated.

- The sending rank counts a call that returned `MPI_SUCCESS`. The origin of a get counts it, as a
  flow from its target. "Time" is time inside MPI.
- Forms: `X` blocking, `IX` nonblocking, `X_init` persistent (counted at each start), `X_c` with
  counts of type `MPI_Count`. What is in brackets may be left out: `MPI_Send[_init][_c]` is four
  calls.
- The interposer intercepts `MPI_X` and `PMPI_X`, which Fortran's bindings call."""

# The function of an action, and what it means. One that is missing here is an error.
_MEANING = {
    "on_send": "a message to the destination",
    "on_receive": "time; the sender counts the message",
    "on_start": "one execution of the persistent request",
    "on_startall": "one execution of each persistent request",
    "on_request_gone": "time; the request is removed",
    "on_barrier": "a collective event",
    "on_bcast": "a collective event with the root's bytes",
    "on_blocks": "a collective event with the bytes of one block",
    "on_gatherv": "a collective event with this rank's bytes",
    "on_scatter": "a collective event with the bytes of one block",
    "on_scatterv": "a collective event, and at the root exact messages",
    "on_alltoallv": "a collective event and exact messages",
    "on_alltoallw": "a collective event and exact messages",
    "on_reduce": "a collective event with the vector's bytes",
    "on_reduce_scatter": "a collective event with the bytes of all blocks",
    "on_neighbor": "exact messages to all neighbours, and a collective event",
    "on_neighbor_alltoallv": "exact messages to all neighbours, and a collective event",
    "on_neighbor_alltoallw": "exact messages to all neighbours, and a collective event",
    "on_put": "a one-sided message to the target",
    "on_get": "a one-sided message from the target",
    "on_exchange": "a one-sided message to the target and one back; with `MPI_NO_OP` only back",
    "on_file_request": "time, and that of the wait for it",
    "on_spawn": "time; the record says that it was called: what it started is not recorded",
    "handle_gone": "time; the handle is removed, because MPI reuses it",
}


def calls_page(table: str) -> str:
    """The page as Markdown."""
    parts = [_INTRODUCTION]
    calls: dict[str, list[str]] = {}  # of a section, by what is counted
    for line in table.splitlines():
        if line.startswith("# ---- "):
            parts += _rows(calls)
            calls = {}
        if line.startswith("# ---- Not wrapped"):
            parts += ["\n## Not recorded\n", "| calls | why |", "|---|---|"]
        elif line.startswith("# ---- "):
            parts += [f"\n## {line.removeprefix('# ---- ')}\n", "| call | counted |", "|---|---|"]
        elif line.startswith("#~ "):
            pattern, reason = line.removeprefix("#~ ").split("\t")
            parts.append(f"| {', '.join(f'`{name}`' for name in _names(pattern))} | {reason} |")
        elif line and not line.startswith(("#", "@")):
            name, variants, action, _ = line.split("\t")
            forms = [f"`MPI_{form}`" for form in _forms(name, set(variants.split()))]
            calls.setdefault(_meaning(name, action), []).extend(forms)
    return "\n".join([*parts, *_rows(calls)]) + "\n"


def _rows(calls: Mapping[str, Sequence[str]]) -> Iterator[str]:
    return (f"| {', '.join(forms)} | {meaning} |" for meaning, forms in calls.items())


def _forms(name: str, variants: set[str]) -> Iterator[str]:
    large = "[_c]" if "c" in variants else ""
    persistent = "[_init]" if variants & {"p", "P"} else ""
    yield f"{name}{persistent}{large}"
    if "i" in variants:
        yield f"I{name[0].lower()}{name[1:]}{large}"


def _meaning(name: str, action: str) -> str:
    if name == "Pcontrol":
        return "nothing; it marks phases (`--phases pcontrol`)"
    if action == "byhand":
        return "the record begins or ends"
    if action == "-":
        return "time"
    found = re.search(r"tps__(\w+)\(", action)
    if found is None:
        raise ValueError(f"no function in action {action!r}")
    return _MEANING[found.group(1)]


def _names(pattern: str) -> Iterator[str]:
    """A pattern as people write it: `A_*`."""
    readable = re.sub(r"\(\?!.*?\)(?=\(|\.)", "", pattern)
    readable = re.sub(r"\((\w+)\)\?", r"[\1]", readable).replace(".*", "*")
    yield "MPI_" + readable.replace("|", "/")
