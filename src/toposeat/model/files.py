"""Reading and writing files so that nothing is lost, half-written or silently misread."""

from __future__ import annotations

import contextlib
import json
import os
import re
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from toposeat.errors import InputError, UsageError

MAX_TEXT_BYTES = 512 * 1024 * 1024

T = TypeVar("T")


def check_writable(path: str | Path, *, overwrite: bool) -> None:
    """Refuse early, before long work, what `write_atomically` would refuse at its end.

    Raises:
        UsageError: the file exists and `overwrite` is false, or its folder does not exist.
    """
    target = Path(path)
    if target.is_dir():
        raise UsageError(f"{target} is a directory", hint="give a file name")
    if target.exists() and not overwrite:
        raise UsageError(f"{target} exists", hint="add -f to overwrite it, or give another name")
    if not target.parent.is_dir():
        raise UsageError(
            f"{target.parent} is not a directory", hint=f"make it first: mkdir -p {target.parent}"
        )


def write_atomically(path: str | Path, content: str | bytes, *, overwrite: bool = False) -> None:
    """Write a whole file or nothing: temporary file in the same folder, fsync, rename.

    Raises:
        UsageError: see `check_writable`.
        InputError: the operating system refused.
    """
    replace_atomically(path, lambda tmp: _write_synced(tmp, content), overwrite=overwrite)


def replace_atomically(
    path: str | Path, produce: Callable[[Path], None], *, overwrite: bool = False
) -> None:
    """Let `produce` fill a temporary file beside `path`, then move it into place."""
    check_writable(path, overwrite=overwrite)
    target = Path(path)
    try:
        handle, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
        os.close(handle)
        temporary = Path(name)
        try:
            produce(temporary)
            temporary.chmod(0o666 & ~_umask())
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
    data = content.encode() if isinstance(content, str) else content
    with path.open("wb") as out:
        out.write(data)
        out.flush()
        os.fsync(out.fileno())


def _umask() -> int:
    current = os.umask(0o022)
    os.umask(current)
    return current


def read_text(path: str | Path) -> str:
    """The text of a file, without a byte-order mark.

    Raises:
        InputError: missing, unreadable, not text, or larger than `MAX_TEXT_BYTES`.
    """
    target = Path(path)
    try:
        if not target.is_file() and not target.is_fifo():
            raise InputError(
                "no such file" if not target.exists() else "not a file",
                path=target,
                hint="check the name",
            )
        if target.is_file() and target.stat().st_size > MAX_TEXT_BYTES:
            raise InputError(
                "too large to be what it should be", path=target, hint="check the name"
            )
        data = target.read_bytes()
    except OSError as error:
        raise InputError(
            f"cannot read: {error.strerror or error}", path=target, hint="check permissions"
        ) from error
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise InputError(
            "not a text file (invalid UTF-8)",
            path=target,
            line=line,
            hint="check that this is the right file",
        ) from error


def decode_json(text: str, kind: type[T], *, schema: str, path: str | Path) -> T:
    """Decode one of our JSON files into `kind`, checking schema name, types and ranges.

    Raises:
        InputError: with the line of the value that is wrong.
    """
    try:
        raw = msgspec.json.decode(text)
    except msgspec.DecodeError as error:
        line = _line_of_syntax_error(text)
        cause = "truncated JSON" if "truncated" in str(error) else "not valid JSON"
        raise InputError(
            cause, path=path, line=line, hint="the file is damaged; make it again"
        ) from error
    _check_schema(raw, schema, path)
    try:
        return msgspec.convert(raw, kind, strict=True)
    except msgspec.ValidationError as error:
        message, where = _split_path(str(error))
        raise InputError(
            message, path=path, line=_line_of_path(text, where), hint="correct that value"
        ) from error


def encode_json(value: object, *, schema: str) -> str:
    """JSON of a noun, one record of a list per line, schema first."""
    raw: dict[str, Any] = {"schema": schema, **builtins_of(value)}
    parts = [f"{json.dumps(key)}: {_encode_member(member)}" for key, member in raw.items()]
    return "{\n" + ",\n".join(parts) + "\n}\n"


def builtins_of(value: object) -> Any:
    """Plain dicts, lists and scalars of a noun; members that are None are left out."""
    return _without_none(msgspec.to_builtins(value, str_keys=True))


def _without_none(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_none(item) for key, item in value.items() if item is not None}
    if isinstance(value, list | tuple):
        return [_without_none(item) for item in value]
    return value


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
            hint="this file is of another kind, or from another version of toposeat",
        )


_PATH = re.compile(r"^(.*?)(?: - at `\$(.*)`)?$", re.DOTALL)


def _split_path(message: str) -> tuple[str, list[str | int]]:
    match = _PATH.match(message)
    assert match is not None  # the pattern matches every string
    steps: list[str | int] = []
    for name, number in re.findall(r"\.([A-Za-z_]\w*)|\[(\d+|\.\.\.)\]", match.group(2) or ""):
        steps.append(name if name else (int(number) if number.isdigit() else number))
    text = match.group(1)
    suffix = f" (at {''.join(f'[{s}]' if isinstance(s, int) else f'.{s}' for s in steps)[1:]})"
    text = text[:1].lower() + text[1:]
    return text + (suffix if steps else ""), steps


def _line_of_syntax_error(text: str) -> int:
    try:
        json.loads(text)
    except json.JSONDecodeError as error:
        return error.lineno
    except RecursionError:
        pass
    return text.count("\n") + 1


def _line_of_path(text: str, steps: Sequence[str | int]) -> int:
    """The line where the deepest value on `steps` that can be located starts."""
    position = 0
    node: object = _located(text)
    for step in steps:
        if isinstance(node, _LocatedObject) and step in node.members:
            position, node = node.members[str(step)]
        elif isinstance(node, _LocatedArray) and isinstance(step, int) and step < len(node.items):
            position, node = node.items[step]
        else:
            break
    return text.count("\n", 0, position) + 1


class _LocatedObject:
    def __init__(self) -> None:
        self.members: dict[str, tuple[int, object]] = {}


class _LocatedArray:
    def __init__(self) -> None:
        self.items: list[tuple[int, object]] = []


_SPACE = re.compile(r"[ \t\r\n]*")
_SCALAR = re.compile(r'"(?:[^"\\]|\\.)*"|[^\s,\]}]+')


def _located(text: str) -> object:
    """Positions of all values of JSON known to be valid (only run once an error must be placed)."""

    def skip(at: int) -> int:
        match = _SPACE.match(text, at)
        return match.end() if match else at

    def value(at: int) -> tuple[int, object]:
        if text[at] == "{":
            return members(at)
        if text[at] == "[":
            return items(at)
        match = _SCALAR.match(text, at)
        return (match.end() if match else at + 1), None

    def members(at: int) -> tuple[int, object]:
        found = _LocatedObject()
        at = skip(at + 1)
        while text[at] != "}":
            key = _SCALAR.match(text, at)
            assert key is not None  # valid JSON: a member starts with a string
            start = skip(skip(key.end()) + 1)
            at, child = value(start)
            found.members[json.loads(key.group())] = (start, child)
            at = skip(at)
            at = skip(at + 1) if text[at] == "," else at
        return at + 1, found

    def items(at: int) -> tuple[int, object]:
        found = _LocatedArray()
        at = skip(at + 1)
        while text[at] != "]":
            start = at
            at, child = value(start)
            found.items.append((start, child))
            at = skip(at)
            at = skip(at + 1) if text[at] == "," else at
        return at + 1, found

    return value(skip(0))[1]
