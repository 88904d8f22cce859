"""The type stub in git is the one that belongs to the built module."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import toposeat._core
from toposeat._core import _ext


def signatures(body, prefix=""):
    """Names and argument names; how types are spelt depends on the generator's version."""
    for each in body:
        if isinstance(each, ast.ClassDef):
            yield prefix + each.name
            yield from signatures(each.body, f"{prefix}{each.name}.")
        elif isinstance(each, ast.FunctionDef):
            arguments = [a.arg for a in (*each.args.posonlyargs, *each.args.args)]
            keywords = [a.arg for a in each.args.kwonlyargs]
            yield f"{prefix}{each.name}({', '.join([*arguments, '*', *keywords])})"


def test_the_stub_is_current(tmp_path):
    pytest.importorskip("nanobind", reason="nanobind, which generates the stub, is not installed")
    fresh = tmp_path / "_ext.pyi"
    # Copied aside so that the generator imports it by its own name, as the build does.
    module = Path(str(_ext.__file__))
    (tmp_path / module.name).write_bytes(module.read_bytes())
    subprocess.run(
        [sys.executable, "-m", "nanobind.stubgen", "-q", "-m", "_ext", "-o", fresh, "-i", tmp_path],
        check=True,
        cwd=tmp_path,
    )
    committed = Path(toposeat._core.__file__).with_name("_ext.pyi")
    assert sorted(signatures(ast.parse(committed.read_text()).body)) == sorted(
        signatures(ast.parse(fresh.read_text()).body)
    ), "renew it: make build && cmake --build build/wheel --target refresh_stub"
