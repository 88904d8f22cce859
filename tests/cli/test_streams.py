"""Standard streams that are closed, full, narrow in their character set, or not read to the end."""

import json
import os
import subprocess
import sys

import pytest

from tests.support.processes import executable
from toposeat.topology import read_topology, save_topology

ENTRY = [sys.executable, "-c", "from toposeat.cli.main import entry; entry()"]


def shell(command, folder, **environment):
    """Run a bash line in which `$T` stands for toposeat."""
    script = executable(
        folder / "toposeat", f'#!/bin/sh\nexec {sys.executable} -c "{ENTRY[-1]}" "$@"\n'
    )
    return subprocess.run(
        ["bash", "-c", command],
        cwd=folder,
        # An unbuffered stderr, which some machines ask for, would hide what is left in buffers.
        env={**os.environ, "PYTHONUNBUFFERED": "", **environment, "T": str(script)},
        capture_output=True,
        timeout=60,
        check=False,
    )


def test_a_reader_that_goes_away_costs_no_file(tmp_path):
    done = shell(
        "$T map ring:8 -t dgx-1v -o a.place --html a.html --json | head -c 1 >/dev/null;"
        " echo ${PIPESTATUS[0]}",
        tmp_path,
    )
    assert done.stdout == b"0\n"
    assert (tmp_path / "a.place").exists()
    assert (tmp_path / "a.html").exists()
    assert b"Traceback" not in done.stderr


def test_a_reader_that_is_gone_already_costs_no_file(tmp_path):
    done = shell(
        "{ sleep 0.5; $T map ring:8 -t dgx-1v -o a.place; } | true; echo ${PIPESTATUS[0]}", tmp_path
    )
    assert done.stdout == b"0\n"
    assert (tmp_path / "a.place").exists()
    assert b"Traceback" not in done.stderr
    assert b"Exception" not in done.stderr


@pytest.mark.parametrize(
    "verb", ["discover -t dgx-1v", "discover --list", "doctor", "map ring:4 -t dgx-1v --json"]
)
def test_a_full_disk_behind_stdout_is_an_error(tmp_path, verb):
    done = shell(f"$T {verb} >/dev/full", tmp_path)
    assert done.returncode == 1
    lines = done.stderr.decode().splitlines()
    assert lines[0] == "error: cannot write the result: No space left on device"
    assert lines[1].startswith("hint:  ")
    assert len(lines) == 2


def test_closed_streams(tmp_path):
    done = shell("$T map ring:8 -t dgx-1v -o a.place >&-", tmp_path)
    assert done.returncode == 0
    assert b"Wrote a.place" in done.stderr
    done = shell("$T discover -t nope 2>&-", tmp_path)
    assert done.returncode == 2
    assert done.stdout == b""
    done = shell("$T discover -t nope 2>/dev/full", tmp_path)
    assert done.returncode == 2


def test_stderr_that_nobody_reads_stops_nothing(tmp_path):
    done = shell(
        "{ sleep 0.5; $T tune -t dgx-1v -- sh -c 'echo ran > ran; exit 7'; } 2>&1 | true;"
        " echo ${PIPESTATUS[0]}",
        tmp_path,
        TOPOSEAT_MPI_ABI="mpich",
        TOPOSEAT_CACHE_DIR=str(tmp_path / "cache"),
    )
    assert done.stdout == b"7\n"
    assert (tmp_path / "ran").exists()


def test_an_ascii_stdout(tmp_path):
    name = "m\N{LATIN SMALL LETTER U WITH DIAERESIS}.json"
    save_topology(read_topology("dgx-1v"), tmp_path / name)
    told = {}
    for form in ("html", "svg", "text", "json"):
        done = shell(f"$T report {name} --format {form}", tmp_path, PYTHONIOENCODING="ascii")
        assert done.returncode == 0, done.stderr
        told[form] = done.stdout
    assert "toposeat report" in told["html"].decode("utf-8")
    assert len(json.loads(told["json"])["devices"]) == 8


def test_usage_errors_keep_their_code_with_a_traceback(tmp_path):
    done = shell("$T discover -t nope", tmp_path, TOPOSEAT_TRACEBACK="1")
    assert done.returncode == 2
    assert b"Traceback" in done.stderr
    assert b"UsageError: 'nope'" in done.stderr


def test_what_bash_substitutes_is_read_once(tmp_path):
    save_topology(read_topology("dgx-1v"), tmp_path / "m.json")
    (tmp_path / "t.csv").write_text("0,5\n7,0\n")
    done = shell("$T map <(cat t.csv) -t <(cat m.json) --json", tmp_path)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["placed"]["hop_bytes"] == 12
    done = shell("$T report <(cat m.json) --json", tmp_path)
    assert done.returncode == 0, done.stderr
    assert len(json.loads(done.stdout)["devices"]) == 8
