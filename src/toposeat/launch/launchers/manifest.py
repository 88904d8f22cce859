"""A manifest of Kubernetes to which fields are added; all that its author wrote stays as it is."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from toposeat.errors import InputError

if TYPE_CHECKING:
    import yaml

_HINT = "give the YAML or JSON that kubectl apply takes"
_MOST_CHARACTERS = 1 << 18


@dataclass
class Manifest:
    """The objects of a manifest, as nodes that know their places in its text."""

    text: str
    path: Path  # for messages
    objects: list[yaml.MappingNode] = field(init=False)
    _added: dict[tuple[int, str], str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        import yaml  # noqa: PLC0415 - 60 ms, only manifests need it

        if len(self.text) > _MOST_CHARACTERS:
            raise self.refusal("larger than a manifest is")
        try:
            nodes = list(yaml.compose_all(self.text, Loader=yaml.SafeLoader))
        except (yaml.YAMLError, RecursionError) as error:
            mark = getattr(error, "problem_mark", None)
            problem = getattr(error, "problem", None) or "no valid YAML"
            raise self.refusal(str(problem)[:100], mark and mark.line + 1) from None
        self.objects = [each for each in nodes if isinstance(each, yaml.MappingNode)]

    def refusal(self, message: str, line: int | None = None, hint: str = _HINT) -> InputError:
        """An error of the manifest."""
        return InputError(message, path=self.path, line=line, hint=hint)

    def at(self, node: yaml.Node, path: str) -> Iterator[yaml.Node]:
        """What is at a path of keys; `*` stands for each of a list or an object."""
        key, _, rest = path.partition(".")
        for child in _items(node) if key == "*" else self._value(node, key):
            yield from self.at(child, rest) if rest else (child,)

    def _value(self, node: yaml.Node, key: str) -> Iterator[yaml.Node]:
        for name, value in node.value if node.id == "mapping" else ():
            if name.value == "<<":
                line = name.start_mark.line + 1
                raise self.refusal("merge keys (<<) are not read", line, "write the fields out")
            if name.value == key:
                yield value

    def word(self, node: yaml.Node, path: str) -> str:
        """The scalar at a path, "" without one."""
        return next((str(x.value) for x in self.at(node, path) if isinstance(x.value, str)), "")

    def add(self, node: yaml.Node, key: str, value: object, comment: str = "") -> None:
        """Add a field to an object, or, without a key, an item to a list, in front of others.

        What is added twice (an alias stands for what it names) is added once.
        """
        import yaml  # noqa: PLC0415 - as above

        if not isinstance(node, yaml.CollectionNode):
            raise self.refusal(f"no place for {key or 'a list item'}", node.start_mark.line + 1)
        first = node.value[0][0] if key and node.value else node
        line = self.text[: first.start_mark.index].rpartition("\n")[2]
        if key and line.strip() and len(node.value) > 1:  # behind a dash: its line stays
            first = node.value[1][0]
        begin, column = first.start_mark.index, first.start_mark.column
        if node.flow_style or not node.value:
            begin = self.text.index("{" if key else "[", node.start_mark.index) + 1
            words = json.dumps(value)
            text = (f"{json.dumps(key)}: {words}" if key else words) + ", " * bool(node.value)
        else:
            block = yaml.dump({key: value} if key else [value], Dumper=_dumper(), sort_keys=False)
            lines = [*(f"# {line}" for line in comment.splitlines()), *block.splitlines(), ""]
            text = ("\n" + " " * column).join(lines)
        self._added.setdefault((begin, key or words_of(value)), text)

    def add_below(self, node: yaml.Node, value: Mapping[str, Any], comment: str = "") -> None:
        """Add fields to an object and to those that it has; in its lists, to every item."""
        for key, own in value.items():
            found = next(self._value(node, key), None)
            if found is None:
                self.add(node, key, own, comment)
            elif isinstance(own, Mapping):
                self.add_below(found, own, comment)
            elif key == "nodeSelectorTerms":  # any of these terms is enough: each gets all
                for term in _items(found):
                    self.add_below(term, own[0], comment)
            else:
                for item in own:
                    self.add(found, "", item)

    def patched(self) -> str:
        """The text with all that was added."""
        places: dict[int, str] = {}
        for (begin, _), added in self._added.items():
            places[begin] = places.get(begin, "") + added
        text = self.text
        for begin in sorted(places, reverse=True):
            text = text[:begin] + places[begin] + text[begin:]
        try:
            return Manifest(text, self.path).text
        except InputError:  # an anchor where a list begins, say
            raise self.refusal("its form leaves no place for what is to be added") from None


def _dumper() -> Any:
    """Writes texts of several lines as people do."""
    import yaml  # noqa: PLC0415 - as above

    class Dumper(yaml.SafeDumper):  # type: ignore[misc]
        pass

    def text(dumper: Any, value: str) -> Any:
        style = "|" if "\n" in value else None
        return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)

    Dumper.add_representer(str, text)
    return Dumper


def words_of(value: object) -> str:
    """A value as a key."""
    return json.dumps(value, sort_keys=True)


def _items(node: yaml.Node) -> Iterator[yaml.Node]:
    if node.id == "mapping":
        return (value for _, value in node.value)
    return iter(node.value if node.id == "sequence" else ())
