"""How nouns show themselves in a notebook, without knowing who draws them."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar


class Shown:
    """A noun that a notebook shows as HTML.

    Attributes:
        render: what draws it; `toposeat/__init__.py` registers the report's. None: nobody does.
    """

    __slots__ = ()
    render: ClassVar[Callable[[object], str] | None] = None

    def _repr_html_(self) -> str | None:
        return None if Shown.render is None else Shown.render(self)
