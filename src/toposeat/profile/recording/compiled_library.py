"""An interposer library for an MPI whose ABI is none of the prebuilt ones, compiled on first use.

A small program, compiled with the MPI's own mpicc, prints the facts of its mpi.h that the
interposer needs (interposer/abi/). The library itself is compiled by a plain C
compiler from the sources that are part of the package, and kept in the user's cache, by the
identity of the MPI's library and the sources.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from toposeat.errors import ToposeatError
from toposeat.installed import native_path
from toposeat.launch.installations import (
    MPICC_VARIABLE,
    first_error_line,
    run_compiler,
)
from toposeat.model.private_cache import cache_root, cached_artefact

# Prints the body of an ABI header. A handle is an int or as wide as a pointer; predefined ones are
# constants, or addresses of objects, which are then found again by name.
_PROBE = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

int (*volatile linked)(int *, char ***) = MPI_Init; /* or the linker may drop the MPI */
static int is_wide = sizeof(MPI_Comm) == sizeof(void *);

static void handle(const char *name, const void *value) {
  uintptr_t word = 0;
  Dl_info info;
  memcpy(&word, value, sizeof(MPI_Comm)); /* all handles are as large */
  if (is_wide && word > 65536 && dladdr((void *)word, &info) != 0 && info.dli_sname != NULL &&
      (uintptr_t)info.dli_saddr == word)
    printf("#define ABI_%s_SYMBOL \"%s\"\n", name, info.dli_sname);
  else
    printf("#define ABI_%s ((abi_handle)0x%lx)\n", name, (unsigned long)word);
}

#define VALUE(name) printf("#define ABI_%s (%ld)\n", #name, (long)MPI_##name)

int main(void) {
  int good = (is_wide || sizeof(MPI_Comm) == sizeof(int)) &&
             sizeof(MPI_Comm) == sizeof(MPI_Datatype) && sizeof(MPI_Comm) == sizeof(MPI_Request) &&
             sizeof(MPI_Comm) == sizeof(MPI_Win) && sizeof(MPI_Comm) == sizeof(MPI_Group) &&
             sizeof(MPI_Comm) == sizeof(MPI_Op) && sizeof(MPI_Comm) == sizeof(MPI_Info) &&
             sizeof(MPI_Aint) == 8 && sizeof(MPI_Count) == 8 && MPI_SUCCESS == 0;
  if (!good)
    return 3;
  printf("typedef %s abi_handle;\n", is_wide ? "void *" : "int");
  printf("#define ABI_HANDLE(word) ((abi_handle)(word))\n");
  printf("#define ABI_WORD(handle) ((uintptr_t)%s(handle))\n", is_wide ? "" : "(uint32_t)");
  handle("COMM_WORLD", &(MPI_Comm){MPI_COMM_WORLD});
  handle("COMM_NULL", &(MPI_Comm){MPI_COMM_NULL});
  handle("INFO_NULL", &(MPI_Info){MPI_INFO_NULL});
#ifdef MPI_NO_OP
  handle("NO_OP", &(MPI_Op){MPI_NO_OP});
#else
  printf("#define ABI_NO_OP 0\n");
#endif
  VALUE(PROC_NULL);
  VALUE(ROOT);
  VALUE(UNDEFINED);
  printf("#define ABI_IN_PLACE (%ld)\n", (long)(intptr_t)MPI_IN_PLACE);
  VALUE(GRAPH);
  VALUE(CART);
  VALUE(DIST_GRAPH);
  VALUE(THREAD_MULTIPLE);
  VALUE(ERR_UNSUPPORTED_OPERATION);
  VALUE(MAX_OBJECT_NAME);
  VALUE(MAX_LIBRARY_VERSION_STRING);
  return 0;
}
"""

_HEADER = """#ifndef TOPOSEAT_ABI_H
#define TOPOSEAT_ABI_H
#include <stdint.h>
#define ABI_NAME "compiled"
#define ABI_LIBRARY "{library}"
{facts}
static inline int abi_builtin_size(abi_handle datatype) {{
  (void)datatype;
  return 0;
}}
#endif
"""


def compiled_library(
    mpi_file: Path,
    soname: str,
    candidates: Sequence[Path],
    env: Mapping[str, str],
    missing: Iterable[str],
) -> Path:
    """The interposer for one MPI library, from the cache or compiled now.

    The first of the candidates (mpicc) whose programs need the MPI by the name `soname` is taken.
    The calls that are `missing` in the MPI are not shown.
    """
    sources = native_path("share/interposer")

    def build(library: Path) -> str:
        _build(library, _header(mpi_file, soname, candidates, env), missing, sources, env)
        return ""

    library, _ = cached_artefact(
        cache_root(env) / "interposer",
        f"libtoposeat_compiled-{_key(mpi_file, soname, sources)}.so",
        "a compiled interposer",
        build,
    )
    return library


def _key(mpi_file: Path, soname: str, sources: Path) -> str:
    """Changes with the MPI's file, what it is called, and the interposer's sources."""
    real = mpi_file.resolve()
    status = real.stat()
    text = f"{real}\0{soname}\0{status.st_size}\0{status.st_mtime_ns}\0{_PROBE}{_HEADER}"
    digest = hashlib.sha256(text.encode())
    for path in sorted(p for p in sources.rglob("*") if p.is_file()):
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:24]


def _header(mpi_file: Path, soname: str, candidates: Sequence[Path], env: Mapping[str, str]) -> str:
    """The text of the ABI header, from the first mpicc that belongs to the MPI."""
    reasons = []
    for mpicc in candidates:
        with tempfile.TemporaryDirectory(prefix="toposeat-probe-") as name:
            folder = Path(name)
            (folder / "probe.c").write_text(_PROBE)
            line = [str(mpicc), "-o", "probe", "probe.c", "-ldl"]
            done = run_compiler(line, folder, env)
            if done.returncode != 0:
                reasons.append(f"{mpicc}: {first_error_line(done.stderr)}")
                continue
            done = run_compiler([str(folder / "probe")], folder, _with_library(mpi_file, env))
            if f"\0{soname}\0".encode() not in (folder / "probe").read_bytes():
                reasons.append(f"{mpicc} links another MPI")
            elif done.returncode == 3:
                reasons.append(f"{mpicc}: handles of a size that is not supported")
            elif done.returncode != 0:
                reasons.append(f"{mpicc}: its programs do not run: {first_error_line(done.stderr)}")
            else:
                return _HEADER.format(library=soname, facts=done.stdout)
    raise ToposeatError(
        f"{mpi_file} is an MPI that has to be compiled for, and that failed: "
        + ("; ".join(reasons) or "no mpicc found"),
        hint=f"name the mpicc of this MPI in {MPICC_VARIABLE}",
    )


def _with_library(mpi_file: Path, env: Mapping[str, str]) -> dict[str, str]:
    paths = [str(mpi_file.parent), *filter(None, [env.get("LD_LIBRARY_PATH")])]
    return {**env, "LD_LIBRARY_PATH": os.pathsep.join(paths)}


def _build(
    library: Path, header: str, missing: Iterable[str], sources: Path, env: Mapping[str, str]
) -> None:
    known = [*filter(None, [env.get("CC")]), "cc", "gcc", "clang"]
    compiler = next(filter(None, (shutil.which(c, path=env.get("PATH")) for c in known)), None)
    if compiler is None:
        raise ToposeatError(
            "no C compiler to compile the interposer with",
            hint="install one (gcc or clang), or load its module",
        )
    folder = library.parent
    (folder / "compiled.h").write_text(header)
    names = "".join(f" {name};" for name in ("none", *sorted(missing)))  # never an empty list
    (folder / "hidden.map").write_text(f"{{ local:{names} }};\n")
    line = [compiler, "-std=c11", "-O2", "-fPIC", "-shared", "-fvisibility=hidden"]
    line += [f"-Wl,--version-script={folder}/hidden.map"]
    line += ["-D_GNU_SOURCE", '-DTPS_ABI_HEADER="compiled.h"', f"-I{folder}"]
    line += [f"-I{sources}/include", f"-I{sources}/src", "-o", str(library)]
    line += [str(path) for path in sorted([*sources.glob("*.c"), *sources.glob("src/*.c")])]
    done = run_compiler([*line, "-ldl", "-lpthread"], folder, env)
    if done.returncode != 0:
        raise ToposeatError(
            f"cannot compile the interposer: {first_error_line(done.stderr)}",
            hint=f"the command was: {' '.join(line[:12])} ...",
        )
