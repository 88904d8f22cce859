"""THIRD-PARTY-NOTICES names what is compiled in, with the licences, and nothing else."""

import re
import shutil
import subprocess
import sys
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.support.processes import ran
from toposeat.installed import native_path

ROOT = Path(__file__).parents[2]
TOOL = ROOT / "tools" / "third_party.py"
BUILD = ROOT / "build" / "wheel"
PACKAGE = native_path("bin/toposeat-exec").parents[2]
# Words that only these parts bring into a program, and a line of their licences.
MARKS = {
    b"nanobind": ("nanobind", "Redistributions in binary form must reproduce"),
    b"No error information": ("musl", "Rich Felker"),
    b"terminate called after": ("libgcc and libstdc++", "GCC RUNTIME LIBRARY EXCEPTION"),
    b"libc++abi: ": ("libc++abi", "LLVM Exceptions to the Apache 2.0 License"),
    b"libunwind: ": ("libunwind", "LLVM Exceptions to the Apache 2.0 License"),
    b"GNU C Library (": ("glibc", "GNU Lesser General Public"),
}
# Declared there: interfaces of the system and of Python. What they bring as code is named anyway.
INTERFACES = re.compile(
    r"/usr/include/((\w+-linux-gnu|linux|asm-generic|bits|sys|netinet|arpa|rpc|slurm|python3\.\d+|c\+\+)/|[^/]+\.h$)"
    r"|/usr/lib/linux/uapi/|/usr/(lib|local/lib)/(gcc|llvm|clang)[\w.-]*/|.*/include/python3\.\d+/"
)
LINKED = re.compile(r"\.(o|a|so(\.\d+)*)$")  # CMake 3.27 and later list what the linker reads, too


def made(build):
    path = build / "notices"
    subprocess.run([sys.executable, TOOL, build, path], check=True)
    return path.read_text()


def parts_of(text):
    """The files that each part is in."""
    head = text.partition("\n===")[0]
    found = re.findall(r"^(\S.*?)(?: \d[\d.]*)?: .*\n((?:  .*\n?)+)", head, re.MULTILINE)
    assert found, head
    return {
        name: set(re.findall(r"[\w.+-]+\.so[\w.]*|toposeat-[\w-]+", body)) for name, body in found
    }


def installed():
    """As `pip install` put it beside our own licences."""
    files = metadata.distribution("toposeat").files or []
    (path,) = (each for each in files if each.name == "THIRD-PARTY-NOTICES")
    assert path.parent.name == "licenses"
    return Path(str(path.locate())).read_text()


def test_each_part_that_a_built_file_shows_is_named_with_its_licence():
    text = installed()
    parts = parts_of(text)
    assert "Not known" not in text
    for path in PACKAGE.rglob("*"):
        content = path.read_bytes() if path.is_file() else b""
        if not content.startswith(b"\x7fELF"):
            continue
        for mark, (name, licence) in MARKS.items():
            if mark in content:
                assert path.name in parts[name], f"{path.name} has {name} in it"
                assert licence in text
    assert path_of("_ext.") in parts["robin-map"]
    assert "Thibaut Goetghebuer-Planchon" in text


def path_of(start):
    return next(path.name for path in PACKAGE.rglob(f"{start}*") if path.suffix == ".so")


def test_no_header_of_anybody_else_is_compiled_in():
    ninja = shutil.which("ninja") or Path(sys.executable).with_name("ninja")
    if not (BUILD / ".ninja_deps").exists() or not Path(ninja).exists():
        pytest.skip("no build of this tree, or no ninja")
    told = ran([ninja, "-C", BUILD, "-t", "deps"], check=True).stdout
    named = set(re.findall(r"^    (\S+)$", told, re.MULTILINE))
    headers = {(BUILD / each).resolve() for each in named}
    assert len(headers) > 100
    nanobind = Path(str(metadata.distribution("nanobind").locate_file("nanobind"))).resolve()
    others = {
        str(path)
        for path in headers
        if not path.is_relative_to(nanobind)
        and not (path.is_relative_to(ROOT) and ".venv" not in path.parts)
        and not INTERFACES.match(str(path))
        and not LINKED.search(path.name)
    }
    assert others == set()


def test_what_nobody_knows_is_told(tmp_path):
    (tmp_path / "links").mkdir()
    lines = [
        "Archive member included to satisfy reference by file (symbol)",
        "/opt/strange/libstrange.a(one.o)",
        "                              core/libtoposeat_core.a(flow.cpp.o) (strange)",
        "/usr/lib/gcc/x/12/libgcc_eh.a(unwind-dw2.o)",
        "LOAD core/CMakeFiles/x.dir/flow.cpp.o",
        "LOAD /tmp/cc1aB2cD.o",
        "LOAD /usr/lib/x/libm.a",  # offered, but no member was taken
        f"LOAD {tmp_path}/core/libtoposeat_core.a",
    ]
    (tmp_path / "links" / "libx.so.map").write_text("\n".join(lines))
    text = made(tmp_path)
    assert "Not known: /opt/strange/libstrange.a in libx.so\n" in text
    assert text.count("Not known") == 1
    assert parts_of(text) == {"libgcc and libstdc++": {"libx.so"}}


def test_without_a_map_nothing_is_claimed(tmp_path):
    assert "Not known: this linker does not tell." in made(tmp_path)


@pytest.mark.skipif(find_spec("ziglang") is None, reason="no ziglang: make setup-release")
def test_what_zig_links_is_named_with_the_texts_that_it_brings(tmp_path):
    zig = tmp_path / "ziglang"
    texts = {
        "LICENSE": "of zig",
        "lib/libcxx/LICENSE.TXT": "of libc++",
        "lib/libcxx/include/__config": "#  define _LIBCPP_VERSION 220108\n",
        "lib/libcxxabi/LICENSE.TXT": "of both",
        "lib/libunwind/LICENSE.TXT": "of both\n",
        "lib/libc/glibc/LICENSES": "of glibc",
    }
    for name, text in texts.items():
        (zig / name).parent.mkdir(parents=True, exist_ok=True)
        (zig / name).write_text(text)
    files = "libc++abi.a libc++.a libunwind.a libc.so.6 libc_nonshared.a libcompiler_rt.a"
    cache = " ".join(f"/home/x/.cache/zig/o/9f/{each}" for each in files.split())
    (tmp_path / "links").mkdir()
    (tmp_path / "links" / "libx.so.map").write_text(
        f"# ziglang {zig}\nld.lld -shared -o a/libx.so a/CMakeFiles/x.dir/x.c.o {cache}\n"
    )
    text = made(tmp_path)
    names = ["libc++", "libc++abi", "libunwind", "compiler_rt of zig", "glibc, its start"]
    assert parts_of(text) == {name: {"libx.so"} for name in names}
    assert "libc++ 22.1.8: Apache-2.0 WITH LLVM-exception" in text
    assert "The licence of libc++abi and libunwind:\n\nof both\n" in text
    assert text.count("of both") == 1
    for said in ("of zig", "of libc++", "of glibc"):
        assert f"\n\n{said}\n" in text
    assert "Not known" not in text
