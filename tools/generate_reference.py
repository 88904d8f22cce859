"""Write what follows from code and files: command line, catalogue, records, recipes' versions.

Usage: generate_reference.py [--check [--quick]]
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from calls_page import calls_page
from collectives_page import collectives_page
from gain_page import gain_page
from patterns_page import patterns_page

from toposeat.cli.main import verbs_of, whole_parser
from toposeat.errors import NOT_AS_PLANNED
from toposeat.installed import VERSION
from toposeat.model.shape_text import KNOWN_SHAPES
from toposeat.model.topology import Topology
from toposeat.report.view.machine import remarks
from toposeat.topology import catalogue_names, read_topology
from toposeat.topology.formats import FORMATS, TREES, not_read

_ROOT = Path(__file__).resolve().parents[1]
_FOLDER = _ROOT / "docs"
_OF_EVERY_VERB = {"help", "verbose", "json"}
_NOTE = "<!-- made by tools/generate_reference.py; do not edit -->\n"


def command_line_page() -> str:
    """Every verb with its options.

    Made from the parsers' actions, not from argparse's own help text, whose layout differs between
    Python versions.
    """
    parts = [
        _NOTE,
        "# Command line\n",
        "Every verb takes `-v` (say more) and `--json` (the result as JSON on stdout).",
        "Results go to stdout, everything else to stderr. Write `--` before a wrapped command.",
        "Exit codes: 0 success, 1 failure, 2 wrong usage, 127 program not found; `profile`, `run`",
        "and `tune` return the exit code of the application. `run --strict` ends with "
        f"{NOT_AS_PLANNED} if a rank was not as",
        "planned, or used a device that could not be checked; an application's own code other than "
        "0 goes first.\n",
    ]
    verbs = verbs_of(whole_parser())
    rows = {name: list(_option_rows(parser)) for name, parser in verbs.items()}
    takers: dict[str, list[str]] = {}
    for name, own in rows.items():
        for row in own:
            takers.setdefault(row, []).append(name)
    several = {row for row, names in takers.items() if len(names) >= _SEVERAL}
    for name, parser in verbs.items():
        parts += [f"## toposeat {name}\n", f"{parser.description}\n"]
        own = [row for row in rows[name] if row not in several and takers[row][0] == name]
        parts += [*(_HEAD if own else ()), *own]
        # What an earlier verb or the last section explains is only named here.
        named: dict[str, list[str]] = {}
        for row in rows[name]:
            if row not in own:
                first = _ALL if row in several else takers[row][0]
                named.setdefault(first, []).append(f"`{row.split('`')[1]}`")
        if named:
            several_last = sorted(named, key=_ALL.__eq__)
            told = (f"{', '.join(named[first])}: {_explained(first)}" for first in several_last)
            parts.append(f"\nAlso {'; '.join(told)}.")
        parts.append("")
    parts += ["## Options of several verbs\n", *_HEAD, *filter(several.__contains__, takers), ""]
    return "\n".join(parts)


_SEVERAL = 4  # verbs, whose option is explained in a section of its own
_ALL = ""
_HEAD = ("| argument | meaning |", "|---|---|")


def _explained(first: str) -> str:
    """The link to where options are explained: a verb, or the section of several."""
    if first == _ALL:
        return "[as of other verbs](#options-of-several-verbs)"
    return f"[as of {first}](#toposeat-{first})"


def _option_rows(parser: argparse.ArgumentParser) -> Iterator[str]:
    for action in parser._actions:
        if action.dest in _OF_EVERY_VERB:
            continue
        # A "|" would end the table's cell, also inside a code span.
        value = action.metavar or "/".join(map(str, action.choices or [action.dest.upper()]))
        names = ", ".join(action.option_strings)
        form = f"{names} {value}" if names and action.nargs != 0 else names or str(value)
        yield f"| `{form}` | {action.help or ''} |"


def catalogue_page() -> str:
    """Every machine of the catalogue with its sources."""
    parts = [
        _NOTE,
        "# Catalogue of known machines\n",
        "The machines are described from published facts; numbers are `nominal` unless the machine",
        "file says otherwise. `toposeat discover -t NAME -v` names the sources of each, and what",
        "of it is assumed.\n",
        "| name | devices | links | description |\n|---|---|---|---|",
    ]
    machines = [read_topology(name) for name in catalogue_names()]
    parts += [
        f"| `{m.name}` | {len(m.devices)} | {len(m.links)} | {_described(m)} |" for m in machines
    ]
    parts += [
        f"| `{known.name}` | {known.hosts} hosts | {known.kind} | {known.description} |"
        for known in KNOWN_SHAPES.values()
    ]
    return "\n".join(parts) + "\n"


def _described(machine: Topology) -> str:
    """What it is, and what of it stands for no product."""
    invented = [remark for remark in remarks(machine) if remark.startswith("invented")]
    return "; ".join([machine.description, *invented])


def mpi_calls_page() -> str:
    """Every MPI call that the interposer sees."""
    table = (_ROOT / "interposer" / "calls.tsv").read_text(encoding="utf-8")
    return f"{_NOTE}{calls_page(table)}"


def algorithms_page() -> str:
    """Every collective's algorithms."""
    return f"{_NOTE}{collectives_page()}"


def traffic_patterns_page() -> str:
    """Every traffic pattern."""
    return f"{_NOTE}{patterns_page()}"


def formats_page() -> str:
    """Every file format that describes a machine, in the order of detection."""
    parts = [
        _NOTE,
        "# Files that describe a machine\n",
        "`-t FILE` reads these formats and recognises them by content, in this order. The name of",
        "the file matters only if it ends in `.toml`, as that of a",
        "[machine file](../how-to/describe-a-machine.md#in-a-file-of-your-own).",
        "Several files of one machine are [merged](../explanation/merging.md).\n",
        "| format | how to get one | what it states |\n|---|---|---|",
    ]
    parts += [f"| {f.name} | `{f.command}` | {f.tells} |" for f in FORMATS]
    parts += [f"| {t.name} | `{t.command}` | {t.tells} |" for t in TREES]
    parts.append("\nFormats that are recognised and refused:\n")
    parts += [f"- {what}; {instead}" for what, instead, _ in not_read("first")]
    parts.append(
        "\nTexts that are refused alone, and named where other outputs are in the same file:\n"
    )
    parts += [f"- {what}; {instead}" for what, instead, _ in not_read("beside")]
    parts += [
        "\n## Which formats show that device links exist, and which that they do not\n",
        "A file without an NVLink may just not mention it. Only a format with *absence* shows",
        "that a pair has no device link (NVLink, xGMI, Xe Link). With others it follows from the",
        "product, or the pair is [untold](doctor.md#what-is-untold). A measured pair is known.",
        "Formats that are not in this table show neither.\n",
        "| format | presence | absence | near CPUs or memory node | condition |",
        "|---|---|---|---|---|",
    ]
    parts += [
        f"| {f.name} | {_told('presence' in f.shows)} | {_told('absence' in f.shows)}"
        f" | {_told('affinity' in f.shows)} | {f.when} |"
        for f in (*FORMATS, *TREES)
        if f.shows
    ]
    return "\n".join(parts) + "\n"


def _told(can: bool) -> str:
    return "yes" if can else "-"


def records_page() -> str:
    """Every decision record, what became part of another, and the numbers that none has."""
    parts = [
        _NOTE,
        "# Decision records\n",
        "Each record explains a decision that holds today, with its reasons and what was rejected.",
        "There are at most 25, each of at most 60 lines of 120 columns. What belongs to a record",
        "becomes a section of it; a new one takes the next number, and no number is used twice.",
        "Those that are missing below became sections (`Holds what was`), or were never used.\n",
        "| number | title | status |\n|---|---|---|",
    ]
    for path in sorted((_FOLDER / "adr").glob("[0-9]*.md")):
        text = path.read_text(encoding="utf-8")
        head = re.match(r"# (\d{4}): (.+)\n\nStatus: (.+)\n", text)
        if head is None or head[1] != path.name[:4]:
            raise ValueError(f"{path} does not begin with '# NUMBER: TITLE' and 'Status: STATUS'")
        parts.append(f"| [{head[1]}]({path.name}) | {head[2]} | {head[3]} |")
    return "\n".join(parts) + "\n"


def tables_of_gains(*, quick: bool = False) -> str:
    """The page of gains with its tables computed anew."""
    return gain_page((_FOLDER / "gain.md").read_text(encoding="utf-8"), quick=quick)


def recipe(name: str, version: str) -> Callable[[], str]:
    """A recipe, or another file, of which `version` finds the version, with this one."""
    text = (_ROOT / name).read_text(encoding="utf-8")
    assert re.search(version, text), name
    return lambda: re.sub(version, VERSION, text)


_CONDA = "packaging/conda/recipe.yaml"
_CORE = "core/cmake/version.cmake"
_SPACK = "packaging/spack_repo/toposeat/packages/py_toposeat/package.py"
PAGES = {
    f"../{_CONDA}": recipe(_CONDA, r'(?<=\n  version: ")[^"]+'),
    f"../{_CORE}": recipe(_CORE, r'(?<=version ")[^"]+'),
    f"../{_SPACK}": recipe(_SPACK, r'(?<=toposeat-).+(?=\.tar\.gz"\n)|(?<=    version\(")[^"]+'),
    "gain.md": tables_of_gains,
    "reference/formats.md": formats_page,
    "reference/cli.md": command_line_page,
    "reference/catalogue.md": catalogue_page,
    "reference/calls.md": mpi_calls_page,
    "reference/collectives.md": algorithms_page,
    "reference/patterns.md": traffic_patterns_page,
    "adr/README.md": records_page,
}


def main() -> int:
    """Write the pages, or with --check say which are stale."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; fail if stale")
    parser.add_argument("--quick", action="store_true", help="without the gains on networks")
    arguments = parser.parse_args()
    check = arguments.check
    quick = {"gain.md": partial(tables_of_gains, quick=True)} if arguments.quick else {}
    stale = []
    for name, make in (PAGES | quick).items():
        path, text = _FOLDER / name, make()
        if path.exists() and path.read_text() == text:
            continue
        stale.append(name)
        if not check:
            path.write_text(text)
    verb = "stale" if check else "wrote"
    print(f"{verb}: {', '.join(stale) or 'nothing'}")
    return 1 if check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
