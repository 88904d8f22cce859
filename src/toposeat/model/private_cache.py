"""The user's cache: nothing that another user wrote there is run or preloaded.

A folder of the cache that does not belong to this user alone is refused. A file is made again if it
is another user's, is a link, or does not match the digest that was kept with it.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

from toposeat.errors import ToposeatError
from toposeat.model.trust import make_own_folder, own_file, own_folder, user_folder

CACHE_VARIABLE = "TOPOSEAT_CACHE_DIR"
_HINT = f"set {CACHE_VARIABLE} to a folder that you may write, and no other user"


def cache_root(env: Mapping[str, str]) -> Path:
    """TOPOSEAT_CACHE_DIR, else `toposeat` in the user's cache folder."""
    if env.get(CACHE_VARIABLE):
        return Path(env[CACHE_VARIABLE])
    folder = user_folder(env, "XDG_CACHE_HOME", ".cache")
    if folder is None:
        raise ToposeatError("there is no home folder for a cache", hint=_HINT)
    return Path(folder)


def private_folder(folder: Path, what: str) -> Path:
    """Make a folder that only this user may enter.

    Args:
        folder: may exist; only its last part has to be private.
        what: it will hold, for the message.
    """
    try:
        make_own_folder(folder)
    except OSError as error:
        raise _cannot_keep(what, folder, error) from error
    return folder


def cached_artefact(
    folder: Path, name: str, what: str, make: Callable[[Path], str]
) -> tuple[Path, str]:
    """A program or library from the cache, made again if it is missing or changed.

    Args:
        folder: of the cache; see `private_folder`.
        name: of the file; it differs whenever something that the file depends on differs.
        what: the file is, for messages.
        make: fills the file, or returns why it cannot; its exceptions are passed on.

    Returns:
        Its path, and "" or the reason why it could not be made.
    """
    path = private_folder(folder, what) / name
    if _is_as_left(path):
        return path, ""
    try:
        with (folder / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # one process makes it, others wait and use it
            if _is_as_left(path):
                return path, ""
            with tempfile.TemporaryDirectory(prefix="build-", dir=folder) as build:
                made = Path(build, name)
                reason = make(made)
                if not reason:
                    Path(build, "digest").write_text(_digest(made), encoding="ascii")
                    Path(build, "digest").replace(_digest_path(path))
                    made.replace(path)
    except OSError as error:
        raise _cannot_keep(what, folder, error) from error
    return path, reason


def _is_as_left(path: Path) -> bool:
    try:
        return _read(_digest_path(path)).decode("ascii", "replace") == _digest(path)
    except OSError:
        return False


def _digest(path: Path) -> str:
    return hashlib.sha256(_read(path)).hexdigest()


def _digest_path(path: Path) -> Path:
    return path.with_name(f"{path.name}.sha256")


def _read(path: Path) -> bytes:
    folder = own_folder(path.parent)
    try:
        with os.fdopen(own_file(path.name, folder), "rb") as file:
            return file.read()
    finally:
        os.close(folder)


def _cannot_keep(what: str, folder: Path, error: OSError) -> ToposeatError:
    return ToposeatError(f"cannot keep {what} in {folder}: {error.strerror or error}", hint=_HINT)
