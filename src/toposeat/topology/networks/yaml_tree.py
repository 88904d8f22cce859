"""YAML with the line of every value, and within limits: no tags, no deep nesting, no bombs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import yaml

from toposeat.errors import InputError
from toposeat.topology.readers.file_text import FileText

MAX_BYTES = 8 * 1024 * 1024
MAX_NODES = 400_000
_MAX_DEPTH = 60
_HINT = "check the indentation near that line; is the file complete?"


@dataclass(frozen=True)
class YamlNode:
    """A mapping (`entries`), a sequence (`items`) or a scalar (`text`), at a line of the file."""

    file: FileText
    line: int
    text: str | None = None
    items: tuple[YamlNode, ...] | None = None
    entries: dict[str, YamlNode] | None = None

    def error(self, message: str, hint: str = "") -> InputError:
        """An error at the line of this value."""
        return InputError(message, path=self.file.path, line=self.line, hint=hint or _HINT)

    def get(self, key: str) -> YamlNode | None:
        """The value of a key of a mapping; None if there is none or this is no mapping."""
        return (self.entries or {}).get(key)

    def need(self, key: str) -> YamlNode:
        """The value of a key of a mapping; raises InputError if there is none."""
        found = self.get(key)
        if found is None:
            raise self.error(f"expected {key!r} here")
        return found

    def mapping(self) -> dict[str, YamlNode]:
        """The entries of what must be a mapping; an empty value counts as one."""
        if self.entries is None and not self._is_empty:
            raise self.error("expected keys with values here")
        return self.entries or {}

    def sequence(self) -> tuple[YamlNode, ...]:
        """The items of what must be a list; an empty value counts as one."""
        if self.items is None and not self._is_empty:
            raise self.error("expected a list here")
        return self.items or ()

    @property
    def _is_empty(self) -> bool:
        return self.text is not None and self.text.strip() in ("", "~", "null", "Null", "NULL")

    def string(self) -> str:
        """The text of what must be a single value."""
        if self.text is None:
            raise self.error("expected a single value here")
        return self.text

    @property
    def is_true(self) -> bool:
        """Whether the value is true, yes or on."""
        return self.string().lower() in ("true", "yes", "on")

    def whole(self, low: int, high: int) -> int:
        """A whole number within limits."""
        text = self.string()
        if not (text.isascii() and text.isdigit() and len(text) < 10):
            raise self.error(f"expected a whole number, found {text[:30]!r}")
        if not low <= int(text) <= high:
            raise self.error(f"expected {low} to {high}, found {text}")
        return int(text)


def parse_yaml(file: FileText) -> YamlNode:
    """The one document of a file.

    Raises:
        InputError: damaged, too large, nested too deeply, or with a key twice.
    """
    if len(file.text) > MAX_BYTES:
        raise InputError("larger than 8 MiB: not a topology", path=file.path, hint=_HINT)
    events = _events(file)
    roots = [
        _node(next(events), events, file, 0)
        for event in events
        if isinstance(event, yaml.DocumentStartEvent)
    ]
    if len(roots) > 1:
        raise roots[1].error("a second document", "keep one document per file")
    if not roots:
        raise InputError("the file is empty", path=file.path, hint=_HINT)
    return roots[0]


def _events(file: FileText) -> Iterator[yaml.Event]:
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    text = "\n".join(file.lines)
    try:
        for number, event in enumerate(yaml.parse(text, Loader=loader)):
            if number > MAX_NODES:
                raise InputError("more values than a topology has", path=file.path, hint=_HINT)
            yield event
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        problem = getattr(error, "problem", None) or getattr(error, "reason", None) or "damaged"
        line = mark.line + 1 if mark else None
        if isinstance(error, yaml.reader.ReaderError):  # of a character that no YAML may have
            line = text.encode("utf-8", "replace").count(b"\n", 0, error.position) + 1
        cause = f"no valid YAML: {str(problem)[:100]}".splitlines()[0]
        raise InputError(cause, path=file.path, line=line, hint=_HINT) from None


def _node(event: yaml.Event, events: Iterator[yaml.Event], file: FileText, depth: int) -> YamlNode:
    line = event.start_mark.line + 1
    if depth > _MAX_DEPTH:
        raise InputError("nested too deeply", path=file.path, line=line, hint=_HINT)
    if isinstance(event, yaml.ScalarEvent):
        return YamlNode(file, line, text=event.value)
    if isinstance(event, yaml.SequenceStartEvent):
        items = []
        while not isinstance(inner := next(events), yaml.SequenceEndEvent):
            items.append(_node(inner, events, file, depth + 1))
        return YamlNode(file, line, items=tuple(items))
    if isinstance(event, yaml.MappingStartEvent):
        return YamlNode(file, line, entries=_entries(events, file, depth + 1))
    raise InputError("YAML aliases are not read", path=file.path, line=line, hint="write it out")


def _entries(events: Iterator[yaml.Event], file: FileText, depth: int) -> dict[str, YamlNode]:
    entries: dict[str, YamlNode] = {}
    while not isinstance(inner := next(events), yaml.MappingEndEvent):
        key = _node(inner, events, file, depth)
        name = key.string()
        if name in entries:
            raise key.error(f"{name[:40]!r} appears twice")
        entries[name] = _node(next(events), events, file, depth)
    return entries
