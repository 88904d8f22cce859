"""The line that starts proxies, what they say, and what borrowers are told of it."""

import json
import multiprocessing
import os
import shutil
import signal
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.tables import rows
from toposeat.errors import InputError, UsageError
from toposeat.launch import lending, lent_files, move_borrowers
from toposeat.launch.lending import lend_line
from toposeat.launch.lent_files import (
    borrowing,
    lent_devices,
    lent_folder,
    mark_left,
    mark_moving,
    told_by,
    write_borrowed,
    write_lent,
)
from toposeat.launch.lent_files import lending as lending_folder
from toposeat.model.lent import LentDevice

LINES = Path(__file__).with_name("lines.txt")
PROXY = "/opt/bin/clproxy"


@pytest.fixture(autouse=True)
def _proxy(monkeypatch):
    """Lines are made without what they start."""
    monkeypatch.setattr(
        lending, "node_path", lambda name, remote="": (remote and f"{remote}/{name}") or PROXY
    )


@pytest.mark.parametrize(("given", "expected"), rows(LINES, "lent"))
def test_the_proxy_stands_where_a_program_would(given, expected, monkeypatch):
    monkeypatch.setattr(lending, "own_addresses", lambda _: ["10.1.1.1"])
    line = lend_line(given.split(), {})
    assert " ".join(f"'{word}'" if " " in word else word for word in line.argv) == expected


def test_a_network_that_is_named_is_listened_in_even_on_this_node():
    assert lend_line([], {}, network="10.2.0.0").argv == (PROXY, "--address", "10.2.0.0")


def test_a_network_is_named_by_a_host_of_it_and_by_nothing_else():
    named = lend_line([], {}, network="localhost").argv[2]
    assert named in ("127.0.0.1", "::1")
    with pytest.raises(UsageError, match=r"--network 10.0.0.300 is no address, and no host"):
        lend_line([], {}, network="10.0.0.300")


def test_the_nodes_may_have_toposeat_elsewhere():
    assert lend_line([], {}, remote="/x/_native").argv == ("/x/_native/bin/toposeat-clproxy",)


@pytest.mark.parametrize(("given", "cause"), rows(LINES, "not lent"))
def test_a_line_that_cannot_lend_is_refused(given, cause):
    with pytest.raises((UsageError, InputError), match=cause):
        lend_line(given.split(), {})


def test_a_job_that_ends_while_it_is_moved_is_no_error(tmp_path, monkeypatch):
    one = LentDevice(id="a/0", host="a", index=0, name="x", kind="gpu", socket="/s")
    two = replace(one, id="a/1", socket="/t")
    write = lent_files._write

    def late(path, document):
        shutil.rmtree(path.parent)
        write(path, document)

    for mark in (mark_moving, mark_left):
        with borrowing(tmp_path) as folder:
            write_borrowed(folder, [one, two])
            with monkeypatch.context() as patch:
                patch.setattr(lent_files, "_write", late)
                mark(tmp_path, one, two)
            assert not folder.exists()


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


def test_a_proxys_line_is_found_behind_a_label_and_others_are_not_one():
    told = told_by(said())
    assert (told.host, told.tcp, [device.name for device in told.devices]) == (
        *("n1.site", "10.0.0.1:4"),
        ["A", "B"],
    )
    assert told_by(b"srun: job 7 queued\n") is None
    assert told_by(b'{"other": 1}\n') is None


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
def test_damaged_words_of_a_proxy_are_refused(line):
    with pytest.raises(InputError, match="cannot be understood"):
        told_by(line)


def told(**changed):
    found = told_by(said(**changed))
    assert found is not None
    return found


def test_what_is_lent_is_seen_until_it_ends_and_is_nobody_elses(tmp_path):
    root = lent_folder({"TOPOSEAT_CACHE_DIR": str(tmp_path)})
    assert lent_devices(root) == ([], "")
    with lending_folder(root) as folder:
        other = told(host="n2", unix="/tmp/q/s", tcp=None)
        write_lent(folder, "k" * 64, 1.0, [told(), other])
        devices, key = lent_devices(root)
        assert [device.id for device in devices] == ["n1/0", "n1/1", "n2/0", "n2/1"]
        assert key == "k" * 64
        assert devices[0].endpoints == ("unix:/tmp/p/s#0", "tcp:10.0.0.1:4#0")
        assert devices[2].endpoints == ("unix:/tmp/q/s#0",)
        (file,) = folder.iterdir()
        modes = [path.stat().st_mode & 0o777 for path in (root, folder, file)]
        assert modes == [0o700, 0o700, 0o600]
    assert lent_devices(root) == ([], "")


def test_a_device_that_two_proxies_of_a_node_tell_of_is_lent_once(tmp_path):
    root = lent_folder({"TOPOSEAT_CACHE_DIR": str(tmp_path)})
    with lending_folder(root) as first, lending_folder(root) as second:
        write_lent(second, "k", 2.0, [told(unix="/tmp/q/s")])
        write_lent(first, "k", 1.0, [told()])
        found = [(device.socket, device.name) for device in lent_devices(root)[0]]
    # B has no bus id: nothing says that it is the same.
    assert found == [("/tmp/p/s", "A"), ("/tmp/p/s", "B"), ("/tmp/q/s", "B")]


def test_a_borrowed_device_is_named_with_its_borrower_until_that_ends(tmp_path):
    root = lent_folder({"TOPOSEAT_CACHE_DIR": str(tmp_path)})
    with lending_folder(root) as folder:
        write_lent(folder, "k", 1.0, [told()])
        with borrowing(root) as mark:
            write_borrowed(mark, lent_devices(root)[0][1:])
            free, taken = lent_devices(root)[0]
            assert free.borrowed_by == ""
            assert taken.borrowed_by.startswith(f"process {os.getpid()} on ")
        assert all(not device.borrowed_by for device in lent_devices(root)[0])


def _lend_and_die(root):
    with lending_folder(root) as folder:
        write_lent(folder, "k", 1.0, [told()])
        os.kill(os.getpid(), signal.SIGKILL)


def test_what_a_killed_lender_left_is_removed(tmp_path):
    root = lent_folder({"TOPOSEAT_CACHE_DIR": str(tmp_path)})
    lender = multiprocessing.get_context("fork").Process(target=_lend_and_die, args=(root,))
    lender.start()
    lender.join()
    assert len(list(root.glob(".toposeat-lend-*"))) == 1
    assert lent_devices(root) == ([], "")
    assert list(root.glob(".toposeat-lend-*")) == []


def test_who_has_moved_has_the_other_device(tmp_path):
    root = lent_folder({"TOPOSEAT_CACHE_DIR": str(tmp_path)})
    with lending_folder(root) as lent, borrowing(root) as first, borrowing(root) as second:
        write_lent(lent, "k", 1.0, [told(), told(host="n2", unix="/tmp/q/s")])
        one, other, far, _ = lent_devices(root)[0]
        write_borrowed(first, [one])
        write_borrowed(second, [other])
        mark_moving(root, one, far)
        assert taken(root) == [True, True, True, False], "nobody takes it meanwhile"
        mark_left(root, far, one)
        assert taken(root) == [True, True, False, False], "it stayed"
        mark_moving(root, one, far)
        mark_left(root, one, far)
        assert taken(root) == [False, True, True, False]


def taken(root):
    return [bool(device.borrowed_by) for device in lent_devices(root)[0]]


@pytest.mark.parametrize(
    ("source", "target", "cause"),
    [
        ("n1/0", "n2/0", "nobody has borrowed n1/0"),
        ("n1/1", "n1/9", "no device n1/9 is lent"),
        ("n1/1", "n1/1", "n1/1 is borrowed by"),
        ("n1/1", "n1/0", r"n1/0 is another device \(A\) than n1/1 \(B\)"),
    ],
)
def test_a_move_that_cannot_be_is_refused_before_anybody_is_asked(tmp_path, source, target, cause):
    environment = {"TOPOSEAT_CACHE_DIR": str(tmp_path)}
    root = lent_folder(environment)
    with lending_folder(root) as lent, borrowing(root) as folder:
        write_lent(lent, "k", 1.0, [told(), told(host="n2", unix="/tmp/q/s")])
        write_borrowed(folder, [lent_devices(root)[0][1]])
        with pytest.raises(UsageError, match=cause):
            move_borrowers(source, target, environment)
