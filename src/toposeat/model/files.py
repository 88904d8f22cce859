"""Reading and writing files so that nothing is lost, half-written or silently misread."""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from toposeat.errors import InputError, UsageError
from toposeat.model.input_file import read_input
from toposeat.model.json_text import line_of_value, parse_json
from toposeat.model.part_error import PartError
from toposeat.model.shell_words import shell_word

MAX_TEXT_BYTES = 512 * 1024 * 1024

T = TypeVar("T")


def path_exists(path: Path) -> bool:
    """Whether a file or folder exists; False for a name that is too long or holds a NUL."""
    try:
        return path.exists()
    except (OSError, ValueError):
        return False


def check_writable(path: str | Path, *, overwrite: bool) -> None:
    """Refuse early, before long work, what `write_atomically` would refuse at its end.

    Raises:
        UsageError: the file exists and `overwrite` is false, it is no regular file, or its folder
            does not exist.
        InputError: no permission to write in its folder.
    """
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
    import tempfile  # noqa: PLC0415 - 5 ms: only who writes needs it

    target = Path(os.path.realpath(path))
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
    data = content.encode("utf-8", "backslashreplace") if isinstance(content, str) else content
    with path.open("wb") as out:
        out.write(data)
        out.flush()
        os.fsync(out.fileno())


def _umask() -> int:
    current = os.umask(0o022)
    os.umask(current)
    return current


def read_text(path: str | Path) -> str:
    """The text of a regular file or a pipe, without a byte-order mark.

    Raises:
        InputError: see `read_input`; also not text.
    """
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


def decode_json(text: str, kind: type[T], *, schema: str, path: str | Path) -> T:
    """Decode one of our JSON files into `kind`, checking schema name, types and ranges.

    Raises:
        InputError: with the line of the value that is wrong.
    """
    import msgspec  # noqa: PLC0415 - 25 ms: only JSON needs it

    raw = parse_json(text, path, hint="the file is damaged; make it again")
    _check_schema(raw, schema, path)
    try:
        return msgspec.convert(raw, kind, strict=True)
    except msgspec.ValidationError as error:
        message, where = _split_path(str(error))
        if isinstance(error.__cause__, PartError):
            where = [*where, *error.__cause__.part]
        raise InputError(
            message, path=path, line=line_of_value(text, where), hint="correct that value"
        ) from error


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
