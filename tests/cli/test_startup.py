"""A verb imports what it uses: counted in modules, which no load on the machine changes."""

import json
import os
import sys

from tests.support.processes import executable, ran
from toposeat.cli.main import VERBS, main

_PROGRAM = """
import contextlib, io, json, os, sys
from toposeat.cli.main import main
for words in sys.argv[1:]:  # each in a process that has imported no more than this
    if os.fork():
        os.wait()
        continue
    with contextlib.redirect_stdout(io.StringIO()) as out:
        try:
            code = main(words.split())
        except SystemExit as end:
            code = end.code
    threads = len(os.listdir("/proc/self/task"))
    print(json.dumps([code, out.getvalue(), sorted(sys.modules), threads]), flush=True)
    os._exit(0)
"""


def _imported(*lines):
    """The output of each command, which succeeds, and the modules in its process."""
    done = ran([sys.executable, "-c", _PROGRAM, *lines], check=True)
    told = [json.loads(line) for line in done.stdout.splitlines()]
    assert [code or 0 for code, *_ in told] == [0] * len(lines), done.stderr
    return [(output, set(modules)) for _, output, modules, _ in told]


def test_map_of_a_pattern_on_a_catalogue_machine():
    ((output, modules),) = _imported("map stencil2d:4x4 -t k80-16")
    assert "CUDA_VISIBLE_DEVICES" in output or "rank" in output
    ours = {name for name in modules if name.partition(".")[0] == "toposeat"}
    assert len(ours) <= 105, sorted(ours)
    assert not {"elftools", "yaml", "asyncio", "sqlite3", "pynvml", "numpy.ma", "rich"} & modules
    assert not {
        name
        for name in ours
        if name.startswith(("toposeat.profile.recording", "toposeat.topology.live"))
        or name == "toposeat.topology.formats"
    }


# Their options and sentences are words of nouns, which msgspec makes: ten milliseconds.
_NAME_NOUNS = {"measure", "run", "export", "doctor", "lend", "borrow"}


def test_help_needs_no_numpy():
    told = _imported(*(f"{verb} --help" for verb in VERBS), "--help")
    for verb, (output, modules) in zip((*VERBS, ""), told, strict=True):
        assert output.startswith(f"usage: toposeat {verb}".rstrip())
        assert not {"numpy", "rich", "yaml", "toposeat._core"} & modules, verb
        assert verb in {"", *_NAME_NOUNS} or "msgspec" not in modules, verb


def test_a_run_needs_no_numpy(tmp_path):
    place, starter = tmp_path / "a.place", executable(tmp_path / "torchrun", "#!/bin/sh\n")
    assert main(["map", "ring:2", "-t", "dgx-1v", "-o", str(place)]) == 0
    words = f"run --other-machine -p {place} -- {starter} --nproc-per-node=2 --no-python true"
    ((_, modules),) = _imported(words)
    assert "toposeat.report.view.runs" in modules
    assert "numpy" not in modules


def test_version_imports_no_verb():
    ((output, modules),) = _imported("--version")
    assert output.startswith("toposeat ")
    assert not {f"toposeat.cli.{verb}" for verb in VERBS} & modules
    assert not {"numpy", "msgspec", "rich", "yaml"} & modules


def test_it_is_a_module_too():
    command = [sys.executable, "-m", "toposeat", "--version"]
    done = ran(command, check=True)
    assert done.stdout.startswith("toposeat ")


def test_no_thread_waits_for_work_that_never_comes():
    environment = {k: v for k, v in os.environ.items() if k != "OPENBLAS_NUM_THREADS"}
    line = [sys.executable, "-c", _PROGRAM, "map ring:4 -t dgx-1v"]
    assert json.loads(ran(line, env=environment, check=True).stdout)[3] == 1
