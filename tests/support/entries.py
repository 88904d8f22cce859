"""The program that calls every entry point of calls.tsv, made from its cases.

The cases (tests/interposer/programs/entries.cases) are written once per row of the table; the forms
X, X_c, IX and X_init of each follow from the row. What an MPI does not declare is left out.
"""

import re
import sys
from dataclasses import dataclass
from pathlib import Path

from tests.support.interposed import PROGRAMS, compile_c
from tests.support.processes import ran

INTERPOSER = Path(__file__).resolve().parents[2] / "interposer"
sys.path.insert(0, str(INTERPOSER))
from generate import Wrapper, expand, newer_calls, parameters_of, wrappers  # noqa: E402, F401

TABLE = (INTERPOSER / "calls.tsv").read_text()
ROWS = [line for line in TABLE.splitlines() if line and line[0] not in "#@"]
BY_HAND = {f"MPI_{row.split(chr(9))[0]}" for row in ROWS if row.split("\t")[2] == "byhand"}
ALL_CALLS = BY_HAND | {wrapper.name for wrapper in wrappers(TABLE)}
NEWER = newer_calls(TABLE).keys()  # than MPI 3.1


def declarations(mpi):
    """Parameters of every C function that this MPI's header declares, without MPI_T."""
    done = ran(
        [str(mpi.mpicc), "-E", "-P", "-include", "mpi.h", "-xc", "/dev/null"],
        env=dict(mpi.env),
        check=True,
    )
    text = re.sub(r"__attribute__\s*\(\(.*?\)\)", " ", done.stdout)
    found = re.findall(r"\bint\s+(MPI_[A-Z]\w+)\s*\(([^()]*)\)\s*;", text)
    return {name: parameters for name, parameters in found if not name.startswith("MPI_T_")}


@dataclass(frozen=True)
class Case:
    """Rows of the table (none: plain C), and what to do with each form of their calls."""

    rows: tuple[str, ...]
    body: str


def read_cases(text):
    """The cases in order."""
    parts = re.split(r"^## (.*)$", text, flags=re.MULTILINE)[1:]
    return [
        Case(tuple(name for name in names.split() if name != "-"), body)
        for names, body in zip(parts[::2], parts[1::2], strict=True)
    ]


def _forms(row_name):
    row = next(row for row in ROWS if row.split("\t")[0] == row_name)
    return expand(row, "OTHER")


def _call(wrapper, persistent_row, arguments):
    """The C for one form of a call. `persistent_row`: the row itself ends with a request."""
    name = wrapper.name
    plain = name.removesuffix("_c")
    if persistent_row or not wrapper.form:
        return f"T({name}({arguments}))"
    if wrapper.form == "i":
        return f"MPI_Request own; T({name}({arguments}, &own)); wait_for(&own)"
    info = ", MPI_INFO_NULL" if "Info info" in wrapper.parameters else ""
    assert plain.endswith("_init")
    return (
        f"MPI_Request own; T({name}({arguments}{info}, &own));\n"
        "for (int i = 0; i < times; ++i) { T(MPI_Start(&own)); wait_for(&own); }\n"
        "T(MPI_Request_free(&own))"
    )


def _function(wrapper, row, body):
    found = re.search(r"CALL\(((?:[^()]|\([^()]*\))*)\);", body)
    assert found is not None, row
    call = _call(wrapper, row.endswith("_init"), found.group(1)) + ";"
    text = body[: found.start()] + call + body[found.end() :]
    suffix = "_c" if wrapper.large else ""
    text = re.sub(r"\b[ND]\((\w+)\)", rf"\g<1>{suffix}", text)
    text = text.replace("MPI_END", f"MPI_{row.removesuffix('begin')}end")
    restarted = wrapper.form == "init" and not row.endswith("_init")
    times = ("2" if "P2P" in body else "starts()") if restarted else "1"
    return (
        f'static void run_{wrapper.name}(void) {{\ntimes = {times};\n#define BASE "{row}"\n'
        f"{text}#undef BASE\ntimes = 1;\n}}\n"
    )


def _functions(declared):
    """Name and C text of every function, in order."""
    for number, case in enumerate(read_cases((PROGRAMS / "entries.cases").read_text())):
        if not case.rows:
            yield f"run_{number}", f"static void run_{number}(void) {{\n{case.body}}}\n"
        for row in case.rows:
            for wrapper in _forms(row):
                if wrapper.name in declared:
                    yield f"run_{wrapper.name}", _function(wrapper, row, case.body)


def compile_entries(mpi, folder):
    """The program for this MPI."""
    declared = set(declarations(mpi))
    made = folder / f"entries-{mpi.name}"
    made.mkdir(exist_ok=True)
    functions = list(_functions(declared))
    text = "".join(f"#define HAVE_{name} 1\n" for name in sorted(declared))
    text += "\n".join(body for _, body in functions)
    text += "static void run_cases(void) {\n"
    text += "".join(f"  {name}();\n" for name, _ in functions) + "}\n"
    (made / "entries_cases.h").write_text(text)
    return compile_c(mpi, PROGRAMS / "entries.c", folder, f"-I{made}", "-Wall")
