"""What the runtime library's tests compile against: our own declarations, or a toolkit."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from toposeat.installed import native_path

_EMULATOR = Path(__file__).resolve().parents[2] / "emulator"
MAJORS = (12, 13)


def runtime_library(major: int) -> Path:
    """The stand-in's runtime library of a major version."""
    return native_path(f"emulator/libcudart.so.{major}")


def options(major: int, folder: Path) -> list[str]:
    """The compiler's options for a program on that library, with declarations in `folder`."""
    runtime = _EMULATOR / "runtime"
    line = [sys.executable, runtime / "generate.py", runtime / "calls.tsv", folder / "cudart.h"]
    subprocess.run(list(map(str, line)), check=True)
    include = [f"-I{folder}", f"-I{_EMULATOR / 'include'}", f"-DCUDART_MAJOR={major}"]
    # The library needs the driver, which is beside it.
    library = runtime_library(major)
    return [*include, str(library), f"-Wl,-rpath-link,{library.parent}"]


def toolkit() -> Path:
    """The folder of an installed CUDA toolkit; skips the test where there is none."""
    if not shutil.which("nvcc"):
        pytest.skip("no CUDA toolkit here")
    line = ["nvcc", "--dryrun", "-x", "cu", "/dev/null"]
    said = subprocess.run(line, capture_output=True, text=True, check=True).stderr
    (top,) = [x.split("=", 1)[1] for x in said.splitlines() if x.startswith("#$ TOP=")]
    return Path(top).resolve()
