"""Let nouns show themselves as HTML in a notebook."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar


class Shown:
    """A noun that a notebook shows as HTML.

    Attributes:
        render: function that makes the HTML; `toposeat/__init__.py` sets that of the report.
            None: nothing is drawn.
    """

    __slots__ = ()
    render: ClassVar[Callable[[object], str] | None] = None

    def _repr_html_(self) -> str | None:
        return None if Shown.render is None else Shown.render(self)
