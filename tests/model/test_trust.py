"""What is mine: the module of Python and that of C, with the same answers."""

import errno
import os
import shutil
import socket
import stat
import struct
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from toposeat.model.trust import (
    NotMineError,
    check_place,
    make_mark,
    make_own_folder,
    own_file,
    own_folder,
    peer_is_mine,
)

SOURCES = Path(__file__).resolve().parents[2] / "launcher" / "src"
STRANGER = 1002

# Asked WHAT PATH it ends with the number of the error, 0 without.
ASK = Path(__file__).with_name("ask_trust.c")
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root makes files of another user")


@pytest.fixture(scope="session")
def ask_program(build_dir):
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler")
    program = build_dir / f"ask-trust-{os.getpid()}"
    line = [compiler, "-std=c11", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror", f"-I{SOURCES}"]
    line += [str(ASK), str(SOURCES / "trust.c"), "-o", str(program)]
    subprocess.run(line, check=True)
    return program


Answer = Callable[[str, Path], tuple[int, str]]


@pytest.fixture
def answer(ask_program):
    """The number of the error of both modules, and the words of Python's."""

    def ask(what, path):
        calls = {
            "folder": own_folder,
            "file": own_file,
            "place": check_place,
        }
        number, words = 0, ""
        try:
            handle = calls[what](path)
        except OSError as error:
            assert error.errno is not None
            number, words = error.errno, str(error.strerror)
            assert isinstance(error, NotMineError) == (number == errno.EACCES)
        else:
            if handle is not None:
                os.close(handle)
        assert subprocess.run([ask_program, what, path], check=False).returncode == number
        return number, words

    return ask


def folder_of(path, mode=448, user=None):
    path.mkdir(parents=True)
    path.chmod(mode)
    if user is not None:
        os.chown(path, user, user)
    return path


def file_of(path, mode=384, user=None):
    path.write_text("")
    path.chmod(mode)
    if user is not None:
        os.chown(path, user, user)
    return path


def test_an_own_folder(tmp_path, answer):
    own = folder_of(tmp_path / "own")
    assert answer("folder", own) == (0, "")
    assert answer("folder", folder_of(tmp_path / "open", 0o710))[1] == "others may enter it"
    (tmp_path / "link").symlink_to(own)
    assert answer("folder", tmp_path / "link")[0] in (errno.ENOTDIR, errno.ELOOP)
    assert answer("folder", file_of(tmp_path / "file"))[0] == errno.ENOTDIR
    assert answer("folder", tmp_path / "none")[0] == errno.ENOENT


def test_an_own_folder_is_made_and_closed(tmp_path):
    old = os.umask(0)
    try:
        make_own_folder(tmp_path / "one" / "two")
    finally:
        os.umask(old)
    for each in (tmp_path / "one", tmp_path / "one" / "two"):
        assert stat.S_IMODE(each.stat().st_mode) == 0o700
    make_own_folder(folder_of(tmp_path / "open", 0o777))
    assert stat.S_IMODE((tmp_path / "open").stat().st_mode) == 0o700
    (tmp_path / "link").symlink_to(tmp_path / "one")
    with pytest.raises(OSError, match="link"):
        make_own_folder(tmp_path / "link")


@as_root
def test_a_folder_of_a_stranger(tmp_path, answer):
    theirs = folder_of(tmp_path / "theirs", user=STRANGER)
    assert answer("folder", theirs) == (errno.EACCES, f"it belongs to user {STRANGER}")
    assert answer("place", theirs) == (errno.EACCES, f"it belongs to user {STRANGER}")
    assert answer("place", folder_of(theirs / "mine"))[0] == errno.EACCES
    with pytest.raises(NotMineError, match=f"it belongs to user {STRANGER}"):
        make_own_folder(theirs)


def test_an_own_file(tmp_path, answer, ask_program):
    own = file_of(tmp_path / "own", 0o644)
    assert answer("file", own) == (0, "")
    assert answer("file", file_of(tmp_path / "open", 0o602))[1] == "others may write to it"
    within = own_folder(folder_of(tmp_path / "within"))
    file_of(tmp_path / "within" / "open", 0o602)
    os.close(own_file("open", within))  # where no other can come
    os.close(within)
    assert subprocess.run([ask_program, "in", tmp_path / "within"], check=False).returncode == 0
    os.mkfifo(tmp_path / "pipe")
    assert answer("file", tmp_path / "pipe") == (errno.EACCES, "no regular file")
    assert answer("file", tmp_path)[0] == errno.EACCES
    (tmp_path / "link").symlink_to(own)
    assert answer("file", tmp_path / "link")[0] == errno.ELOOP
    assert answer("file", tmp_path / "none")[0] == errno.ENOENT


@as_root
def test_files_and_groups_of_others(tmp_path, answer):
    theirs = file_of(tmp_path / "theirs", user=STRANGER)
    assert answer("file", theirs)[1] == f"it belongs to user {STRANGER}"
    shared = file_of(tmp_path / "shared", 0o660)
    assert answer("file", shared) == (0, "")  # root's own group
    os.chown(shared, 0, STRANGER)
    assert answer("file", shared)[1] == "others may write to it"


def test_a_list_of_access_rights_opens_a_group_of_one(tmp_path, answer):
    shared = file_of(tmp_path / "shared", 0o660)
    if answer("file", shared)[0] != 0:
        pytest.skip("this user has no group of its own")
    # Tag, permissions, number: the owner, a named user, the group, the mask, all others (acl(5)).
    entries = ((1, 6, -1), (2, 6, STRANGER), (4, 6, -1), (16, 6, -1), (32, 0, -1))
    packed = struct.pack("<I", 2) + b"".join(struct.pack("<HHi", *each) for each in entries)
    try:
        os.setxattr(shared, "system.posix_acl_access", packed)
    except OSError as error:
        pytest.skip(f"a file system without lists of access rights: {error}")
    assert answer("file", shared)[1] == "others may write to it"


def test_a_safe_place(tmp_path, answer):
    inner = folder_of(tmp_path / "sticky" / "inner")
    assert answer("place", inner) == (0, "")
    inner.parent.chmod(0o777)
    assert answer("place", inner) == (errno.EACCES, "others may write there")
    inner.parent.chmod(0o1777)
    assert answer("place", inner) == (0, "")
    assert answer("place", inner.parent) == (0, "")
    with pytest.raises(NotMineError, match="others may write there"):
        check_place(inner.parent, own=True)
    check_place(inner, own=True)
    (tmp_path / "link").symlink_to(inner)
    assert answer("place", tmp_path / "link") == (0, "")
    assert answer("place", file_of(tmp_path / "file"))[0] == errno.ENOTDIR
    assert answer("place", tmp_path / "none")[0] == errno.ENOENT


def test_a_mark_is_made_once_and_follows_nothing(tmp_path, ask_program):
    own, other = folder_of(tmp_path / "own"), tmp_path / "other"
    handle = own_folder(own)
    try:
        os.close(make_mark(handle, "first"))
        assert stat.S_IMODE((own / "first").stat().st_mode) == 0o600
        (own / "second").symlink_to(other)
        for name in ("first", "second"):
            with pytest.raises(FileExistsError):
                make_mark(handle, name)
    finally:
        os.close(handle)
    ask = [ask_program, "mark", own]
    assert subprocess.run(ask, check=False).returncode == 0
    assert stat.S_IMODE((own / "mark").stat().st_mode) == 0o600
    assert subprocess.run(ask, check=False).returncode == errno.EEXIST
    (own / "mark").unlink()
    (own / "mark").symlink_to(other)
    assert subprocess.run(ask, check=False).returncode == errno.EEXIST
    assert not other.exists()


def test_a_peer_of_this_user(ask_program):
    one, other = socket.socketpair()
    with one, other, socket.socket() as no_peer:
        assert peer_is_mine(one)
        assert not peer_is_mine(no_peer)
        ask = [ask_program, "peer", "-"]
        assert subprocess.run(ask, stdin=other, check=False).returncode == 0
        assert subprocess.run(ask, stdin=no_peer, check=False).returncode == 1


@as_root
def test_a_peer_of_a_stranger(tmp_path, ask_program):
    with socket.socket(socket.AF_UNIX) as listener, socket.socket(socket.AF_UNIX) as end:
        listener.bind(f"\0toposeat-test-{os.getpid()}")
        listener.listen()
        child = os.fork()
        if child == 0:
            os.setuid(STRANGER)
            os._exit(end.connect_ex(listener.getsockname()))
        assert os.waitpid(child, 0)[1] == 0
        peer, _ = listener.accept()
        with peer:
            assert not peer_is_mine(peer)
            ask = [ask_program, "peer", "-"]
            assert subprocess.run(ask, stdin=peer, check=False).returncode == 1
