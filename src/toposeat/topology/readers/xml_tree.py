"""XML as a tree of elements that know their line; entities and absurd sizes are refused."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from xml.parsers import expat

from toposeat.errors import InputError

MAX_ELEMENTS = 500_000
MAX_DEPTH = 200
_HINT = "is the file complete? save it again with the tool that wrote it"


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

    def _start(self, tag: str, attributes: dict[str, str]) -> None:
        self._count += 1
        line = self.parser.CurrentLineNumber
        if self._count > MAX_ELEMENTS or len(self._open) >= MAX_DEPTH:
            raise InputError(
                f"more than {MAX_ELEMENTS} elements, or more than {MAX_DEPTH} inside each other",
                path=self.path,
                line=line,
                hint="this is no topology",
            )
        element = XmlElement(tag, attributes, line)
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
        raise InputError(
            f"the document defines an entity ({name}), which no topology needs",
            path=self.path,
            line=self.parser.CurrentLineNumber,
            hint="remove the definition",
        )


def parse_xml(text: str, path: Path) -> XmlElement:
    """The root element.

    Raises:
        InputError: not well-formed, an entity definition, or absurdly large, with file and line.
    """
    builder = _Builder(path)
    try:
        # As UTF-8, whatever the declaration says: the text is decoded already.
        builder.parser.Parse(_without_declaration(text).encode("utf-8", "replace"), True)
    except LookupError:  # a declaration in the middle of the text, of no encoding there is
        line = builder.parser.CurrentLineNumber
        raise InputError(
            "bad XML: a second declaration", path=path, line=line, hint=_HINT
        ) from None
    except expat.ExpatError as error:
        reason = expat.ErrorString(error.code)
        raise InputError(f"bad XML: {reason}", path=path, line=error.lineno, hint=_HINT) from None
    if builder.root is None:
        raise InputError("bad XML: no element", path=path, hint=_HINT)
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
