"""Every package's door offers what its file imports for type checkers, and each name is there."""

import ast
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules

import pytest

import toposeat

_ROOT = Path(toposeat.__file__).parent
DOORS = sorted(
    ".".join(("toposeat", *path.parent.relative_to(_ROOT).parts))
    for path in _ROOT.rglob("__init__.py")
    if "__getattr__ = door(" in path.read_text(encoding="utf-8")
)


@pytest.mark.parametrize("package", DOORS)
def test_a_door_offers_what_the_type_checker_sees(package):
    door = import_module(package)
    tree = ast.parse(Path(str(door.__file__)).read_text(encoding="utf-8"))
    checked = next(node for node in tree.body if isinstance(node, ast.If))
    offers = {
        alias.name: str(node.module)
        for node in checked.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert offers
    assert not {each.name for each in iter_modules(door.__path__)} & set(offers)
    for name, module in offers.items():
        assert getattr(door, name) is getattr(import_module(module), name)


def test_a_door_refuses_other_names():
    from toposeat import report

    with pytest.raises(AttributeError, match=r"'toposeat\.report' has no attribute 'nonsense'"):
        report.nonsense  # noqa: B018
