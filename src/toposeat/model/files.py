"""Files that a user names: opened with limits, written whole or not at all, our JSON read and made.

A regular file is read up to a limit. A pipe is read once, up to the same limit, and for a limited
time. Folders, devices and sockets are refused, and so are pipes where a file must be read twice.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
import select
import stat
import time
from collections.abc import Callable, Mapping, Sequence
from math import inf
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

from toposeat.errors import InputError, PartError, UsageError
from toposeat.model.shell_words import shell_word

T = TypeVar("T")

MAX_INPUT_BYTES = 1 << 30  # of what is read whole
MAX_TEXT_BYTES = 512 << 20
MAX_SILENCE_S = 30.0  # of a pipe
MAX_PIPE_S = 600.0  # until a pipe ends
_PIECE = 1 << 20
_KINDS: tuple[tuple[Callable[[int], bool], str], ...] = (
    (stat.S_ISDIR, "a folder, not a file"),
    (stat.S_ISCHR, "a device, not a file"),
    (stat.S_ISBLK, "a device, not a file"),
    (stat.S_ISSOCK, "a socket, not a file"),
    (stat.S_ISFIFO, "a pipe, and this must be a regular file"),
)


def open_input(path: str | Path, *, pipes: bool = False) -> BinaryIO:
    """Open a regular file, or with `pipes` a pipe, for reading without blocking.

    Raises:
        OSError: missing, unreadable, or of another kind; its `strerror` says so.
        ValueError: a name that no file can have.
    """
    _check_kind(os.stat(path).st_mode, pipes)  # opening a device may do something to it  # noqa: PTH116
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    try:
        _check_kind(os.fstat(handle).st_mode, pipes)
        return os.fdopen(handle, "rb")
    except BaseException:
        os.close(handle)
        raise


def _check_kind(mode: int, pipes: bool) -> None:
    for is_kind, words in _KINDS:
        if is_kind(mode) and not (pipes and stat.S_ISFIFO(mode)):
            raise OSError(errno.EINVAL, words)


def read_input(path: str | Path, limit: int | None = None) -> bytes:
    """All bytes of a regular file or a pipe.

    Args:
        path: of the file, which is opened only once.
        limit: most bytes; None for `MAX_INPUT_BYTES`.
    """
    limit = MAX_INPUT_BYTES if limit is None else limit
    try:
        with open_input(path, pipes=True) as file:
            status = os.fstat(file.fileno())
            if stat.S_ISFIFO(status.st_mode):
                data = _read_pipe(file.fileno(), limit)
            else:
                data = b"" if status.st_size > limit else file.read(limit + 1)
    except (OSError, ValueError) as error:
        raise unreadable(path, error) from error
    if max(status.st_size, len(data)) > limit:
        raise InputError(
            f"larger than {max(limit >> 20, 1)} MiB: too large to be what it should be",
            path=path,
            hint="check that this is the right file",
        )
    return data


def beginning(path: str | Path, length: int) -> bytes:
    """The first bytes of a regular file; none of a pipe, which could not be read again."""
    try:
        with open_input(path) as file:
            return file.read(length)
    except (OSError, ValueError):
        return b""


def unreadable(path: str | Path, error: OSError | ValueError) -> InputError:
    """The error for a file that `open_input` or a read refused."""
    cause = getattr(error, "strerror", None) or str(error)
    if isinstance(error, FileNotFoundError):
        cause = "no such file"
    elif not (isinstance(error, OSError) and error.errno == errno.EINVAL):
        cause = f"cannot read: {cause}"
    return InputError(cause, path=path, hint="check the name and its permissions")


def _read_pipe(handle: int, limit: int) -> bytes:
    """All that a pipe gives until its writers close it; one byte more than the limit at most."""
    poll = select.poll()
    poll.register(handle, select.POLLIN)
    pieces: list[bytes] = []
    size = 0
    end = time.monotonic() + MAX_PIPE_S
    while size <= limit:
        wait = min(MAX_SILENCE_S, end - time.monotonic())
        if wait <= 0 or not poll.poll(wait * 1000):
            what = "wrote nothing" if wait == MAX_SILENCE_S else "did not end"
            seconds = MAX_SILENCE_S if wait == MAX_SILENCE_S else MAX_PIPE_S
            raise OSError(errno.EINVAL, f"a pipe whose writer {what} for {seconds:g} s")
        piece = os.read(handle, min(_PIECE, limit + 1 - size))
        if not piece:
            break
        pieces.append(piece)
        size += len(piece)
    return b"".join(pieces)


def read_text(path: str | Path) -> str:
    """The text of a regular file or a pipe, without a byte-order mark."""
    data = read_input(path, MAX_TEXT_BYTES)
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise InputError(
            "not a text file (invalid UTF-8)",
            path=path,
            line=line,
            hint="check that this is the right file",
        ) from error


def path_exists(path: Path) -> bool:
    """Whether a file or folder exists; False for a name that is too long or holds a NUL."""
    try:
        return path.exists()
    except (OSError, ValueError):
        return False


def check_writable(path: str | Path, *, overwrite: bool) -> None:
    """Refuse early, before long work, what `write_atomically` would refuse at its end."""
    target = Path(os.path.realpath(path))  # a link is written through, never replaced
    if target.is_dir():
        raise UsageError(f"{path} is a directory", hint="give a file name")
    if target.exists() and not overwrite:
        raise UsageError(f"{path} exists", hint="add -f to overwrite it, or give another name")
    if target.exists() and not target.is_file():
        raise UsageError(f"{path} is not a regular file", hint="give another name")
    if not target.parent.is_dir():
        parent = Path(path).parent
        raise UsageError(
            f"{parent} is not a directory", hint=f"make it first: mkdir -p {shell_word(parent)}"
        )
    if not os.access(target.parent, os.W_OK | os.X_OK):
        raise InputError(
            "no permission to write in its folder", path=path, hint="give another folder"
        )


def write_atomically(
    path: str | Path, content: str | bytes, *, overwrite: bool = False, mode: int = 0o666
) -> None:
    """Write a whole file or nothing: temporary file in the same folder, fsync, rename."""
    replace_atomically(
        path, lambda tmp: _write_synced(tmp, content), overwrite=overwrite, mode=mode
    )


def replace_atomically(
    path: str | Path,
    produce: Callable[[Path], None],
    *,
    overwrite: bool = False,
    mode: int = 0o666,
) -> None:
    """Let `produce` fill a temporary file beside `path`, then move it into place.

    `mode` is what the file's rights are at most; the umask takes some away.
    """
    check_writable(path, overwrite=overwrite)
    import tempfile  # noqa: PLC0415 - 5 ms: only who writes needs it

    target = Path(os.path.realpath(path))
    try:
        handle, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
        os.close(handle)
        temporary = Path(name)
        try:
            produce(temporary)
            temporary.chmod(mode & ~_umask())
            temporary.replace(target)
        finally:
            with contextlib.suppress(FileNotFoundError):
                temporary.unlink()
    except OSError as error:
        raise InputError(
            f"cannot write: {error.strerror or error}",
            path=path,
            hint="check permissions and free space",
        ) from error


def _write_synced(path: Path, content: str | bytes) -> None:
    data = content.encode("utf-8", "backslashreplace") if isinstance(content, str) else content
    with path.open("wb") as out:
        out.write(data)
        out.flush()
        os.fsync(out.fileno())


def _umask() -> int:
    current = os.umask(0o022)
    os.umask(current)
    return current


def parse_json(text: str, path: str | Path, *, hint: str) -> Any:
    """Parse JSON that anybody may have written into Python's dicts, lists and scalars.

    Python's parser takes more than the standard: a member stated twice, NaN, numbers that no float
    or 64 bits can hold. They are refused.
    """

    def refusal(cause: str, line: int | None = None, hint: str = hint) -> InputError:
        return InputError(cause, path=path, line=line, hint=hint)

    def members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for name, value in pairs:
            if name in found:
                raise refusal(f"{name[:80]!r} is stated twice", hint="remove one of them")
            found[name] = value
        return found

    def number(word: str) -> float:
        value = float(word)
        if not -inf < value < inf:
            raise refusal(f"the number {word[:40]} is out of range")
        return value

    def whole(word: str) -> int:
        value = int(word) if len(word) <= 20 else 1 << 64
        if not -(2**63) <= value < 2**64:
            raise refusal(f"the number {word[:40]} is out of range")
        return value

    try:
        return json.loads(
            text,
            object_pairs_hook=members,
            parse_constant=number,
            parse_float=number,
            parse_int=whole,
        )
    except json.JSONDecodeError as error:
        is_whole = error.pos < len(text.rstrip())
        raise refusal("not valid JSON" if is_whole else "truncated JSON", error.lineno) from None
    except RecursionError:
        raise refusal("nested too deeply") from None


def decode_json(
    text: str,
    kind: type[T],
    *,
    schema: str,
    path: str | Path,
    check: Callable[[T], None] | None = None,
) -> T:
    """Decode one of our JSON files into `kind`, checking schema name, types and ranges.

    `check` raises ValueError, or PartError, on what contradicts itself.
    """
    import msgspec  # noqa: PLC0415 - 25 ms: only JSON needs it

    raw = parse_json(text, path, hint="the file is damaged; make it again")
    _check_schema(raw, schema, path)
    try:
        value = msgspec.convert(raw, kind, strict=True)
        if check is not None:
            check(value)
    except ValueError as error:
        message, _, place = str(error).partition(" - at `$")
        steps: list[str | int] = [
            name or (int(number) if number.isdigit() else number)
            for name, number in re.findall(r"\.([A-Za-z_]\w*)|\[(\d+|\.\.\.)\]", place)
        ]
        for part in (error, error.__cause__):
            steps += part.part if isinstance(part, PartError) else ()
        where = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in steps)
        raise InputError(
            f"{message[:1].lower()}{message[1:]}" + (f" (at {where[1:]})" if where else ""),
            path=path,
            line=line_of_value(text, steps),
            hint="correct that value",
        ) from error
    return value


def encode_json(value: object, *, schema: str) -> str:
    """JSON of a noun, one record of a list per line, schema first."""
    raw: dict[str, Any] = {"schema": schema, **builtins_of(value)}
    parts = [f"{json.dumps(key)}: {_encode_member(member)}" for key, member in raw.items()]
    return "{\n" + ",\n".join(parts) + "\n}\n"


def builtins_of(value: object) -> Any:
    """Plain dicts, lists and scalars of a noun; None and empty `premises` are left out.

    Names that are not UTF-8 (Python holds their bytes as lone surrogates) are written with escapes,
    because JSON readers refuse surrogates.
    """
    import msgspec  # noqa: PLC0415 - 25 ms: only JSON needs it

    return _without_none(msgspec.to_builtins(value, str_keys=True))


def _without_none(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            _without_none(key): _without_none(item)
            for key, item in value.items()
            if item is not None and (item or key != "premises")
        }
    if isinstance(value, list | tuple):
        return [_without_none(item) for item in value]
    return encodable(value) if isinstance(value, str) else value


def encodable(text: str) -> str:
    """`text` with lone surrogates escaped, so that it can be written as UTF-8."""
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode()


def _encode_member(member: object) -> str:
    if isinstance(member, list) and member and isinstance(member[0], Mapping):
        rows = ",\n  ".join(json.dumps(item, allow_nan=False) for item in member)
        return "[\n  " + rows + "\n]"
    return json.dumps(member, allow_nan=False)


def _check_schema(raw: object, schema: str, path: str | Path) -> None:
    if not isinstance(raw, dict):
        raise InputError("expected a JSON object", path=path, line=1, hint=f"expected {schema}")
    found = raw.get("schema")
    if found != schema:
        name = "no schema name" if found is None else f"schema {str(found)[:80]!r}"
        raise InputError(
            f"expected schema {schema!r}, found {name}",
            path=path,
            line=1,
            hint="make it again: it is of another kind, or from another version of toposeat",
        )


def line_of_value(text: str, steps: Sequence[str | int], *, start: int = 0) -> int:
    """The line where the deepest value on `steps` that can be located starts.

    Args:
        text: valid JSON from `start` on.
        steps: keys of objects and positions in lists, from the outermost value.
        start: position where the JSON begins; lines before it are counted.
    """
    at = start
    with contextlib.suppress(RecursionError):  # deeper than anything that a message is about
        for step in steps:
            if (inner := _start_of(text, at, step)) is None:
                break
            at = inner
    return text.count("\n", 0, at) + 1


def _start_of(text: str, at: int, step: str | int) -> int | None:
    """Where a member or item of the value at `at` begins; None where it has none."""
    between, decoder = re.compile(r"[\s,:]*"), json.JSONDecoder()

    def skip(at: int) -> int:
        match = between.match(text, at)
        return match.end() if match else at

    at = skip(at)
    is_object, is_array = text[at] == "{", text[at] == "["
    number, at = 0, skip(at + 1)
    while (is_object or is_array) and text[at] not in "}]":
        name: str | int = number
        if is_object:
            name, at = decoder.raw_decode(text, at)
            at = skip(at)
        if name == step:
            return at
        at = skip(decoder.raw_decode(text, at)[1])
        number += 1
    return None
