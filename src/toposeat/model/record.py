"""What frozen nouns and their parts are made of: classes that cost little to make."""

from __future__ import annotations

from functools import cache
from typing import Any

from msgspec import NODEFAULT, Struct


class _Fields:
    """`__dataclass_fields__` of a record, made where `replace`, `fields` or `asdict` asks."""

    def __get__(self, record: object, kind: type[Struct]) -> dict[str, Any]:
        return _fields_of(kind)


@cache
def _fields_of(kind: type[Struct]) -> dict[str, Any]:
    from dataclasses import field, make_dataclass  # noqa: PLC0415 - most records need none of it
    from inspect import get_annotations  # noqa: PLC0415

    names, defaults = kind.__struct_fields__, kind.__struct_defaults__
    types = {name: each for base in kind.__mro__ for name, each in get_annotations(base).items()}
    default_of = dict(zip(reversed(names), reversed(defaults), strict=False))
    members = []
    for name in names:
        default: Any = default_of.get(name, NODEFAULT)
        if default is NODEFAULT:
            how = {}
        elif hasattr(default, "factory"):
            how = {"default_factory": default.factory}
        else:
            how = {"default": default}
        members.append((name, types[name], field(kw_only=True, **how)))
    bare: dict[str, Any] = {"init": False, "repr": False, "eq": False}
    made = make_dataclass(kind.__name__, members, namespace={"__doc__": kind.__doc__}, **bare)
    found: dict[str, Any] = vars(made)["__dataclass_fields__"]
    return found


class Record(Struct, frozen=True):
    """A frozen `Struct`, a fiftieth of the price of a dataclass, that `dataclasses` takes for one.

    So `dataclasses.replace`, `fields` and `asdict` work for users of the library as for us.
    """

    __dataclass_fields__ = _Fields()
