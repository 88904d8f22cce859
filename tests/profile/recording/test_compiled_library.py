"""Interposers compiled on first use, for an MPI that no prebuilt one is for, and for real ones."""

from __future__ import annotations

import os
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.support.interposed import PROGRAMS, exported, read_truth
from tests.support.mpi import WIDE, MpiToolchain
from tests.support.processes import executable, ran
from toposeat.errors import ToposeatError
from toposeat.installed import native_path
from toposeat.launch import LauncherKind, LaunchLine
from toposeat.model.traffic import TrafficKind
from toposeat.profile import profile_run
from toposeat.profile.recording.library import LIBRARY_OF_ABI, choose_abi, choose_library

FOREIGN = PROGRAMS / "foreign"


@pytest.fixture(scope="module")
def foreign(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A prefix with lib/libmpi.so.7, bin/mpicc and a program."""
    prefix = tmp_path_factory.mktemp("foreign")
    for name in ("lib", "bin"):
        (prefix / name).mkdir()
    library = prefix / "lib" / "libmpi.so.7"
    line = ["gcc", "-shared", "-fPIC", "-I", FOREIGN, "-Wl,-soname,libmpi.so.7"]
    subprocess.run([*line, "-o", library, FOREIGN / "mpi.c"], check=True)
    mpicc = executable(
        prefix / "bin" / "mpicc", f'#!/bin/sh\nexec gcc -I{FOREIGN} "$@" {library}\n'
    )
    program = [mpicc, "-o", prefix / "app", FOREIGN / "app.c", f"-Wl,-rpath,{library.parent}"]
    subprocess.run(program, check=True)
    return prefix


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    return {**os.environ, "TOPOSEAT_CACHE_DIR": str(tmp_path_factory.mktemp("cache"))}


def line(program: Path) -> LaunchLine:
    return LaunchLine(kind=LauncherKind.NONE, launcher=(), program=(str(program),), ranks=1)


@pytest.mark.mpi
def test_it_is_compiled_once(foreign: Path, cache: dict[str, str]) -> None:
    with ThreadPoolExecutor(3) as pool:
        paths = list(pool.map(lambda _: choose_library(line(foreign / "app"), cache), range(3)))
    assert len(set(paths)) == 1
    written = paths[0].stat().st_mtime_ns
    assert choose_library(line(foreign / "app"), cache) == paths[0]
    assert paths[0].stat().st_mtime_ns == written
    assert len(list(paths[0].parent.glob(f"{paths[0].name}*"))) == 2  # with its digest
    calls = {name for name in exported(paths[0]) if name.startswith(("MPI_", "PMPI_"))}
    assert "MPI_Send" in calls
    assert calls <= exported(foreign / "lib" / "libmpi.so.7")


@pytest.mark.mpi
def test_an_mpi_of_another_abi(foreign: Path, cache: dict[str, str]) -> None:
    app = foreign / "app"
    assert choose_abi(line(app), cache) == "compile"
    traffic, code = profile_run([str(app)], environment=cache)
    assert code == 0
    assert traffic.metadata["mpi"] == "Foreign 1.0"
    assert traffic.metadata["abi"] == "compiled"
    table = traffic.table(kind=TrafficKind.POINT_TO_POINT)
    assert table.dense_bytes(1).tolist() == [[3 * 40 + 28]]
    assert table.dense_messages(1).tolist() == [[4]]
    assert [(e.operation, e.bytes, e.calls) for e in traffic.collectives] == [("allreduce", 16, 1)]


@pytest.mark.mpi
@pytest.mark.parametrize("name", LIBRARY_OF_ABI.values())
def test_prebuilt_libraries_keep_away_from_it(foreign: Path, name: str, tmp_path: Path) -> None:
    env = {**os.environ, "TOPOSEAT_PROFILE_DIR": str(tmp_path)}
    env["LD_PRELOAD"] = str(native_path(name))
    done = ran([foreign / "app"], env=env)
    assert (done.returncode, done.stdout) == (0, "good\n")
    assert done.stderr.endswith("; set TOPOSEAT_MPI_ABI=compile: not recording\n")
    assert done.stderr.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.mpi
@pytest.mark.parametrize(
    "mpi", ["wheel-mpich", "debian-openmpi"] if WIDE else ["debian-openmpi"], indirect=True
)
def test_real_mpis_by_compiling(
    mpi: MpiToolchain, cache: dict[str, str], halo3d: Path, tmp_path: Path
) -> None:
    env = {**cache, **mpi.env, "TOPOSEAT_MPI_ABI": "compile", "TOPOSEAT_MPICC": str(mpi.mpicc)}
    truth = tmp_path / "truth"
    words = [str(halo3d), "--grid", "1x1x3", "--mode", "isend", "--wrap", "--truth", str(truth)]
    traffic, code = profile_run(
        [str(mpi.mpirun), *mpi.run_flags, "-n", "3", *words], environment=env
    )
    assert code == 0
    assert traffic.metadata["abi"] == "compiled"
    expected = read_truth(truth, 3)[0]
    table = traffic.table(kind=TrafficKind.POINT_TO_POINT)
    assert expected.sum() > 0
    assert (table.dense_bytes(3) == expected[0]).all()
    assert (table.dense_messages(3) == expected[1]).all()


@pytest.mark.mpi
def test_errors_are_readable(foreign: Path, tmp_path: Path) -> None:
    app = line(foreign / "app")
    env = {**os.environ, "TOPOSEAT_CACHE_DIR": str(tmp_path)}
    with pytest.raises(ToposeatError, match=r"that failed: .*false: no output") as caught:
        choose_library(app, {**env, "TOPOSEAT_MPICC": "/bin/false"})
    assert "TOPOSEAT_MPICC" in caught.value.hint
    other = executable(tmp_path / "mpicc", f'#!/bin/sh\nexec gcc -I{FOREIGN} "$@" -shared -fPIC\n')
    with pytest.raises(ToposeatError, match="links another MPI"):
        choose_library(app, {**env, "TOPOSEAT_MPICC": str(other)})
    with pytest.raises(ToposeatError, match="no C compiler"):
        choose_library(
            app,
            {**env, "PATH": str(foreign / "bin"), "TOPOSEAT_MPICC": str(_outside_path(tmp_path))},
        )
    file = tmp_path / "file"
    file.write_text("")
    with pytest.raises(ToposeatError, match="cannot keep a compiled interposer"):
        choose_library(app, {**env, "TOPOSEAT_CACHE_DIR": str(file)})
    assert not list(tmp_path.rglob("*.so"))


def _outside_path(folder: Path) -> Path:
    """The foreign mpicc, with a compiler of its own."""
    script = folder / "own-mpicc"
    library = "$(dirname $0)/libmpi.so.7"
    build = f"gcc -shared -fPIC -I{FOREIGN} -Wl,-soname,libmpi.so.7 -o {library} {FOREIGN}/mpi.c"
    compile_it = f'gcc -I{FOREIGN} "$@" {library}'
    executable(script, f"#!/bin/sh\nPATH=/usr/bin:/bin\n{build}\nexec {compile_it}\n")
    return script
