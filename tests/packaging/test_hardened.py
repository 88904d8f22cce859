"""What is built is hardened (cmake/hardening.cmake), and the tool that reads it back can tell."""

import shutil
import sys
from pathlib import Path

import pytest

from tests.support.processes import ran
from toposeat.installed import native_path

PROGRAM = Path(__file__).parent / "programs" / "guarded.c"
TOOL = Path(__file__).parents[2] / "tools" / "hardened.py"
ALL = [
    *("-O2", "-fPIE", "-pie", "-fstack-protector-strong"),
    *("-U_FORTIFY_SOURCE", "-D_FORTIFY_SOURCE=2", "-Wl,-z,relro,-z,now,-z,noexecstack"),
]
STATIC = ["-O2", "-no-pie", "-static", "-frecord-gcc-switches", "-fstack-protector-strong"]


def hardened(*paths):
    """Exit code and lines."""
    if shutil.which("checksec") is None:
        pytest.skip("checksec is not installed")
    done = ran([sys.executable, TOOL, *paths])
    assert done.stderr == ""
    return done.returncode, done.stdout.splitlines()


def compiled(folder, *flags, compiler="gcc", name="x"):
    """A folder with a program of this name in it."""
    if shutil.which(compiler) is None:
        pytest.skip(f"{compiler} is not installed")
    (folder / "made").mkdir(exist_ok=True)
    line = [compiler, *flags, "-w", PROGRAM, "-o", folder / "made" / name]
    done = ran(line)
    if "-static" in flags and "cannot find -lc" in done.stderr:
        pytest.skip("no static C library")
    assert done.returncode == 0, done.stderr
    return folder / "made"


def test_what_is_installed_lacks_nothing():
    package = native_path("bin/toposeat-exec").parents[2]
    assert hardened(package) == (0, [])
    files = (path for path in package.rglob("*") if path.is_file())
    names = {path.name for path in files if path.read_bytes()[:4] == b"\x7fELF"}
    assert {"toposeat-exec", "libtoposeat_ompi.so", "libtoposeat_reorder.so"} <= names
    assert any(name.startswith("_ext.") for name in names)


def test_a_program_with_all_of_it_lacks_nothing(tmp_path):
    assert hardened(compiled(tmp_path, *ALL)) == (0, [])


LACKING = {  # flags that take a protection away, and how it is named
    "-fno-stack-protector": "-fstack-protector-strong",
    "-U_FORTIFY_SOURCE": "-D_FORTIFY_SOURCE",
    "-fno-PIE -no-pie": "PIE",
    "-Wl,-z,norelro": "-z relro",
    "-Wl,-z,lazy": "-z now",
    "-Wl,-z,execstack": "-z noexecstack",
}


def test_each_that_a_program_lacks_is_named_and_no_other(tmp_path):
    for number, flags in enumerate(LACKING):
        folder = compiled(tmp_path, *ALL, *flags.split(), name=f"x{number}")
    code, lines = hardened(folder)
    assert code == 1
    assert len(lines) == len(LACKING), lines
    for number, (line, word) in enumerate(zip(sorted(lines), LACKING.values(), strict=True)):
        assert line.startswith(f"x{number} lacks ")
        assert f"({word})" in line


@pytest.mark.parametrize("flags", [["-shared", "-fPIC"], ["-shared", "-fPIC", "-Wl,-z,lazy"]])
def test_a_library_has_no_pie_and_only_slurms_plugin_may_look_up_late(tmp_path, flags):
    folder = compiled(tmp_path, *(flag for flag in ALL if flag not in ("-pie", "-fPIE")), *flags)
    late = "-Wl,-z,lazy" in flags
    assert hardened(folder)[0] == late
    (folder / "x").rename(folder / "toposeat_spank.so")
    assert hardened(folder) == (0, [])


@pytest.mark.parametrize("compiler", ["gcc", "musl-gcc"])
def test_a_static_program_is_told_by_what_its_compiler_wrote_down(tmp_path, compiler):
    assert hardened(compiled(tmp_path, *STATIC, "-s", compiler=compiler)) == (0, [])
    shutil.rmtree(tmp_path / "made")
    code, lines = hardened(compiled(tmp_path, *STATIC[:-1], "-s", compiler=compiler))
    assert code == 1
    assert [line.partition("(")[2] for line in lines] == ["-fstack-protector-strong)"]


def test_a_folder_without_programs_is_no_proof(tmp_path):
    (tmp_path / "text").write_text("x")
    assert hardened(tmp_path) == (1, [f"{tmp_path}: no ELF file"])
