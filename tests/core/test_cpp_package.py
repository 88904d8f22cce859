"""The C++ core installed as a CMake package, and the example that is built against it."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from tests.support.processes import ran

ROOT = Path(__file__).parents[2]
pytestmark = [
    pytest.mark.skipif(shutil.which("cmake") is None, reason="cmake is not installed"),
    pytest.mark.skipif(shutil.which("c++") is None, reason="there is no C++ compiler"),
]


def run(*command: object) -> str:
    done = ran([str(each) for each in command])
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def built_core(base: Path) -> Path:
    """The build tree of the Python module, else one of the core alone, which takes minutes."""
    if (ROOT / "build" / "wheel" / "core" / "libtoposeat_core.a").exists():
        return ROOT / "build" / "wheel"
    run("cmake", "-S", ROOT / "core", "-B", base / "core")
    run("cmake", "--build", base / "core", "--parallel", "2")
    return base / "core"


@pytest.fixture(scope="module")
def output(tmp_path_factory: pytest.TempPathFactory) -> str:
    """What the example prints, built against a core that is installed in a folder of its own."""
    base = tmp_path_factory.mktemp("core")
    install = ("--prefix", base / "prefix", "--component", "core")
    run("cmake", "--install", built_core(base), *install)
    example = base / "example"
    run(
        "cmake", "-S", ROOT / "examples" / "core", "-B", example,
        f"-DCMAKE_PREFIX_PATH={base / 'prefix'}",
    )  # fmt: skip
    run("cmake", "--build", example)
    return run(example / "map_stencil")


def test_an_installed_core_maps_a_stencil(output: str) -> None:
    device_of_rank = [int(device) for device in re.findall(r"on device (\d)", output)]
    assert sorted(device_of_rank) == list(range(8))
    # The heavy pairs (r, r + 4) stay below one switch.
    assert all(device_of_rank[r] // 4 == device_of_rank[r + 4] // 4 for r in range(4))
    # 8 + 1 MiB leave each device at 25 GB/s; what crosses, 2 MiB, is not the bottleneck.
    seconds = 9 * 2**20 / 25e9 + 2e-6
    assert f"{1e3 * seconds:.3f} ms, proved by" in output
