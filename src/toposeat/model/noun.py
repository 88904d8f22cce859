"""What nouns of the public interface have in common: a short repr, and HTML in a notebook."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import MISSING, Field, fields, is_dataclass
from reprlib import Repr
from typing import Any, ClassVar

from toposeat.model.few import cut

_SHORT = Repr()
_SHORT.maxstring = _SHORT.maxother = 60
_SHORT.maxtuple = _SHORT.maxlist = _SHORT.maxdict = _SHORT.maxset = 8
_MOST = 60  # letters of a name


class Noun:
    """A noun of the public interface.

    Attributes:
        above: gives a function of the layers above by its name; `toposeat/__init__.py` sets it.
    """

    __slots__ = ()
    above: ClassVar[Callable[[str], Callable[..., Any]]]

    def _repr_html_(self) -> str:
        html = Noun.above("notebook_html")(self)
        assert isinstance(html, str)
        return html

    def __repr__(self) -> str:
        """Members that differ from their defaults, long ones cut."""
        named = (f"{name}={_SHORT.repr(value)}" for name, value in stated_members(self))
        return f"{type(self).__name__}({', '.join(named)})"


def stated_members(noun: object) -> Iterator[tuple[str, object]]:
    """Names and values of a dataclass' members that differ from their defaults."""
    assert is_dataclass(noun)
    for member in fields(noun):
        value = getattr(noun, member.name)
        if not _is_default(member, value):
            yield member.name, value


def _is_default(member: Field[Any], value: object) -> bool:
    if member.default_factory is not MISSING:
        return bool(value == member.default_factory())
    return member.default is not MISSING and bool(
        value is member.default or value == member.default
    )


def short_name(text: str) -> str:
    """A name as a repr shows it: one line, the end of a long one cut."""
    shown = text.encode("unicode_escape").decode("ascii") if not text.isprintable() else text
    return cut(shown, _MOST)
