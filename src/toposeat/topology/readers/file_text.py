"""A file as all readers see it: text and lines, XML as a tree, JSON and YAML as a type."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar
from xml.parsers import expat

from toposeat.errors import InputError
from toposeat.model.files import parse_json, read_input

_MAX_BYTES = 64 * 1024 * 1024
MAX_ELEMENTS = 500_000  # of XML
MAX_DEPTH = 200
_HEAD = 200_000
_HINT = "check that this is the right file"
_XML_HINT = "is the file complete? save it again with the tool that wrote it"
_YAML_HINT = "check the indentation near that line; is the file complete?"
_YAML_EMPTY = frozenset(("", "~", "null", "Null", "NULL"))
_MAX_YAML_BYTES = 8 * 1024 * 1024
_MAX_YAML_NODES = 400_000
_MAX_YAML_DEPTH = 60
_JSON = re.compile(r"^\s*[\[{]", re.MULTILINE)

_Type = TypeVar("_Type")


@dataclass
class FileText:
    """The text of one file; `path` is for names and messages, `hint` says how to get it again.

    `begins` is the line in which an output among several begins, `above` are lines of the file that
    were left out above the text. Texts of terminals come with
    carriage returns, a byte-order mark and blank lines before the first word: `text` keeps all of
    them, `lines` and `start` do not.
    """

    text: str
    path: Path
    hint: str = _HINT
    begins: int = 1
    above: int = 0

    def refusal(self, message: str, line: int | None = None, *, hint: str = "") -> InputError:
        """The error of a file that is damaged, or of a kind that no reader knows."""
        line = None if line is None else line + self.above
        return InputError(message, path=self.path, line=line, hint=hint or self.hint)

    @contextmanager
    def at(self, line: int | None, what: str = "") -> Iterator[None]:
        """Refuse the file, at this line, where a value of it is impossible: where it says so."""
        try:
            yield
        except ValueError as error:
            raise self.refusal(f"{what}{str(error)[:200]}", line) from error

    @property
    def name(self) -> str:
        """What the machine is called if the file itself names none."""
        return self.path.stem or self.path.name

    @cached_property
    def start(self) -> str:
        """Its first 200 000 characters from the first that is not blank, lines as in `lines`."""
        head = self.text[: 2 * _HEAD].lstrip("\ufeff \t\r\n")[:_HEAD]
        return head.replace("\r\n", "\n").replace("\r", "\n")

    @property
    def first_line(self) -> int:
        """The number of the first line that is not blank."""
        blank = len(self.text) - len(self.text.lstrip("\ufeff \t\r\n"))
        return 1 + self.text.replace("\r\n", " \n").replace("\r", "\n").count("\n", 0, blank)

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
    def is_json(self) -> bool:
        """Whether it begins like JSON."""
        return re.match(r"\{|\[\s*[{\[\"\]]", self.start) is not None

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
    """The file as text; Windows' UTF-16 is understood, binary content refused."""
    data = read_input(path, _MAX_BYTES)
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


@dataclass(slots=True)
class XmlElement:
    """One element, and the text directly inside of it."""

    tag: str
    attributes: dict[str, str]
    line: int
    children: list[XmlElement] = field(default_factory=list)
    text: str = ""

    def get(self, name: str, default: str = "") -> str:
        """An attribute's text, without blanks around it."""
        return self.attributes.get(name, default).strip()

    def named(self, tag: str) -> Iterator[XmlElement]:
        """The children with this tag."""
        return (child for child in self.children if child.tag == tag)

    def walk(self) -> Iterator[XmlElement]:
        """This element and all below it, in the order of the file."""
        pending = [self]
        while pending:
            element = pending.pop()
            yield element
            pending.extend(reversed(element.children))


class _Builder:
    """Handlers of one parse."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.root: XmlElement | None = None
        self._open: list[XmlElement] = []
        self._count = 0
        self.parser = expat.ParserCreate()
        self.parser.buffer_text = True
        self.parser.StartElementHandler = self._start
        self.parser.EndElementHandler = self._end
        self.parser.CharacterDataHandler = self._text
        self.parser.EntityDeclHandler = self._entity

    def refusal(self, message: str, line: int, hint: str = _XML_HINT) -> InputError:
        return InputError(message, path=self.path, line=line, hint=hint)

    def _start(self, tag: str, attributes: dict[str, str]) -> None:
        self._count += 1
        element = XmlElement(tag, attributes, self.parser.CurrentLineNumber)
        if self._count > MAX_ELEMENTS or len(self._open) >= MAX_DEPTH:
            limits = (
                f"more than {MAX_ELEMENTS} elements, or more than {MAX_DEPTH} inside each other"
            )
            raise self.refusal(limits, element.line, "this is no topology")
        if self._open:
            self._open[-1].children.append(element)
        else:
            self.root = element
        self._open.append(element)

    def _end(self, _: str) -> None:
        self._open.pop()

    def _text(self, text: str) -> None:
        if text.strip():
            self._open[-1].text += text

    def _entity(self, name: str, *_: object) -> None:
        cause = f"the document defines an entity ({name}), which no topology needs"
        raise self.refusal(cause, self.parser.CurrentLineNumber, "remove the definition")


def parse_xml(text: str, path: Path) -> XmlElement:
    """The root element; entities and absurd sizes are refused."""
    builder = _Builder(path)
    try:
        # As UTF-8, whatever the declaration says: the text is decoded already.
        builder.parser.Parse(_without_declaration(text).encode("utf-8", "replace"), True)
    except LookupError:  # a declaration in the middle of the text, of no encoding there is
        cause = "bad XML: a second declaration"
        raise builder.refusal(cause, builder.parser.CurrentLineNumber) from None
    except expat.ExpatError as error:
        cause = f"bad XML: {expat.ErrorString(error.code)}"
        raise builder.refusal(cause, error.lineno) from None
    assert builder.root is not None  # well-formed XML has one
    return builder.root


def _without_declaration(text: str) -> str:
    """The text with its `<?xml ... ?>` blanked out: lines keep their numbers."""
    text = text.lstrip("\ufeff")
    start = len(text) - len(text.lstrip())
    if not text.startswith("<?xml", start):
        return text
    end = text.find("?>", start)
    if end < 0:
        return text
    declaration = text[: end + 2]
    return "\n" * declaration.count("\n") + text[end + 2 :]


def json_of(file: FileText, kind: type[_Type]) -> _Type:
    """The JSON value of a file, as a type; tools print warnings before it, on the same stream."""
    text = file.text.removeprefix("\ufeff")
    match = _JSON.search(text)
    if match is None:
        raise file.refusal("no JSON found")
    above = text.count("\n", 0, match.start())
    value = parse_json("\n" * above + text[match.start() :], file.path, hint=file.hint)
    return _typed(file, value, kind, "JSON")


def yaml_of(file: FileText, kind: type[_Type]) -> _Type:
    """The one YAML document of a file, as a type; empty values are None, all others texts.

    No tags, no aliases (bombs), no key twice, nothing nested deeply.
    """
    import yaml  # noqa: PLC0415 - 60 ms: only some networks need it

    events = _yaml_events(file)
    starts = (event for event in events if isinstance(event, yaml.DocumentStartEvent))
    documents = [_yaml_value(next(events), events, file, 0) for _ in starts]
    if len(documents) != 1:
        raise file.refusal(f"{len(documents)} documents, expected one", hint=_YAML_HINT)
    return _typed(file, documents[0], kind, "YAML")


def _yaml_events(file: FileText) -> Iterator[Any]:
    import yaml  # noqa: PLC0415 - as above

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    text = "\n".join(file.lines)
    try:
        for number, event in enumerate(yaml.parse(text, Loader=loader)):
            if number > _MAX_YAML_NODES or len(text) > _MAX_YAML_BYTES:
                raise file.refusal("larger than a topology is", hint=_YAML_HINT)
            yield event
    except yaml.YAMLError as error:
        mark, problem = getattr(error, "problem_mark", None), getattr(error, "problem", None)
        line = mark.line + 1 if mark else None
        if isinstance(error, yaml.reader.ReaderError):  # of a character that no YAML may have
            line = text.encode("utf-8", "replace").count(b"\n", 0, error.position) + 1
            problem = error.reason
        cause = f"no valid YAML: {str(problem)[:100]}"
        raise file.refusal(cause, line, hint=_YAML_HINT) from None


def _yaml_value(event: Any, events: Iterator[Any], file: FileText, depth: int) -> Any:
    import yaml  # noqa: PLC0415 - as above

    line = event.start_mark.line + 1
    if depth > _MAX_YAML_DEPTH or isinstance(event, yaml.AliasEvent):
        raise file.refusal("YAML aliases and deep nesting are not read", line, hint=_YAML_HINT)
    if isinstance(event, yaml.ScalarEvent):
        return None if event.style is None and event.value in _YAML_EMPTY else event.value
    if isinstance(event, yaml.SequenceStartEvent):
        items = []
        while not isinstance(inner := next(events), yaml.SequenceEndEvent):
            items.append(_yaml_value(inner, events, file, depth + 1))
        return items
    found: dict[str, Any] = {}
    while not isinstance(inner := next(events), yaml.MappingEndEvent):
        key = _yaml_value(inner, events, file, depth + 1)
        if not isinstance(key, str) or key in found:
            at = inner.start_mark.line + 1
            raise file.refusal(
                f"{str(key)[:40]!r} appears twice, or is no key", at, hint=_YAML_HINT
            )
        found[key] = _yaml_value(next(events), events, file, depth + 1)
    return found


def _typed(file: FileText, value: Any, kind: type[_Type], what: str) -> _Type:
    import msgspec  # noqa: PLC0415 - 25 ms: only JSON and YAML need it

    try:
        return msgspec.convert(value, kind, strict=what == "JSON")
    except msgspec.ValidationError as error:
        raise file.refusal(f"unexpected {what}: {str(error)[:200]}") from error
