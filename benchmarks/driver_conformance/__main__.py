"""What this machine's CUDA driver answers, beside what the stand-in answers.

    python -m benchmarks.driver_conformance                      # beside the stand-in, on this GPU
    python -m benchmarks.driver_conformance --record real.json   # keep the answers
    python -m benchmarks.driver_conformance --compare real.json other.json

Codes, attributes and the rules of memory between processes, which devcopy, measure and MPI
libraries build on. Each question has a process of its own: a crash is an answer. Questions that
need two GPUs are not asked with one. Exit code 1 if answers differ.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from ctypes import byref, c_int
from pathlib import Path
from typing import Any

import benchmarks.driver_conformance.memory
import benchmarks.driver_conformance.sharing  # noqa: F401 - both hold questions
from benchmarks.driver_conformance.calls import Calls
from benchmarks.driver_conformance.record import NOT_ASKED, ask_all, question

from toposeat.emulation import emulated_machine, emulated_node, machine_text
from toposeat.topology import read_topology

_SCHEMA = "toposeat/driver-answers/1"
_MACHINE = "dgx-a100"


@question("driver: version")
def _version(calls: Calls) -> Any:
    version = c_int()
    calls.do("cuDriverGetVersion", byref(version))
    return version.value


def main(arguments: Sequence[str] | None = None) -> int:
    """Record, compare, or both."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--record", type=Path, metavar="F", help="write this driver's answers")
    parser.add_argument("--compare", type=Path, nargs=2, metavar="F", help="two records")
    parser.add_argument("--only", default="", help="questions whose name holds this")
    options = parser.parse_args(arguments)
    if options.compare:
        one, two = (_read(path) for path in options.compare)
        return _compared((str(options.compare[0]), one), (str(options.compare[1]), two))
    mine = _record(options.only)
    if options.record:
        options.record.write_text(json.dumps(mine, indent=1) + "\n")
        print(f"{len(mine['answers'])} answers of {mine['driver']} in {options.record}")
        return 0
    return _compared((mine["driver"], mine), ("stand-in", _of_stand_in(options.only)))


def _record(only: str) -> dict[str, Any]:
    answers = ask_all(only)
    machine = emulated_machine(os.environ)
    version = answers.pop("driver: version", None)
    name = f"stand-in ({machine})" if machine else f"CUDA driver {version}"
    return {"schema": _SCHEMA, "driver": name, "answers": answers}


def _of_stand_in(only: str) -> dict[str, Any]:
    """The stand-in's answers, asked by another process: two drivers in one would mix."""
    with (
        emulated_node(machine_text(read_topology(_MACHINE))) as node,
        tempfile.TemporaryDirectory(prefix="toposeat-conformance-") as folder,
    ):
        path = Path(folder, "answers")
        line = [sys.executable, "-m", "benchmarks.driver_conformance"]
        # beside a real driver it refuses unless it is told to
        more = {"TOPOSEAT_EMULATOR_FORCE": "1", "TOPOSEAT_EMULATOR_QUIET": "1"}
        subprocess.run(
            [*line, "--record", str(path), "--only", only],
            env={**node.environment(os.environ), **more},
            stdout=subprocess.DEVNULL,
            check=True,
        )
        return _read(path)


def _read(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise SystemExit(f"{path}: {error}") from error
    if not isinstance(found, dict) or found.get("schema") != _SCHEMA:
        raise SystemExit(f"{path}: no record of {_SCHEMA}")
    return found


def _compared(one: tuple[str, dict[str, Any]], two: tuple[str, dict[str, Any]]) -> int:
    labels = (f"{one[0]}: {one[1]['driver']}", f"{two[0]}: {two[1]['driver']}")
    print(f"{labels[0]}  |  {labels[1]}")
    found = _print_differences((one[0], two[0]), one[1]["answers"], two[1]["answers"])
    return 1 if found else 0


def _differences(one: dict[str, Any], two: dict[str, Any]) -> list[tuple[str, Any, Any]]:
    """Questions that both were asked and answered differently, or that one does not have."""
    names = list(dict.fromkeys([*one, *two]))
    pairs = [
        (name, one.get(name, "no such question"), two.get(name, "no such question"))
        for name in names
    ]
    return [(name, a, b) for name, a, b in pairs if NOT_ASKED not in (a, b) and a != b]


def _print_differences(labels: tuple[str, str], one: dict[str, Any], two: dict[str, Any]) -> int:
    """A table; how many differ."""
    found = _differences(one, two)
    both = [name for name in one if NOT_ASKED not in (one[name], two.get(name, NOT_ASKED))]
    left_out = len({*one, *two}) - len(both)
    print(f"{len(both)} questions asked of both, {left_out} of one or none; {len(found)} differ")
    for name, a, b in found:
        print(f"\n{name}\n  {labels[0]}: {json.dumps(a)}\n  {labels[1]}: {json.dumps(b)}")
    return len(found)


if __name__ == "__main__":
    sys.exit(main())
