"""A drawing of a machine, of a traffic, or of one placed on the other."""

from __future__ import annotations

from base64 import b64encode
from os import PathLike, fspath

from toposeat.errors import UsageError
from toposeat.model.files import write_atomically


class Drawing:
    """An SVG picture, which a notebook shows.

    Attributes:
        svg: its text.
    """

    def __init__(self, svg: str, words: str) -> None:
        """Keep the SVG and a few words of what it shows."""
        self.svg = svg
        self._words = words

    def __repr__(self) -> str:
        return f"<Drawing of {self._words}: {len(self.svg)} bytes of SVG>"

    def _repr_html_(self) -> str:
        """As a picture of its own, so that its styles do not reach into the notebook."""
        data = b64encode(self.svg.encode()).decode()
        return f'<img style="max-width: 100%" src="data:image/svg+xml;base64,{data}">'

    def save(self, path: str | PathLike[str], *, overwrite: bool = False) -> None:
        """Write an SVG file, whole or not at all.

        Raises:
            UsageError: another kind of file by its name, or one that exists.
        """
        if not fspath(path).lower().endswith(".svg"):
            raise UsageError(f"{fspath(path)} is not called .svg", hint="name it drawing.svg")
        write_atomically(fspath(path), self.svg, overwrite=overwrite)
