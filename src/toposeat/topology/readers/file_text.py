"""A file as all readers see it: text, lines, and XML where it is that."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from toposeat.errors import InputError
from toposeat.model.files import read_input
from toposeat.topology.readers.xml_tree import XmlElement, parse_xml

MAX_BYTES = 64 * 1024 * 1024
_HEAD = 200_000
_HINT = "check that this is the right file"


Place = int | Callable[[], int | None] | None  # a line, or how to find it: in JSON, only for errors


def line_at(place: Place) -> int | None:
    """The line of a place."""
    return place() if callable(place) else place


@dataclass
class FileText:
    """The text of one file; `path` is for names and messages, `hint` says how to get it again.

    Texts of terminals come with carriage returns, a byte-order mark and blank lines before the
    first word: `text` keeps all of them, `lines` and `start` do not.
    """

    text: str
    path: Path
    hint: str = _HINT

    def refusal(self, message: str, line: int | None = None, *, hint: str = "") -> InputError:
        """The error of a file that is damaged, or of a kind that no reader knows."""
        return InputError(message, path=self.path, line=line, hint=hint or self.hint)

    @property
    def name(self) -> str:
        """What the machine is called if the file itself names none."""
        return self.path.stem or self.path.name

    @cached_property
    def start(self) -> str:
        """Its first 200 000 characters from the first that is not blank, lines as in `lines`."""
        head = self.text[: 2 * _HEAD].lstrip("\ufeff \t\r\n")[:_HEAD]
        return head.replace("\r\n", "\n").replace("\r", "\n")

    @cached_property
    def lines(self) -> tuple[str, ...]:
        """Lines without their ends; line n of the file is `lines[n - 1]`."""
        text = self.text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
        return tuple(text.split("\n"))

    @property
    def xml(self) -> XmlElement | None:
        """The root element; None if this is no XML, or damaged."""
        return self._parsed_xml[0]

    @property
    def xml_error(self) -> InputError | None:
        """Why a text that begins like XML is not well-formed."""
        return self._parsed_xml[1]

    @property
    def declares_xml(self) -> bool:
        """Whether it calls itself XML, well-formed or not."""
        return self.start.startswith(("<?xml", "<!DOCTYPE"))

    @cached_property
    def _parsed_xml(self) -> tuple[XmlElement | None, InputError | None]:
        if not self.start.startswith("<"):
            return None, None
        try:
            return parse_xml(self.text, self.path), None
        except InputError as error:
            return None, error


def read_file(path: Path) -> FileText:
    """The file as text; Windows' UTF-16 is understood, binary content refused.

    Raises:
        InputError: missing, unreadable, no text, or larger than `MAX_BYTES`.
    """
    return decoded(read_input(path, MAX_BYTES), path)


def decoded(data: bytes, path: Path) -> FileText:
    """The text of a file's bytes; see `read_file`."""
    if len(data) > MAX_BYTES:
        raise InputError(
            f"larger than {MAX_BYTES >> 20} MiB: not a topology", path=path, hint=_HINT
        )
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        try:
            return FileText(data.decode("utf-16"), path)
        except UnicodeDecodeError:
            raise InputError("damaged UTF-16 text", path=path, hint=_HINT) from None
    if b"\0" in data:
        raise InputError("binary content: not a topology", path=path, hint=_HINT)
    try:
        return FileText(data.decode("utf-8"), path)
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise InputError("not UTF-8 text", path=path, line=line, hint=_HINT) from None
