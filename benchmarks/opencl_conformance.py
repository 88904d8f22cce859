"""Suites of OpenCL on the node's own device and on the same one, lent: by name of each test.

    python -m benchmarks.opencl_conformance RESULTS [--cts FOLDER] [--only SUITE...] [--native]
    python -m benchmarks.opencl_conformance RESULTS --table

FOLDER is a build of OpenCL-CTS; CLBlast and pyopencl are those of `make test`.
Every test of OpenCL-CTS is a process of its own, since some end it. RESULTS is a JSON file of what
is known already, which is not run again; --native runs the node's own device only. Exit code 1 if a
test that passes natively neither passes nor is skipped on the lent one.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path

from benchmarks.machine import markdown_table
from tests.support.lent import NATIVE, Proxy, run
from tests.virtual.test_clients import CLBLAST, PYOPENCL, clblast, pyopencl

_CTS = {
    "computeinfo": "computeinfo",
    "multiples": "multiple_device_context",
    **{each: each for each in ("buffers", "events", "profiling", "mem_host_flags", "api", "basic")},
}
_PYOPENCL = (
    *("enqueue_copy", "arrays_in_structs", "wrapper", "clmath", "clrandom", "algorithm", "array"),
)
SUITES = (
    *(f"CTS {name}" for name in _CTS),
    *(f"CLBlast {name}" for name in CLBLAST),
    *(f"pyopencl {name}" for name in _PYOPENCL),
)
_LIMIT_S = 600  # of a test
Results = dict[str, dict[str, dict[str, str]]]  # by device, suite and name


def _cts(
    name: str, build: Path, known: Mapping[str, str], environment: Mapping[str, str]
) -> Iterator[tuple[str, str]]:
    """Each test's name, and pass, fail, skip, crash or slow."""
    folder = build / "test_conformance" / _CTS[name]
    program: list[str | Path] = [folder / f"test_{name}"]
    listed = run([*program, "--list"], NATIVE, cwd=folder).stdout
    for test in listed.split():
        if test in known:
            continue
        with tempfile.TemporaryDirectory() as made:
            told = Path(made, "told.json")
            more = {"CL_CONFORMANCE_RESULTS_FILENAME": str(told)}
            try:
                run(
                    [*program, test], {**environment, **more}, cwd=folder, timeout=_LIMIT_S,
                    stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, capture_output=False,
                )  # fmt: skip
                yield test, json.loads(told.read_text())["results"][test]
            except subprocess.TimeoutExpired:
                yield test, "slow"
            except (OSError, KeyError, ValueError):
                yield test, "crash"


def _run_suite(
    suite: str, cts: Path | None, known: Mapping[str, str], environment: Mapping[str, str]
) -> Iterator[tuple[str, str]]:
    whose, _, name = suite.partition(" ")
    if whose == "CTS" and cts is not None:
        yield from _cts(name, cts, known, environment)
    elif whose == "CLBlast" and not known:
        for test, told in clblast(name, environment).items():
            yield test, "pass" if " 0 failed" in told else told
    elif whose == "pyopencl" and not known and PYOPENCL.is_dir():
        with tempfile.TemporaryDirectory() as folder:
            words = {"passed": "pass", "failure": "fail", "error": "fail", "skipped": "skip"}
            told = pyopencl([f"test_{name}.py"], environment, Path(folder))
            yield from ((test, words[each]) for test, each in told.items())


def _worse(native: Mapping[str, str], lent: Mapping[str, str]) -> dict[str, str]:
    return {
        test: lent.get(test, "absent")
        for test, was in native.items()
        if was == "pass" and lent.get(test, "absent") not in ("pass", "skip")
    }


def _table(results: Results) -> int:
    rows = []
    wrong = 0
    for suite, native in results.get("native", {}).items():
        lent = results.get("lent", {}).get(suite)
        if not native or not lent:
            continue
        worse = _worse(native, lent)
        wrong += len(worse)
        names = ", ".join(f"{test} ({now})" for test, now in worse.items())
        rows.append((suite, _counts(native), _counts(lent), names or "-"))
    head = ("suite", "native", "lent", "passes natively only")
    print(*markdown_table(head, rows), sep="\n")
    return 1 if wrong else 0


def _counts(of: Mapping[str, str]) -> str:
    return ", ".join(f"{count} {kind}" for kind, count in sorted(Counter(of.values()).items()))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what is not known, print the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("results", type=Path)
    parser.add_argument("--cts", type=Path)
    parser.add_argument("--only", nargs="+", choices=SUITES, default=SUITES, metavar="SUITE")
    parser.add_argument("--native", action="store_true")
    parser.add_argument("--table", action="store_true")
    options = parser.parse_args(arguments)
    results: Results = json.loads(options.results.read_text()) if options.results.exists() else {}
    devices = ("native",) if options.native else ("native", "lent")
    for suite in () if options.table else options.only:
        for device in devices:
            known = results.setdefault(device, {}).setdefault(suite, {})
            with nullcontext() if device == "native" else Proxy() as proxy:
                environment = proxy.client() if proxy else NATIVE
                for test, told in _run_suite(suite, options.cts, known, environment):
                    known[test] = told
                    options.results.write_text(json.dumps(results, indent=1))
            print(suite, device, _counts(known), flush=True)
    return _table(results)


if __name__ == "__main__":
    sys.exit(main())
