"""The page on the MPI calls that the interposer sees, from interposer/calls.tsv."""

from __future__ import annotations

import re
from collections.abc import Iterator

_INTRODUCTION = """# The MPI calls that are seen

Made from `interposer/calls.tsv`, the table from which the interposer itself is generated.

- A call is counted when it returned `MPI_SUCCESS`, by the rank that sends (of a get: by the rank
  that asks, as a flow from its target). "Time" is time inside MPI.
- Forms: `X` blocking, `X_c` with counts of type `MPI_Count`, `IX` nonblocking, `X_init` persistent
  (counted at each start).
- Every one is seen as `MPI_X` and as `PMPI_X`, so that Fortran's bindings are seen too."""

# The function of an action, and what it means. One that is missing here is an error.
_MEANING = {
    "on_send": "a message to the destination",
    "on_receive": "time; the sender counts the message",
    "on_start": "what the persistent request does, once",
    "on_startall": "what each persistent request does, once",
    "on_request_gone": "time; the request is forgotten",
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
    "on_spawn": "time; the processes at the other side become a world with a number",
    "on_spawn_multiple": "as `MPI_Comm_spawn`; the first command names the world",
    "on_connection": "time; processes outside this world become one with a number",
    "on_join": "time; a process outside this world becomes one with a number",
    "handle_gone": "time; the handle is forgotten, since MPI uses it again",
}


def calls_page(table: str) -> str:
    """The page as Markdown."""
    parts = [_INTRODUCTION]
    for line in table.splitlines():
        if line.startswith("# ---- Not wrapped"):
            parts += ["\n## Not seen\n", "| calls | why |", "|---|---|"]
        elif line.startswith("# ---- "):
            parts += [f"\n## {line.removeprefix('# ---- ')}\n", "| call | counted |", "|---|---|"]
        elif line.startswith("#~ "):
            pattern, reason = line.removeprefix("#~ ").split("\t")
            parts.append(f"| {', '.join(f'`{name}`' for name in _names(pattern))} | {reason} |")
        elif line and not line.startswith(("#", "@")):
            name, variants, action, _ = line.split("\t")
            forms = ", ".join(f"`MPI_{form}`" for form in _forms(name, set(variants.split())))
            parts.append(f"| {forms} | {_meaning(name, action, variants)} |")
    return "\n".join(parts) + "\n"


def _forms(name: str, variants: set[str]) -> Iterator[str]:
    forms = [name]
    if "i" in variants:
        forms.append("I" + name[0].lower() + name[1:])
    if variants & {"p", "P"}:
        forms.append(f"{name}_init")
    for form in forms:
        yield form
        if "c" in variants:
            yield f"{form}_c"


def _meaning(name: str, action: str, variants: str) -> str:
    if "quiet" in variants:
        return "nothing"
    if name == "Pcontrol":
        return "nothing; it marks phases, if that is asked for"
    if action == "byhand":
        return "begin or end of the record"
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
