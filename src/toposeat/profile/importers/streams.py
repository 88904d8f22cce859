"""Other tools' files as streams: plain or gzip, by line or by JSON value, never whole in memory."""

from __future__ import annotations

import codecs
import gzip
import json
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, cast

from toposeat.errors import InputError
from toposeat.model.files import open_input, unreadable

GZIP_MAGIC = b"\x1f\x8b"
MAX_STREAM_BYTES = 8 * 2**30  # of a file when unpacked
MAX_LINE_BYTES = 1 << 16


@contextmanager
def open_stream(path: Path) -> Iterator[IO[bytes]]:
    """The content of a file, unpacked if it is gzip."""
    try:
        with open_input(path) as raw:
            packed = raw.read(2) == GZIP_MAGIC
            raw.seek(0)
            if packed:
                with gzip.open(raw) as unpacked:
                    yield cast("IO[bytes]", unpacked)
            else:
                yield raw
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise InputError(f"damaged gzip data: {error}", path=path, hint="copy it again") from error
    except (OSError, ValueError) as error:
        raise unreadable(path, error) from error


def beginning(path: Path, length: int) -> bytes:
    """The first bytes of a file, unpacked if it is gzip; b"" if it cannot be read."""
    try:
        with open_stream(path) as stream:
            return stream.read(length)
    except InputError:
        return b""


def lines_of(path: Path) -> Iterator[tuple[int, str]]:
    """Numbered lines; long ones (`MAX_LINE_BYTES`) are cut, bytes that are no text replaced."""
    total = 0
    with open_stream(path) as stream:
        number, begun = 0, False
        while line := stream.readline(MAX_LINE_BYTES):
            total += len(line)
            check_size(total, path)
            if not begun:
                number += 1
                yield number, line.decode("utf-8", "replace").rstrip("\r\n")
            begun = not line.endswith(b"\n")  # the rest of a long line follows: leave it out


def check_size(total: int, path: Path) -> None:
    """Refuse what unpacks to more than anybody waits for."""
    if total > MAX_STREAM_BYTES:
        raise InputError(
            f"more than {MAX_STREAM_BYTES // 2**30} GiB of text",
            path=path,
            hint="record fewer steps, or cut the file",
        )


MAX_PART = 1 << 25  # characters of one element or one member
_CHUNK = 1 << 20
_BLANKS = " \t\r\n"
_HINT = "is the file complete?"


class JsonStream:
    """A cursor over the text of a JSON file (plain or gzip); all errors name file and line."""

    def __init__(self, path: Path, chunks: Iterator[str]) -> None:
        self._path = path
        self._chunks = chunks
        self._text = ""
        self._at = 0
        self._line = 1  # of the character at _counted
        self._counted = 0
        self._decoder = json.JSONDecoder()

    def error(self, message: str) -> InputError:
        """An error at the cursor."""
        return InputError(message, path=self._path, line=self.line(), hint=_HINT)

    def line(self) -> int:
        """The line of the cursor."""
        self._line += self._text.count("\n", self._counted, self._at)
        self._counted = self._at
        return self._line

    def peek(self) -> str:
        """The next character that is no blank, not taken; "" at the end."""
        while True:
            while self._at < len(self._text):
                if self._text[self._at] not in _BLANKS:
                    return self._text[self._at]
                self._at += 1
            if not self._more():
                return ""

    def take(self, expected: str) -> bool:
        """Takes the next character if it is the expected one."""
        if self.peek() != expected:
            return False
        self._at += 1
        return True

    def value(self) -> Any:
        """The whole value at the cursor."""
        if self.peek() == "":
            raise self.error("the file ends in the middle of a value")
        while True:
            try:
                value, end = self._decoder.raw_decode(self._text, self._at)
            except RecursionError as error:
                raise self.error("too deeply nested") from error
            except ValueError as error:
                if len(self._text) - self._at > MAX_PART:
                    raise self.error("a value of unusual size, or no JSON") from error
                if not self._more():
                    cause = getattr(error, "msg", str(error)[:80]).lower()
                    raise self.error(f"damaged JSON: {cause}") from error
                continue
            # A number at the end of what is here may go on.
            if end == len(self._text) and self._text[end - 1] not in '"]}' and self._more():
                continue
            self._at = end
            return value

    def _more(self) -> bool:
        """Reads on and drops the text before the cursor."""
        chunk = next(self._chunks, "")
        if not chunk:
            return False
        # At least as much again as is waiting, so that a long value is not tried too often.
        while len(chunk) < len(self._text) - self._at:
            further = next(self._chunks, "")
            if not further:
                break
            chunk += further
        self.line()
        self._text = self._text[self._at :] + chunk
        self._at = self._counted = 0
        return True


def _chunks(path: Path) -> Iterator[str]:
    decode = codecs.getincrementaldecoder("utf-8")("replace").decode
    total = 0
    with open_stream(path) as stream:
        while data := stream.read(_CHUNK):
            total += len(data)
            check_size(total, path)
            # Undecodable first bytes may leave nothing of a chunk: read on rather than stop.
            yield decode(data) or " "
        yield decode(b"", True)


def members_of(path: Path, array: str) -> Iterator[tuple[str, Any, int]]:
    """The members of the one object of a file, name, value and line.

    Those of the member `array` come one at a time.

    A file that is an array is taken as that member alone.
    """
    stream = JsonStream(path, _chunks(path))
    if stream.peek() == "[":
        yield from _elements(stream, array)
        return
    if not stream.take("{"):
        raise stream.error("expected a JSON object")
    while not stream.take("}"):
        name = stream.value() if stream.peek() == '"' else None
        if not isinstance(name, str) or not stream.take(":"):
            raise stream.error('expected "name": value')
        if name == array and stream.peek() == "[":
            yield from _elements(stream, array)
        else:
            stream.peek()
            line = stream.line()
            yield name, stream.value(), line
        if not stream.take(",") and stream.peek() != "}":
            raise stream.error("expected , or }")


def _elements(stream: JsonStream, name: str) -> Iterator[tuple[str, Any, int]]:
    stream.take("[")
    while not stream.take("]"):
        line = stream.line()
        yield name, stream.value(), line
        if not stream.take(",") and stream.peek() != "]":
            raise stream.error("expected , or ]")
