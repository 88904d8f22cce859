"""The line that starts proxies, what they say, and what borrowers are told of it."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.processes import executable
from tests.support.tables import rows
from toposeat import launch
from toposeat.errors import InputError, UsageError
from toposeat.launch import (
    borrowing,
    lent_devices,
    lent_files,
    lent_folder,
    move_borrowers,
    write_borrowed,
)
from toposeat.model.lent import LentDevice

LINES = Path(__file__).with_name("lines.txt")
LEND = (sys.executable, "-c", "from toposeat.cli.main import entry; entry()", "lend", "--remote")
# A launcher, or a proxy: notes its words, says what it shall, and waits as long as there is a file.
STARTER = """#!/bin/sh
printf "%s\\n" "${{0##*/}}" "$@" >{0}/noted
cat {0}/said
while [ -e {0}/waits ]; do sleep .02; done
"""
SAID = {
    "toposeat_clproxy": 1,
    "version": "0.1.0",
    "host": "n1.site",
    "pid": 3,
    "unix": "/tmp/p/s",
    "tcp": "10.0.0.1:4",
    "devices": [
        {"index": 0, "name": "A", "type": "gpu", "memory": 8, "pci": "0000:41:00.0", "uuid": None},
        {"index": 1, "name": "B", "type": "gpu", "memory": None, "pci": None},
    ],
}


def said(**changed):
    return b"0: " + json.dumps(SAID | changed).encode() + b"\n"


@pytest.fixture
def site(tmp_path):
    """A folder with launchers, and where the nodes have toposeat."""
    (tmp_path / "bin").mkdir()
    for name in ("srun", "ssh", "bin/toposeat-clproxy"):
        executable(tmp_path / name, STARTER.format(tmp_path))
    (tmp_path / "said").write_bytes(said())
    return tmp_path


def environment_of(site):
    return {"PATH": f"{site}:/usr/bin:/bin", "TOPOSEAT_CACHE_DIR": str(site / "cache")}


@pytest.fixture
def lend(site):
    """Lends by a line until its launcher ends: the words that it got, and what was told."""

    def run(given, **options):
        told = []
        launch.lend(
            given.split(),
            remote=str(site),
            show=lambda _: None,
            tell=told.append,
            tell_moved=told.append,
            environment=environment_of(site),
            **options,
        )
        words = [f"'{word}'" if " " in word else word for word in noted(site)]
        return " ".join(words).replace(f"{site}/bin/", ""), told

    return run


def noted(site):
    return (site / "noted").read_text().splitlines()


@contextmanager
def lent(site, *lines):
    """The folder of what a lender lends as long as the block lasts, and its process."""
    (site / "said").write_bytes(b"".join(lines))
    (site / "waits").touch()
    words = [*LEND, str(site), "--json", "--", "srun", "-N", "2"]
    with subprocess.Popen(words, env=environment_of(site), stdout=subprocess.PIPE) as lender:
        try:
            for _ in lines:
                assert lender.stdout.readline()
            yield lent_folder(environment_of(site)), lender
        finally:
            (site / "waits").unlink(missing_ok=True)


@pytest.mark.parametrize(("given", "expected"), rows(LINES, "lent"))
def test_the_proxy_stands_where_a_program_would(given, expected, lend):
    words, _ = lend(given)
    assert re.sub(r"(--address) [^ ']+", r"\1 ADDRESS", words) == expected


def test_a_network_is_named_by_a_host_of_it_and_by_nothing_else(lend):
    """It is listened in even where all is on this node."""
    assert lend("", network="10.2.0.0")[0] == "toposeat-clproxy --address 10.2.0.0"
    assert lend("", network="localhost")[0].split()[2] in ("127.0.0.1", "::1")
    with pytest.raises(UsageError, match=r"--network 10.0.0.300 is no address, and no host"):
        lend("", network="10.0.0.300")


@pytest.mark.parametrize(("given", "cause"), rows(LINES, "not lent"))
def test_a_line_that_cannot_lend_is_refused(given, cause, lend):
    with pytest.raises((UsageError, InputError), match=cause):
        lend(given)


def test_what_else_the_launcher_says_is_passed_on(lend, site):
    (site / "said").write_bytes(b'srun: job 7 queued\n{"other": 1}\n' + said())
    assert lend("srun -N 2")[1] == ["srun: job 7 queued", '{"other": 1}']


@pytest.mark.parametrize(
    "line",
    [
        said()[:-9],
        said(host=3),
        said(host="a b"),
        said(unix="/tmp/a,b"),
        said(tcp="x;y"),
        said(devices=[{}]),
        b'{"toposeat_clproxy"',
        b'{"toposeat_clproxy": 1}\xff',
    ],
)
def test_damaged_words_of_a_proxy_are_refused(line, lend, site):
    (site / "said").write_bytes(line)
    with pytest.raises(InputError, match="cannot be understood"):
        lend("srun -N 2")


def test_what_is_lent_is_seen_until_it_ends_and_is_nobody_elses(site):
    """A device that two proxies of a node tell of is there once; B has no bus id to know it by."""
    proxies = said(), said(unix="/tmp/r/s"), said(host="n2", unix="/tmp/q/s", tcp=None)
    with lent(site, *proxies) as (root, _):
        devices, key = lent_devices(root)
        assert [device.id for device in devices] == ["n1/0", "n1/1", "n1/2", "n2/0", "n2/1"]
        assert devices[0].endpoints == ("unix:/tmp/p/s#0", "tcp:10.0.0.1:4#0")
        assert (devices[2].endpoints[0], devices[2].name) == ("unix:/tmp/r/s#1", "B")
        assert devices[3].endpoints == ("unix:/tmp/q/s#0",)
        assert re.fullmatch("[0-9a-f]{64}", key)
        assert key not in " ".join(noted(site))
        (folder,) = root.glob(".toposeat-lend-*")
        (file,) = folder.iterdir()
        modes = [path.stat().st_mode & 0o777 for path in (root, folder, file)]
        assert modes == [0o700, 0o700, 0o600]
        with borrowing(root) as mark:
            write_borrowed(mark, devices[1:2])
            free, taken, *_ = lent_devices(root)[0]
            assert free.borrowed_by == ""
            assert taken.borrowed_by.startswith(f"process {os.getpid()} on ")
        assert all(not device.borrowed_by for device in lent_devices(root)[0])
    assert lent_devices(root) == ([], "")


def test_what_a_killed_lender_left_is_removed(site):
    with lent(site, said()) as (root, lender):
        lender.send_signal(signal.SIGKILL)
        lender.wait()
        assert len(list(root.glob(".toposeat-lend-*"))) == 1
        assert lent_devices(root) == ([], "")
        assert list(root.glob(".toposeat-lend-*")) == []


def test_a_move_that_cannot_be_is_refused_before_anybody_is_asked(site):
    proxies = said(), said(host="n2", unix="/tmp/q/s")
    with lent(site, *proxies) as (root, _), borrowing(root) as folder:
        write_borrowed(folder, [lent_devices(root)[0][1]])
        for source, target, cause in (
            ("n1/0", "n2/0", "nobody has borrowed n1/0"),
            ("n1/1", "n1/9", "no device n1/9 is lent"),
            ("n1/1", "n1/1", "n1/1 is borrowed by"),
            ("n1/1", "n1/0", r"n1/0 is another device \(A\) than n1/1 \(B\)"),
        ):
            with pytest.raises(UsageError, match=cause):
                move_borrowers(source, target, environment_of(site))


def test_a_job_that_ends_while_it_is_moved_is_no_error(tmp_path, monkeypatch):
    one = LentDevice(id="a/0", host="a", index=0, name="x", kind="gpu", socket="/s")
    two = replace(one, id="a/1", socket="/t")
    write = lent_files._write

    def late(path, document):
        shutil.rmtree(path.parent)
        write(path, document)

    for mark in (lent_files.mark_moving, lent_files.mark_left):
        with borrowing(tmp_path) as folder:
            write_borrowed(folder, [one, two])
            with monkeypatch.context() as patch:
                patch.setattr(lent_files, "_write", late)
                mark(tmp_path, one, two)
            assert not folder.exists()
