"""What of others is compiled into the built files, as the linker tells it, with its licences.

Usage: third_party.py BUILD-FOLDER THIRD-PARTY-NOTICES

A build leaves the map of each link in `links/` (cmake/notices.cmake). Each archive and object named
there is ours, or of a part below, or not known: the notices name it then, and a release stops.
Needs nothing but Python, since it runs in the environment that builds a wheel.
"""

from __future__ import annotations

import re
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path

_GCC_EXCEPTION = (
    "The GCC Runtime Library Exception lets programs that a compiler made carry it without terms."
)
_GLIBC_PERMISSION = (
    "Of the C library only what starts a program or a library is compiled in; its files permit to\n"
    "link and to distribute them so without restriction."
)
_STATIC_GLIBC = (
    "Linked statically: to hand this program on, hand on what the LGPL asks for, too. Programs of\n"
    "a release are not linked so."
)
# Written by zig's wrapper (release.py) ahead of what zig links.
_ZIG = re.compile(r"^# ziglang (.*)$", re.MULTILINE)
# Objects, and archives of which a member was taken; zig says only which archives it offered.
_INPUT = re.compile(r"(?<!\S)([^\s()]+(?:\.o(?=\s|$)|\.a(?=\()))")
_OFFERED = re.compile(r"(?<!\S)([^\s()]+\.[ao])(?=\s|$)")
# Of one command that compiles and links, and of the optimiser at link time.
_TEMPORARY = re.compile(r"/cc\w{6}\.\S*$")


@dataclass(frozen=True)
class Part:
    """Something of others: what it is called, and the inputs of a link by which it is known."""

    name: str
    licence: str  # SPDX
    purl: str  # {} is the version
    inputs: str  # a regular expression
    text: Callable[[str], str]  # of ziglang's folder, "" without
    version: Callable[[str], str] = lambda _: ""
    remark: str = ""


@dataclass
class Found:
    """Parts with the built files that each is in; inputs that no part claims; ziglang's folder."""

    parts: dict[Part, list[str]] = field(default_factory=dict)
    unknown: list[str] = field(default_factory=list)
    zig: str = ""

    def missing(self) -> list[str]:
        """What a release cannot be handed out without, one line each."""
        without = [part for part in self.parts if not part.text(self.zig)]
        return [
            *(f"nobody knows whose this is, which was linked in: {path}" for path in self.unknown),
            *(f"no text of the licence of {part.name} on this machine" for part in without),
            *([] if self.parts else ["the linker left no map of what it linked"]),
        ]


def _first(*patterns: str) -> Callable[[str], str]:
    """The first file that fits, below / or, with {}, below ziglang's folder."""

    def text(zig: str) -> str:
        for pattern in patterns:
            where = pattern.replace("{}", zig).removeprefix("/")
            for path in sorted(Path("/").glob(where)):
                return path.read_text(errors="replace")
        return ""

    return text


def _nanobind_text(_: str) -> str:
    try:
        files = metadata.distribution("nanobind").files or []
    except metadata.PackageNotFoundError:
        return ""
    for each in files:
        if re.fullmatch(r".*\.dist-info/(licenses/)?LICENSE(\.\w+)?", str(each)):
            return Path(str(each.locate())).read_text(errors="replace")
    return ""


def _nanobind_version(_: str) -> str:
    try:
        return metadata.version("nanobind")
    except metadata.PackageNotFoundError:
        return ""


def _robin_map(name: str) -> str:
    """One of its headers, which nanobind brings."""
    spec = find_spec("nanobind")
    for folder in (spec.submodule_search_locations or []) if spec is not None else []:
        path = Path(folder) / "ext" / "robin_map" / "include" / "tsl" / name
        if path.exists():
            return path.read_text(errors="replace")
    return ""


def _robin_map_text(_: str) -> str:
    """Its licence is the first comment of each header."""
    comment = re.match(r"/\*\*?\n(.*?)\*/", _robin_map("robin_map.h"), re.DOTALL)
    lines = comment[1].splitlines() if comment is not None else []
    return "\n".join(line.strip().removeprefix("*").removeprefix(" ") for line in lines)


def _robin_map_version(_: str) -> str:
    header = _robin_map("robin_growth_policy.h")
    return ".".join(re.findall(r"#define TSL_RH_VERSION_(?:MAJOR|MINOR|PATCH) (\d+)", header))


def _llvm_version(zig: str) -> str:
    config = Path(zig) / "lib" / "libcxx" / "include" / "__config"
    number = re.search(r"define _LIBCPP_VERSION (\d+)(\d\d)(\d\d)\n", config.read_text())
    return ".".join(str(int(each)) for each in number.groups()) if number is not None else ""


def _zig_version(zig: str) -> str:
    """By what lies beside it: the Python that asks need not be the one that has zig."""
    found = [each.name for each in Path(zig).parent.glob("ziglang-*.dist-info")]
    return found[0].removeprefix("ziglang-").removesuffix(".dist-info") if found else ""


_LLVM = "Apache-2.0 WITH LLVM-exception"
_START = r"[Sgr]?crt[1in]\.o"
# The first whose inputs fit has it.
PARTS = (
    Part(
        "nanobind", "BSD-3-Clause", "pkg:pypi/nanobind@{}",
        r"libnanobind-static\S*\.a", _nanobind_text, _nanobind_version,
    ),
    Part(
        "robin-map", "MIT", "pkg:github/tessil/robin-map@v{}",
        r"libnanobind-static\S*\.a", _robin_map_text, _robin_map_version,
        "Headers that nanobind is compiled with.",
    ),
    Part(
        "libc++", _LLVM, "pkg:github/llvm/llvm-project@llvmorg-{}#libcxx",
        r"libc\+\+\.a", _first("{}/lib/libcxx/LICENSE.TXT", "/usr/share/doc/libc++*/copyright"),
        _llvm_version,
    ),
    Part(
        "libc++abi", _LLVM, "pkg:github/llvm/llvm-project@llvmorg-{}#libcxxabi",
        r"libc\+\+abi\.a",
        _first("{}/lib/libcxxabi/LICENSE.TXT", "/usr/share/doc/libc++abi*/copyright"),
        _llvm_version,
    ),
    Part(
        "libunwind", _LLVM, "pkg:github/llvm/llvm-project@llvmorg-{}#libunwind",
        r"libunwind\.a",
        _first("{}/lib/libunwind/LICENSE.TXT", "/usr/share/doc/libunwind*/copyright"),
        _llvm_version,
    ),
    Part(
        "compiler_rt of zig", "MIT", "pkg:pypi/ziglang@{}",
        r"libcompiler_rt\.a", _first("{}/LICENSE"), _zig_version,
    ),
    Part(
        "glibc, its start", "LGPL-2.1-or-later", "pkg:generic/glibc@{}",
        rf".*/zig/.*/({_START}|libc_nonshared\.a)", _first("{}/lib/libc/glibc/LICENSES"),
        remark=_GLIBC_PERMISSION,
    ),
    Part(
        "musl", "MIT", "pkg:generic/musl",
        rf".*musl.*/({_START}|lib\w+\.a)",
        _first("/usr/share/doc/musl-dev/copyright", "/usr/share/licenses/musl/COPYRIGHT"),
    ),
    Part(
        "libgcc and libstdc++", "GPL-3.0-or-later WITH GCC-exception-3.1", "pkg:generic/gcc",
        r".*/(crt(begin|end)\w*\.o|libgcc\w*\.a|libstdc\+\+\w*\.a|libsupc\+\+\.a)",
        _first("/usr/share/doc/gcc-*-base/copyright", "/usr/share/licenses/libgcc/COPYING.RUNTIME"),
        remark=_GCC_EXCEPTION,
    ),
    Part(
        "compiler-rt", _LLVM, "pkg:github/llvm/llvm-project#compiler-rt",
        r".*/(clang_rt\.\S+\.o|libclang_rt\.\S+\.a)",
        _first("/usr/share/doc/libclang-rt*/copyright", "/usr/share/licenses/compiler-rt/*"),
    ),
    Part(
        "glibc", "LGPL-2.1-or-later", "pkg:generic/glibc",
        r".*/lib(c|m|m-[\d.]+|mvec|dl|pthread|rt)\.a",
        _first("/usr/share/doc/libc6-dev/copyright", "/usr/share/licenses/glibc/*"),
        remark=_STATIC_GLIBC,
    ),
    Part(
        "glibc, its start", "LGPL-2.1-or-later", "pkg:generic/glibc",
        rf".*/({_START}|libc_nonshared\.a|libpthread_nonshared\.a)",
        _first("/usr/share/doc/libc6-dev/copyright", "/usr/share/licenses/glibc/*"),
        remark=_GLIBC_PERMISSION,
    ),
)  # fmt: skip


def find_parts(build: Path) -> Found:
    """What the maps of a build name, by part; `build` is the folder that holds `links/`."""
    found = Found()
    for path in sorted(build.glob("links/*.map")):
        text = path.read_text(errors="replace")
        said = _ZIG.search(text)
        if said is not None:
            found.zig = said[1]
        inside = path.name.removesuffix(".map")
        inputs = _INPUT if said is None else _OFFERED
        for each in sorted(set(inputs.findall(text))):
            parts = list(_parts_of(each))
            for part in parts:
                files = found.parts.setdefault(part, [])
                if inside not in files:
                    files.append(inside)
            if not parts and not _is_ours(each, build):
                found.unknown.append(f"{each} in {inside}")
    order = {part: at for at, part in enumerate(PARTS)}
    found.parts = dict(sorted(found.parts.items(), key=lambda item: order[item[0]]))
    return found


def _parts_of(path: str) -> Iterator[Part]:
    """Those of the first kind that fits: robin-map is known by the archive of nanobind."""
    first = ""
    for part in PARTS:
        if first in ("", part.inputs) and re.fullmatch(rf"(.*/)?{part.inputs}", path):
            first = part.inputs
            yield part


def _is_ours(path: str, build: Path) -> bool:
    inside = not path.startswith("/") or Path(path).resolve().is_relative_to(build.resolve())
    return inside or _TEMPORARY.search(path) is not None


def notices(found: Found) -> str:
    """The text of THIRD-PARTY-NOTICES."""
    lines = [
        "Notices of third parties",
        "",
        "toposeat's programs and libraries have these parts of others compiled in, as the linker",
        "told when they were built:",
        "",
    ]
    for part in found.parts:
        version = part.version(found.zig)
        lines += [f"{part.name}{version and ' '}{version}: {part.licence}"]
        inside = f"in {', '.join(found.parts[part])}"
        lines += textwrap.wrap(inside, 96, initial_indent="  ", subsequent_indent="    ")
        lines += textwrap.wrap(part.remark, 96, initial_indent="  ", subsequent_indent="  ")
    lines += [f"Not known: {path}" for path in found.unknown]
    if not found.parts:
        lines += ["Not known: this linker does not tell."]
    for names, text in _texts(found):
        lines += ["", "=" * 100, f"The licence of {names}:", "", text or _NO_TEXT]
    return "\n".join(lines).rstrip() + "\n"


_NO_TEXT = "Its text is not on the machine that this was built on."


def _texts(found: Found) -> Iterable[tuple[str, str]]:
    """Each text once, with the names of its parts."""
    names: dict[str, list[str]] = {}
    for part in found.parts:
        named = names.setdefault(part.text(found.zig).strip("\n"), [])
        if part.name not in named:
            named.append(part.name)
    return ((" and ".join(each), text) for text, each in names.items())


if __name__ == "__main__":
    Path(sys.argv[2]).write_text(notices(find_parts(Path(sys.argv[1]))))
