"""What is mine on a node that others use, too: by owner, mode, links and path, never by name.

The same rules in the same words: `launcher/src/trust.h`.

    own folder   a folder, no link, of this user, that nobody else may enter
    mark         made new in an own folder; what lies there already is not written to
    own file     regular, no link, of this user or root; it lies in an own folder, or no other may
                 write to it
    safe place   a path that no other can lead elsewhere: each folder of it is of this user or
                 root, and others may write at most where it is sticky
    own place    a safe place in which no other may write, sticky or not
    peer         at the other end of a Unix socket: a process of this user

"Others" is everybody but this user and root; the group is not, where it has this user alone. What
is refused raises NotMineError, which names it and says why.

Programs that are not ours read this file, too (`launch/python_hook`): it needs the standard library
alone, of any Python 3.
"""

from __future__ import annotations

import errno
import grp
import os
import pwd
import stat
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import socket
    from collections.abc import Mapping

_NOBODY = 65534
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class NotMineError(PermissionError):
    """A file, folder or peer that may be somebody else's; `strerror` says why."""


def own_folder(path: str | os.PathLike[str]) -> int:
    """A handle of an own folder, for `make_mark` and `own_file`; the caller closes it.

    Raises:
        NotMineError: another may enter it.
        OSError: there is none; ENOTDIR or ELOOP for a link.
    """
    handle = os.open(path, _FOLDER)
    try:
        status = os.fstat(handle)
        if status.st_uid != os.geteuid():
            raise _not_mine(f"it belongs to user {status.st_uid}", path)
        if stat.S_IMODE(status.st_mode) & 0o077:
            raise _not_mine("others may enter it", path)
    except BaseException:
        os.close(handle)
        raise
    return handle


def make_own_folder(path: str | os.PathLike[str]) -> None:
    """Make a folder, and those above it that are missing, for this user only.

    One of this user that is there already is closed to others.

    Raises:
        NotMineError: it belongs to another user.
        OSError: it cannot be made, or is a link.
    """
    above = os.path.dirname(os.path.abspath(path))  # noqa: PTH100, PTH120
    if not os.path.isdir(above):  # noqa: PTH112
        make_own_folder(above)
    try:
        os.mkdir(path, 0o700)  # noqa: PTH102
    except FileExistsError:
        handle = os.open(path, _FOLDER)
        try:
            status = os.fstat(handle)
            if status.st_uid == os.geteuid() and stat.S_IMODE(status.st_mode) & 0o077:
                os.fchmod(handle, 0o700)
        finally:
            os.close(handle)
    os.close(own_folder(path))


def make_mark(folder: int, name: str) -> int:
    """A handle of a new mark in an own folder, 0600, for both; the caller closes it.

    Raises:
        FileExistsError: anything has that name, a link that leads nowhere included.
    """
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    return os.open(name, flags, 0o600, dir_fd=folder)


def own_file(path: str | os.PathLike[str], folder: int | None = None) -> int:
    """A handle of an own file, for reading; waits for no writer of a pipe. The caller closes it.

    Args:
        path: of the file, or its name in `folder`.
        folder: a handle of an own folder.

    Raises:
        NotMineError: another may write to it, or it is no regular file.
        OSError: there is none; ELOOP for a link.
    """
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
    handle = os.open(path, flags, dir_fd=folder)
    try:
        status = os.fstat(handle)
        if not stat.S_ISREG(status.st_mode):
            raise _not_mine("no regular file", path)
        if status.st_uid not in (os.geteuid(), 0):
            raise _not_mine(f"it belongs to user {status.st_uid}", path)
        if folder is None and _others_may_write(status, handle):
            raise _not_mine("others may write to it", path)
    except BaseException:
        os.close(handle)
        raise
    return handle


def check_place(folder: str | os.PathLike[str], *, own: bool = False) -> None:
    """Refuse a folder that is no safe place, or with `own` no own place.

    Raises:
        NotMineError: named after the folder of its path that is not.
        OSError: there is no such folder.
    """
    at = os.path.realpath(folder)
    first = True
    while True:
        status = os.stat(at, follow_symlinks=False)  # noqa: PTH116 - this is for any Python
        if not stat.S_ISDIR(status.st_mode):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), at)
        root = (0, _NOBODY) if _is_root_unknown() else (0,)
        if status.st_uid not in (os.geteuid(), *root):
            raise _not_mine(f"it belongs to user {status.st_uid}", at)
        may_be_sticky = not (own and first)
        if not (may_be_sticky and status.st_mode & stat.S_ISVTX) and _others_may_write(status, at):
            raise _not_mine("others may write there", at)
        if at == os.path.dirname(at):  # noqa: PTH120
            return
        at, first = os.path.dirname(at), False  # noqa: PTH120


def home_folder(environment: Mapping[str, str]) -> str | None:
    """This user's home folder: HOME, where it is a whole path, else what the system knows."""
    named = environment.get("HOME", "")
    if not os.path.isabs(named):  # noqa: PTH117
        try:
            named = pwd.getpwuid(os.geteuid()).pw_dir
        except KeyError:
            return None
    return named if os.path.isabs(named) else None  # noqa: PTH117


def user_folder(environment: Mapping[str, str], variable: str, name: str) -> str | None:
    """This user's `toposeat` in the folder of a variable, such as XDG_CACHE_HOME, else in ~/`name`.

    A path that is not whole is ignored, as the specification says.
    """
    base: str | None = environment.get(variable, "")
    if not os.path.isabs(base or ""):  # noqa: PTH117
        home = home_folder(environment)
        base = None if home is None else os.path.join(home, name)  # noqa: PTH118
    return None if base is None else os.path.join(base, "toposeat")  # noqa: PTH118


def peer_is_mine(peer: socket.socket) -> bool:
    """Whether the process at the other end of a Unix socket is of this user."""
    import socket  # noqa: PLC0415 - no settings are read from a socket
    import struct  # noqa: PLC0415 - likewise

    try:
        told = peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("iII"))
    except OSError:
        return False
    _, user, _ = struct.unpack("iII", told)
    return bool(user == os.geteuid())


def _not_mine(why: str, path: str | os.PathLike[str]) -> NotMineError:
    return NotMineError(errno.EACCES, why, os.fspath(path))


def _others_may_write(status: os.stat_result, at: int | str) -> bool:
    if status.st_mode & stat.S_IWOTH:
        return True
    if not status.st_mode & stat.S_IWGRP:
        return False
    return _has_access_list(at) or not _is_group_of_one(status.st_gid)


def _has_access_list(at: int | str) -> bool:
    """Whether a list of access rights grants what the group's bits only hint at."""
    try:
        return bool(os.getxattr(at, "system.posix_acl_access"))
    except OSError:
        return False


def _is_group_of_one(group: int) -> bool:
    """Whether a group is this user's first one and has no other member.

    Such a group is called like its user; where no directory of users knows it, it has that user's
    number, by which `trust.c` goes alone.
    """
    user = os.geteuid()
    try:
        account, known = pwd.getpwuid(user), grp.getgrgid(group)
    except KeyError:
        return group == os.getegid() == user
    return (
        group == account.pw_gid
        and known.gr_name == account.pw_name
        and set(known.gr_mem) <= {account.pw_name}
    )


def _is_root_unknown() -> bool:
    """Whether this user alone has a number, as in many containers: root's folders seem nobody's."""
    try:
        with open("/proc/self/uid_map", encoding="ascii") as file:  # noqa: PTH123
            return all(int(line.split()[0]) != 0 for line in file)
    except (OSError, ValueError):
        return False
