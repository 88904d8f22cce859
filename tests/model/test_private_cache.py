"""A cache in a place where others can write: what they put there is neither run nor preloaded."""

import os
import pwd
import threading
from pathlib import Path

import pytest

from toposeat.errors import ToposeatError
from toposeat.model.private_cache import cache_root, cached_artefact, private_folder

OURS = b"#!/bin/sh\necho ours\n"


class Maker:
    """Makes the artefact, and counts how often."""

    def __init__(self):
        self.calls = 0

    def __call__(self, path):
        self.calls += 1
        path.write_bytes(OURS)
        path.chmod(0o755)
        return ""


def artefact(folder, make):
    path, reason = cached_artefact(folder / "kind", "program", "a program", make)
    assert reason == ""
    assert path.read_bytes() == OURS
    assert not path.is_symlink()
    return path


def test_it_is_made_once(tmp_path):
    make = Maker()
    threads = [threading.Thread(target=artefact, args=(tmp_path, make)) for _ in range(8)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert artefact(tmp_path, make) == tmp_path / "kind" / "program"
    assert make.calls == 1
    assert (tmp_path / "kind").stat().st_mode & 0o777 == 0o700
    names = sorted(path.name for path in (tmp_path / "kind").iterdir())
    assert names == ["lock", "program", "program.sha256"]


def test_what_others_planted_or_changed_is_made_again(tmp_path):
    make = Maker()
    folder = tmp_path / "kind"
    folder.mkdir(mode=0o777)
    folder.chmod(0o777)  # as it was left by an older version, or somebody else's umask
    (folder / "program").write_bytes(b"#!/bin/sh\necho theirs\n")
    path = artefact(tmp_path, make)
    path.write_bytes(b"#!/bin/sh\necho theirs\n")
    artefact(tmp_path, make)
    (tmp_path / "theirs").write_bytes(OURS)
    path.unlink()
    path.symlink_to(tmp_path / "theirs")
    artefact(tmp_path, make)
    path.unlink()
    os.mkfifo(path)
    artefact(tmp_path, make)
    assert make.calls == 4


def test_folders_of_others_and_links_are_refused(tmp_path, monkeypatch):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    with pytest.raises(ToposeatError, match=r"cannot keep things in .*link: ") as caught:
        private_folder(tmp_path / "link", "things")
    assert "TOPOSEAT_CACHE_DIR" in caught.value.hint
    monkeypatch.setattr(os, "geteuid", lambda: 987654)
    with pytest.raises(ToposeatError, match=f"it belongs to user {os.getuid()}"):
        private_folder(tmp_path / "real", "things")


def test_what_cannot_be_made_is_not_kept(tmp_path):
    path, reason = cached_artefact(tmp_path / "kind", "x", "a program", lambda _: "no compiler")
    assert (path.exists(), reason) == (False, "no compiler")

    def full(_):
        raise OSError(28, "No space left on device")

    with pytest.raises(ToposeatError, match="No space left on device"):
        cached_artefact(tmp_path / "kind", "x", "a program", full)


def test_where_it_is(tmp_path):
    assert cache_root({"TOPOSEAT_CACHE_DIR": "/a", "XDG_CACHE_HOME": "/b"}) == Path("/a")
    assert cache_root({"XDG_CACHE_HOME": "/b"}) == Path("/b/toposeat")
    home = Path(pwd.getpwuid(os.geteuid()).pw_dir)
    assert cache_root({"HOME": "/h", "XDG_CACHE_HOME": "here"}) == Path("/h/.cache/toposeat")
    for environment in ({}, {"HOME": ""}, {"HOME": "here"}):
        assert cache_root(environment) == home / ".cache" / "toposeat"


def test_nobody_else_may_enter_what_is_made_on_the_way(tmp_path):
    old = os.umask(0)
    try:
        private_folder(tmp_path / "root" / "kind", "things")
        make = Maker()
        artefact(tmp_path / "root", make)
        artefact(tmp_path / "root", make)
    finally:
        os.umask(old)
    assert make.calls == 1
    for each in (tmp_path / "root", tmp_path / "root" / "kind"):
        assert each.stat().st_mode & 0o777 == 0o700
