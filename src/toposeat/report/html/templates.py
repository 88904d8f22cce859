"""Templates of pages, in Jinja2: every value is escaped where it is put in, but our own SVG."""

from __future__ import annotations

from functools import cache
from importlib.resources import files

from jinja2 import Environment, FunctionLoader, StrictUndefined

from toposeat.report.units import clean


def render(template: str, **values: object) -> str:
    """A template of this folder, filled with `values`."""
    return _environment().get_template(template).render(values)


def asset(name: str) -> str:
    """The text of a file of this folder."""
    return files("toposeat.report.html").joinpath(name).read_text(encoding="utf-8")


@cache
def _environment() -> Environment:
    return Environment(
        autoescape=True,
        finalize=_cleaned,
        loader=FunctionLoader(asset),
        lstrip_blocks=True,
        trim_blocks=True,
        undefined=StrictUndefined,
    )


def _cleaned(value: object) -> object:
    """A value as it is put in: names come from files of other people, see `units.clean`."""
    return clean(value) if isinstance(value, str) and not hasattr(value, "__html__") else value
