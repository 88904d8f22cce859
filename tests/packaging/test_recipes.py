"""Recipes for Spack, conda, Docker and Apptainer: they are sound, and need what we need."""

import importlib.util
import re
import shutil
import sys
import tomllib
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml

from tests.support.processes import ran
from toposeat.installed import VERSION

ROOT = Path(__file__).parents[2]
CONTAINERS = ROOT / "packaging" / "containers"
CONDA = ROOT / "packaging" / "conda" / "recipe.yaml"
SPACK = ROOT / "packaging" / "spack_repo" / "toposeat"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


def needed(requirements):
    """Name and oldest version of each, of `name>=1.2` or `name >=1.2`."""
    pairs = (re.fullmatch(r"([a-z0-9-]+) ?>=([0-9.]+)", each) for each in requirements)
    return {pair[1]: pair[2] for pair in pairs if pair is not None}


RUN = needed(PROJECT["project"]["dependencies"])
BUILD = needed(PROJECT["build-system"]["requires"])
CMAKE = PROJECT["tool"]["scikit-build"]["cmake"]["version"].removeprefix(">=")


def test_every_dependency_is_understood():
    assert len(RUN) == len(PROJECT["project"]["dependencies"])
    assert len(BUILD) == len(PROJECT["build-system"]["requires"])


class Recipe:
    """What a Spack package inherits here instead of Spack's own class: it takes notes."""

    found: list[tuple[str, tuple[Any, ...], dict[str, Any]]]


@pytest.fixture
def spack(monkeypatch):
    """The recipe, read with stand-ins for the directives that it uses."""
    notes = []
    package, systems = ModuleType("spack.package"), ModuleType("systems")
    for name in ("depends_on", "license", "version"):
        setattr(package, name, lambda *a, _name=name, **k: notes.append((_name, a, k)))
    systems.PythonPackage = Recipe
    for name, module in {
        **{name: ModuleType(name) for name in ("spack", "spack_repo", "spack_repo.builtin")},
        "spack_repo.builtin.build_systems": ModuleType("x"),
        "spack_repo.builtin.build_systems.python": systems,
        "spack.package": package,
    }.items():
        monkeypatch.setitem(sys.modules, name, module)
    path = SPACK / "packages" / "py_toposeat" / "package.py"
    spec = importlib.util.spec_from_file_location("py_toposeat", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    recipe = module.PyToposeat
    recipe.found = notes
    return recipe


def test_spack_needs_the_same(spack):
    of_kind = {"build": {}, "run": {}}
    for directive, words, options in spack.found:
        if directive == "depends_on" and isinstance(options["type"], str):
            name, _, oldest = words[0].partition("@")
            of_kind[options["type"]][name.removeprefix("py-")] = oldest.removesuffix(":")
    assert of_kind["run"] == RUN
    assert of_kind["build"] == {"c": "", "cxx": "", "cmake": CMAKE, "ninja": "", **BUILD}
    python = next(words[0] for _, words, _ in spack.found if words[0].startswith("python@"))
    assert python == f"python@{PROJECT['project']['requires-python'].removeprefix('>=')}:"
    assert ("license", (PROJECT["project"]["license"],), {}) in spack.found


def test_spacks_repository_says_where_it_belongs():
    settings = yaml.safe_load((SPACK / "repo.yaml").read_text())["repo"]
    assert settings["namespace"] == SPACK.name  # as Spack wants it
    assert SPACK.parent.name == "spack_repo"


def test_conda_needs_the_same():
    recipe = yaml.safe_load(CONDA.read_text())
    requirements = recipe["requirements"]
    python = PROJECT["project"]["requires-python"]
    assert needed(requirements["run"]) == {"python": python.removeprefix(">="), **RUN}
    assert needed(requirements["host"]) == {"python": python.removeprefix(">="), **BUILD}
    assert needed(requirements["build"]) == {"cmake": CMAKE}
    assert recipe["about"]["license"] == PROJECT["project"]["license"]
    assert recipe["about"]["license_file"] == PROJECT["project"]["license-files"]
    assert recipe["about"]["summary"] == PROJECT["project"]["description"]


def test_conda_recipe_is_rendered_by_conda_packagers_own_program():
    rattler = pytest.importorskip("rattler_build", reason="py-rattler-build is not installed")
    recipe = rattler.Stage0Recipe.from_file(str(CONDA))
    channel = {"c_stdlib": ["sysroot"], "c_stdlib_version": ["2.28"]}  # what conda-forge says
    (rendered,) = recipe.render(rattler.VariantConfig(channel))
    package = rendered.recipe.package
    assert (package.name, package.version) == ("toposeat", VERSION)


def test_docker_file_is_sound():
    beside = Path(sys.executable).with_name("hadolint")
    hadolint = str(beside) if beside.exists() else shutil.which("hadolint")
    if hadolint is None:
        pytest.skip("hadolint is not installed")
    done = ran([hadolint, CONTAINERS / "Dockerfile"])
    assert done.returncode == 0, done.stdout


def test_both_images_are_made_alike():
    docker = (CONTAINERS / "Dockerfile").read_text()
    definition = (CONTAINERS / "toposeat.def").read_text()
    header, *sections = re.split(r"^%(\w+)$", definition, flags=re.MULTILINE)
    contents = dict(zip(sections[::2], sections[1::2], strict=True))
    assert {"files", "post", "environment", "runscript", "test", "help"} <= set(contents)
    base = re.search(r"^From: (\S+)$", header, re.MULTILINE)
    assert f"FROM {base[1]}\n" in docker
    steps = [line.strip() for line in contents["post"].splitlines() if line.strip()]
    joined = " ".join(docker.replace("\\\n", " ").split())
    assert steps
    assert all(step in joined for step in steps)
