"""The oldest versions stand in packaging/floor.txt; whoever names one of them names the same."""

import json
import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FLOOR = dict(
    line.split()
    for line in (ROOT / "packaging" / "floor.txt").read_text().splitlines()
    if not line.startswith("#")
)
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
CMAKE_LISTS = [
    path.relative_to(ROOT)
    for path in sorted(ROOT.glob("*/CMakeLists.txt")) + [ROOT / "CMakeLists.txt"]
    if "cmake_minimum_required" in path.read_text()
]


def test_python():
    assert PROJECT["project"]["requires-python"] == f">={FLOOR['python']}"
    minor = ".".join(FLOOR["python"].split(".")[:2])
    assert PROJECT["tool"]["ruff"]["target-version"] == f"py{minor.replace('.', '')}"


def test_cmake():
    assert PROJECT["tool"]["scikit-build"]["cmake"]["version"] == f">={FLOOR['cmake']}"
    presets = json.loads((ROOT / "CMakePresets.json").read_text())["cmakeMinimumRequired"]
    assert f"{presets['major']}.{presets['minor']}" == FLOOR["cmake"]


@pytest.mark.parametrize("path", [*CMAKE_LISTS, Path("examples/core/CMakeLists.txt")], ids=str)
def test_cmake_lists(path):
    found = re.search(r"cmake_minimum_required\(VERSION (\S+)\)", (ROOT / path).read_text())
    assert found[1] == FLOOR["cmake"]


@pytest.mark.parametrize("page", ["README.md", "docs/how-to/install.md"])
def test_pages_say_it(page):
    text = (ROOT / page).read_text()
    words = {"python": "Python", "pip": "pip", "cmake": "CMake", "gcc": "GCC"}
    for name, version in FLOOR.items():
        assert f"{words[name]} {version}" in text
