"""The C++ core as others use it: installed as a CMake package, and as a folder of their project."""

import os
import re
import shutil
from pathlib import Path

import pytest

from tests.support.processes import ran
from toposeat.installed import VERSION

ROOT = Path(__file__).parents[2]
HEADERS = ROOT / "core" / "include"
PAGE = ROOT / "docs" / "reference" / "cpp.md"
STRICT = "-Wall -Wextra -Wpedantic -Wconversion -Wshadow -Werror"
COMPILERS = [name for name in ("c++", "g++-14", "clang++") if shutil.which(name)]
pytestmark = [
    pytest.mark.skipif(shutil.which("cmake") is None, reason="cmake is not installed"),
    pytest.mark.skipif("c++" not in COMPILERS, reason="there is no C++ compiler"),
]


def run(*command):
    done = ran([str(each) for each in command])
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """The folder where the core is installed: that of the Python module, else one that is built."""
    base = tmp_path_factory.mktemp("core")
    build = ROOT / "build" / "wheel"
    if not (build / "core" / "libtoposeat_core.a").exists():
        build = base / "build"  # takes minutes
        run("cmake", "-S", ROOT / "core", "-B", build)
        run("cmake", "--build", build, "--parallel", "2")
    run("cmake", "--install", build, "--prefix", base / "prefix", "--component", "core")
    return base / "prefix"


def built(folder, compiler, *options):
    """The example built as its reader builds it, warnings are errors; what it prints."""
    run(
        "cmake", "-S", ROOT / "examples" / "core", "-B", folder, f"-DCMAKE_CXX_COMPILER={compiler}",
        f"-DCMAKE_CXX_FLAGS={STRICT}", *options,
    )  # fmt: skip
    run("cmake", "--build", folder, "--parallel", str(os.cpu_count()))
    return run(folder / "map_stencil")


def check(output):
    device_of_rank = [int(device) for device in re.findall(r"on device (\d)", output)]
    assert sorted(device_of_rank) == list(range(8))
    # The heavy pairs (r, r + 4) stay below one switch.
    assert all(device_of_rank[r] // 4 == device_of_rank[r + 4] // 4 for r in range(4))
    # 8 + 1 MiB leave each device at 25 GB/s; what crosses, 2 MiB, is not the bottleneck.
    seconds = 9 * 2**20 / 25e9 + 2e-6
    assert f"{1e3 * seconds:.3f} ms, proved by" in output
    assert f"    {output.splitlines()[-1]}\n" in PAGE.read_text("utf-8")


@pytest.mark.parametrize("compiler", COMPILERS)
def test_an_installed_core_maps_a_stencil(installed, tmp_path, compiler):
    check(built(tmp_path, compiler, f"-DCMAKE_PREFIX_PATH={installed}"))


@pytest.mark.parametrize("compiler", COMPILERS)
def test_so_does_one_that_is_a_folder_of_the_project(tmp_path, compiler):
    # Not optimised: in a third of the time, and ccache has it from the second time on.
    check(built(tmp_path, compiler, f"-DTOPOSEAT_CORE={ROOT / 'core'}", "-DCMAKE_BUILD_TYPE=Debug"))


def test_the_folder_needs_nothing_around_it(tmp_path):
    shutil.copytree(ROOT / "core", tmp_path / "core")
    run("cmake", "-S", tmp_path / "core", "-B", tmp_path / "build", "-DTOPOSEAT_BUILD_TESTS=ON")
    assert VERSION in (tmp_path / "build" / "toposeatConfigVersion.cmake").read_text()


def named():
    """The headers that the page names."""
    return re.findall(r"`(toposeat/\S+\.hpp)`", PAGE.read_text("utf-8"))


def test_the_headers_that_the_page_names_are_installed_and_those_they_need(installed):
    wanted, open_ = set(), named()
    while open_:
        wanted.update(open_)
        texts = [(HEADERS / each).read_text("utf-8") for each in open_]
        needed = re.findall(r'#include "(toposeat/\S+)"', "".join(texts))
        open_ = [each for each in needed if each not in wanted]
    include = installed / "include"
    found = {str(each.relative_to(include)) for each in include.rglob("*.*pp")}
    assert found == wanted
    assert not any("/search/" in each or "/groups/" in each for each in found)


@pytest.mark.parametrize("header", named())
def test_a_header_needs_no_other_before_it(installed, tmp_path, header):
    unit = tmp_path / "one.cpp"
    unit.write_text(f'#include "{header}"\n')
    run("c++", *STRICT.split(), "-std=c++20", "-fsyntax-only", f"-I{installed / 'include'}", unit)
