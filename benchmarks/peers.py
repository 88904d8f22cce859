"""MPI test suites of other projects, bare and under toposeat: every difference by name.

    make peers     or: python -m benchmarks.peers [programs|codes|mpi4py|mpich ...]
                   [--only REGEX] [--limit SECONDS] [--mpich FOLDER] [--ranks N] [--mpi4py FOLDER]

Each program of a suite runs as it is, under `toposeat profile` and under `toposeat run --reorder`,
on Debian's Open MPI or MPICH. What it says is compared: each test's verdict on each rank for
mpi4py; exit code, lines without what is a run's own (times, addresses), and files for programs.
Where something differs, the program runs bare three times more: what differs there too says nothing
about toposeat. A fourth run of each program on Open MPI, below a profile and its monitoring at
once, compares the bytes and messages of each pair of ranks. mpi4py's tests come from its sdist, by
pip, and run on MPICH too where --mpi4py names a folder of one built for it (`MPICC=mpicc.mpich pip
install --no-binary mpi4py --target FOLDER mpi4py`); programs of Debian's packages
scalapack-mpi-test, mumps-test and ptscotch take part where they are installed. So do three codes
whose pattern is known, and is compared too: PETSc's ex19 (libpetsc-real3.18-dev and
libpetsc3.18-dev-examples), icoFoam (openfoam and openfoam-examples), and ij of hypre (libhypre-dev;
its source by `apt-get source`, so apt needs a deb-src line). MPICH's own suite is built from its
source, found the same way, or is the configured and made copy of its test/mpi that --mpich names;
each program of its lists runs once on each number of ranks and with each set of arguments, but
where a list asks for a variable of MPICH or for memory, or expects it to fail: several in one
script, so that toposeat starts once for them.
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from hashlib import sha256
from importlib import metadata
from itertools import chain
from pathlib import Path
from typing import TypeVar

import numpy as np
from benchmarks.machine import describe
from tests.support.mpi import MpiToolchain, find_mpi

from toposeat.model.traffic import Traffic, TrafficKind
from toposeat.profile import read_traffic
from toposeat.profile.importers.open_mpi_monitoring import read_monitoring

TOPOSEAT = Path(sys.executable).with_name("toposeat")
WAYS = ("profile", "run --reorder")
LEFT_OUT = ("spawn", "dynproc", "util_pool", "threads", "doc")
VERDICT = re.compile(
    r"^(?:.*\s)?(\w+ \(test_[\w.]+\))(?:.*) \.\.\. (?:.*\s)?"
    r"(ok|FAIL|ERROR|skipped .*|expected failure|unexpected success)$"
)
# Times, addresses, and MPICH's numbers of errors: of each run its own.
OWN_NUMBER = re.compile(r"[-+]?\d*\.\d+(?:[DEde][-+]?\d+)?|0x[\da-f]{8,}|(?<=Abort\()\d+(?=\))")
# Linear all-to-alls of Open MPI 4.1 count as if the user had sent their messages.
MONITORED = {
    "OMPI_MCA_coll_tuned_use_dynamic_rules": "1",
    "OMPI_MCA_coll_tuned_alltoall_algorithm": "2",
    "OMPI_MCA_coll_tuned_alltoallv_algorithm": "2",
    "OMPI_MCA_pml_monitoring_enable": "2",
    "OMPI_MCA_pml_monitoring_enable_output": "3",
}
# As the packages' documentation starts them; each in a folder with these files.
MUMPS, SCALAPACK = Path("/usr/lib/mumps"), Path("/usr/lib/x86_64-linux-gnu/scalapack/openmpi-tests")
PETSC = Path("/usr/lib/petscdir/3.18")
FOAM = Path("/usr/share/openfoam")
CAVITY = Path("/usr/share/doc/openfoam-examples/examples/incompressible/icoFoam/cavity/cavity")

ABI_VARIABLE = "TOPOSEAT_MPI_ABI"  # of a script nothing says which MPI its lines will start
OPEN_MPI, MPICH = "debian-openmpi", "debian-mpich"
MPICH_SUITE, MPICH_LEFT_OUT = "test/mpi", ("spawn", "manual", "perf", "ft", "ckpoint", "threads")
CODE = "std-code"
BATCH, BATCH_LIMIT = 20, 120  # programs of one start of toposeat, and seconds of each
MODULES = 6  # of mpi4py, in one start
AGAIN = 3  # further bare runs of a program that differed
ITSELF = "differs by itself"

Outcome = Counter[str]
Item = TypeVar("Item")


@dataclass(frozen=True)
class Case:
    """A program of a suite: what is started, on how many ranks, with which files beside it."""

    suite: str
    name: str
    words: tuple[str, ...]
    ranks: int
    files: tuple[Path, ...] = ()  # folders too
    texts: tuple[tuple[str, str], ...] = ()
    stdin: Path | None = None
    monitored: bool = True
    mpi: str = OPEN_MPI
    verdicts: bool = False  # of unittest: its other lines say nothing
    batch: tuple[tuple[str, int, tuple[str, ...]], ...] = ()  # names, ranks, words: a start for all
    environment: Mapping[str, str] = field(default_factory=dict)
    pattern: str = ""  # a regular expression: how the profile's pattern begins
    persistent: bool = False  # messages that the monitoring does not see


def mpi4py_cases(folder: Path, built: Path | None) -> Iterator[Case]:
    """Some modules of mpi4py's tests each, also on MPICH where an mpi4py built for it is named."""
    version = metadata.version("mpi4py")
    words = ["download", "--quiet", "--no-deps", "--no-binary", "mpi4py"]
    subprocess.run(
        [sys.executable, "-m", "pip", *words, f"mpi4py=={version}", "-d", folder], check=True
    )
    (archive,) = folder.glob("mpi4py-*.tar.gz")
    subprocess.run(["tar", "-xf", archive, "-C", folder], check=True)
    tests = next(folder.glob("mpi4py-*/test"))
    names = (path.stem.removeprefix("test_") for path in sorted(tests.glob("test_*.py")))
    for some in batched((name for name in names if name not in LEFT_OUT), MODULES):
        chosen = rf"test_({'|'.join(some)})\.py$"
        line = (sys.executable, str(tests / "main.py"), "-v", "-i", chosen)
        suite, name = f"mpi4py {version} on", f"{some[0]} to {some[-1]}"
        case = Case(f"{suite} {OPEN_MPI}", name, line, 2, monitored=False, verdicts=True)
        yield case
        if built is not None:
            environment = {"PYTHONPATH": str(built)}
            yield replace(case, suite=f"{suite} {MPICH}", mpi=MPICH, environment=environment)


def mpich_cases(mpi: MpiToolchain, folder: Path, built: Path | None, most: int) -> Iterator[Case]:
    """The programs of the lists of MPICH's own suite, on no more than `most` ranks."""
    suite = _version("mpich")
    if built is None and (built := _source("mpich", folder, MPICH_SUITE)) is not None:
        compilers = {"CC": "mpicc", "CXX": "mpicxx", "F77": "mpifort", "FC": "mpifort"}
        named = {key: str(mpi.mpicc.with_name(f"{tool}.mpich")) for key, tool in compilers.items()}
        named |= {f"MPI{key}": value for key, value in named.items()} | {"MPICC": named["CC"]}
        for line in (["./configure", "--disable-spawn", "--enable-fortran=all"], ["make", "-k"]):
            quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
            subprocess.run(line, cwd=built, env={**mpi.env, **named}, check=False, **quiet)
    if built is None:
        print("skipped: MPICH's own suite: apt-get source mpich gives no source")
        return
    folders: dict[str, dict[str, tuple[int, tuple[str, ...]]]] = {}
    for listed in sorted(built.rglob("testlist")):
        inside = listed.parent.relative_to(built)
        if set(inside.parts) & set(MPICH_LEFT_OUT):
            continue
        for line in listed.read_text().splitlines():
            program, _, rest = line.partition(" ")
            ranks, *more = rest.split() or [""]
            path = built / inside / program
            if ranks.isdecimal() and path.is_file() and not re.search(r" (env|mem|xfail)=", line):
                given = tuple(word[4:] for word in more if word.startswith("arg="))
                started = min(int(ranks), most)
                name = " ".join((program, str(started), *given)).replace("/", "_")
                folders.setdefault(str(inside), {})[name] = started, (str(path), *given)
    for inside, programs in folders.items():
        batches = batched(((name, *each) for name, each in programs.items()), BATCH)
        for number, batch in enumerate(batches, 1):
            name = f"{inside}/{number}"
            case = Case(suite, name, (), 0, monitored=False, mpi=MPICH, batch=tuple(batch))
            yield replace(case, environment={ABI_VARIABLE: "mpich"})


def grid(side: int) -> str:
    """A square grid as a graph in Scotch's form."""
    lines = []
    for at in range(side * side):
        y, x = divmod(at, side)
        near = [(y, x + 1), (y, x - 1), (y + 1, x), (y - 1, x)]
        ends = [b * side + a for b, a in near if 0 <= b < side and 0 <= a < side]
        lines.append(" ".join(map(str, (len(ends), *ends))))
    edges = sum(int(line.split()[0]) for line in lines)
    return "\n".join(("0", f"{side * side} {edges}", "0 000", *lines, ""))


def program_cases() -> Iterator[Case]:
    """The programs of Debian's packages that are here."""
    for name in "cdsz" if MUMPS.is_dir() else "":
        given = MUMPS / f"input_simpletest_{'cmplx' if name in 'cz' else 'real'}"
        words = (str(MUMPS / f"{name}simpletest"),)
        yield Case(_version("mumps-test"), words[0][-11:], words, 4, stdin=given)
    graph = (("grid.grf", grid(24)),)
    for words in (
        ("dgord", "grid.grf", "order"),
        ("dgpart", "8", "grid.grf", "parts"),
        ("dgtst", "grid.grf"),
        ("dgscat", "grid.grf", "part-%r"),
    ):
        if shutil.which(words[0]):
            yield Case(_version("ptscotch"), words[0], words, 4, texts=graph)
    programs = (p for p in sorted(SCALAPACK.rglob("*")) if p.suffix == "" and p.is_file())
    for path in programs:
        if path.parent.name != "TIMING":
            data = tuple(path.parent.glob("*.dat"))
            yield Case(_version("scalapack-mpi-test"), path.name, (str(path),), 4, files=data)


def code_cases(mpi: MpiToolchain, folder: Path) -> Iterator[Case]:
    """Codes with a known pattern; what is not installed is named."""
    ex19 = next(iter(PETSC.glob("share/petsc/examples/src/snes/tutorials/ex19.c")), None)
    if ex19 is None or not (PETSC / "include" / "petsc.h").exists():
        print("skipped: PETSc's ex19: no libpetsc-real3.18-dev or libpetsc3.18-dev-examples")
    else:
        words = [f"-I{PETSC}/include", ex19, "-lpetsc_real", "-lm"]
        program = _compiled(mpi, folder / "ex19", words)
        line = (program, "-da_refine", "3", "-pc_type", "mg", "-ksp_type", "fgmres")
        pattern = r"2-D 4x2 halo: 7\d % of the bytes on 20 directed pairs"
        version = _version("libpetsc-real3.18")
        yield Case(version, "ex19", line, 8, pattern=pattern, persistent=True)
    suite = _version("libhypre-dev")
    if not Path("/usr/include/hypre").is_dir():
        print("skipped: hypre's ij: no libhypre-dev")
    elif (tests := _source("hypre", folder, "src/test")) is None:
        print("skipped: hypre's ij: apt-get source hypre gives no source")
    else:
        words = ["-w", f"-I{tests}", "-I/usr/include/hypre", tests / "ij.c", "-lHYPRE", "-lm"]
        program = _compiled(mpi, folder / "ij", words)
        for side, pattern in ((2, "irregular: 9"), (3, r"3-D 3x3x3 halo with diagonals .*: 9")):
            grid = f"-n 30 30 30 -P {side} {side} {side} -solver 1"
            yield Case(suite, f"ij-{side**3}", (program, *grid.split()), side**3, pattern=pattern)
    if not (CAVITY.is_dir() and shutil.which("icoFoam")):
        print("skipped: icoFoam: no openfoam or openfoam-examples")
    else:
        parts = tuple(cavity(folder / "cavity").iterdir())
        # What it prints has clocks and process numbers: its results are in files.
        line = ("env", f"WM_PROJECT_DIR={FOAM}", "sh", "-c", "exec icoFoam -parallel >/dev/null")
        pattern = r"2-D 4x2 halo: 9\d % of the bytes on 20 directed pairs"
        yield Case(_version("openfoam"), "icoFoam", line, 8, files=parts, pattern=pattern)


def cavity(folder: Path) -> Path:
    """The lid-driven cavity with 80 x 80 cells, cut into 2 x 4 parts, in a new folder."""
    shutil.copytree(CAVITY, folder)
    for name, changes in {
        "blockMeshDict": {r"\(20 20 1\)": "(80 80 1)"},
        "controlDict": {"^endTime .*": "endTime 0.05;", "^deltaT .*": "deltaT 0.001;"},
    }.items():
        path = folder / "system" / name
        text = path.read_text()
        for old, new in changes.items():
            text = re.sub(f"(?m){old}", new, text)
        path.write_text(text)
    parts = "numberOfSubdomains 8; method simple; simpleCoeffs { n (2 4 1); delta 0.001; }"
    head = "FoamFile { version 2.0; format ascii; class dictionary; object decomposeParDict; }"
    (folder / "system" / "decomposeParDict").write_text(f"{head}\n{parts}\n")
    environment = {**os.environ, "WM_PROJECT_DIR": str(FOAM)}
    for tool in ("blockMesh", "decomposePar"):
        subprocess.run([tool], cwd=folder, env=environment, stdout=subprocess.DEVNULL, check=True)
    return folder


def _compiled(mpi: MpiToolchain, program: Path, words: Sequence[str | Path]) -> str:
    subprocess.run([mpi.mpicc, "-O1", "-o", program, *words], env=mpi.env, check=True)
    return str(program)


def _source(package: str, folder: Path, inside: str) -> Path | None:
    """A folder of a Debian package's own source, unpacked; None where apt knows no sources."""
    line = ["apt-get", "source", "--download-only", package]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    if subprocess.run(line, cwd=folder, check=False, **quiet).returncode:
        return None
    for archive in folder.glob(f"{package}_*.orig.tar.*"):
        subprocess.run(["tar", "-xf", archive, "-C", folder], check=True)
    return next(iter(folder.glob(f"{package}-*/{inside}")), None)


def _version(package: str) -> str:
    words = ["dpkg-query", "-W", "-f", "${Version}", package]
    return f"{package} {subprocess.run(words, capture_output=True, text=True, check=False).stdout}"


class Referee:
    """Runs cases, and keeps what differs."""

    def __init__(self, mpis: Mapping[str, MpiToolchain], folder: Path, limit: float) -> None:
        self._mpis, self._folder, self._limit = mpis, folder, limit
        self._runs = 0

    def outcome(
        self, case: Case, before: tuple[str, ...] = (), extra: Mapping[str, str] | None = None
    ) -> tuple[Outcome, Path]:
        """What a run said, and its folder; empty if it did not come to its end in time."""
        self._runs += 1
        mpi = self._mpis[case.mpi]
        folder = self._folder / f"run-{self._runs}"
        said, inside = folder / "said", folder / "in"
        inside.mkdir(parents=True)
        for path in case.files:
            if path.is_dir():
                shutil.copytree(path, inside / path.name)
            else:
                shutil.copy(path, inside)
        for name, text in case.texts:
            (inside / name).write_text(text)
        given = {*inside.rglob("*")}
        if case.batch:
            script = inside / "batch.sh"
            script.write_text("".join(_batch(case, mpi, said)))
            given.add(script)
            line = ["sh", str(script)]
        else:
            line = [*_start(mpi, said, case.ranks), *case.words]
        environment = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        with case.stdin.open() if case.stdin else Path("/dev/null").open() as stdin:
            running = subprocess.Popen(
                [*before, *line],
                cwd=inside,
                env={**mpi.env, **environment, **case.environment, **(extra or {})},
                stdin=stdin,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
            try:
                code = running.wait(self._limit + len(case.batch) * BATCH_LIMIT)
            except subprocess.TimeoutExpired:
                for number in (signal.SIGTERM, signal.SIGKILL):  # the launcher ends its ranks
                    os.killpg(running.pid, number)
                    with suppress(subprocess.TimeoutExpired):
                        running.wait(20)
                        break
                return Counter(), folder
        found: Outcome = Counter({f"exit code {code}": 1})
        for path in sorted(said.rglob("std*")):
            found.update(_lines(case, path))
        for path in sorted({*inside.rglob("*")} - given):
            if path.is_file() and path.suffix not in (".prof", ".toml"):
                name = path.relative_to(inside)
                found[f"file {name} {sha256(path.read_bytes()).hexdigest()[:12]}"] += 1
        return found, folder

    def differences(self, case: Case, bare: Outcome, way: str) -> list[str]:
        """What a way of toposeat changes, and does not change by itself."""
        words: tuple[str, ...] = (str(TOPOSEAT), *way.split())
        if way == "profile":
            words += ("-f", "-o", "peer.prof")
        seen, _ = self.outcome(case, (*words, "--"))
        if seen == bare:
            return []
        own: set[str] = set()
        for _ in range(AGAIN):
            again, _ = self.outcome(case)
            own |= {_what(each) for each in (*(again - bare), *(bare - again))}
        found = sorted({*(seen - bare), *(bare - seen)})
        mine = [
            f"{'only bare' if each in bare - seen else 'only there'}: {each}"
            for each in found
            if _what(each) not in own
        ]
        return [f"{case.name}, {way}: {each}" for each in mine or [ITSELF]]

    def cells(self, case: Case) -> tuple[int, int, str]:
        """Pairs of ranks with messages, those where the monitoring differs, and the pattern."""
        prefix = self._folder / f"seen-{case.name}"
        extra = {**MONITORED, "OMPI_MCA_pml_monitoring_filename": str(prefix)}
        words = (str(TOPOSEAT), "profile", "-f", "-o", "peer.prof", "--")
        _, folder = self.outcome(case, words, extra)
        traffic = read_traffic(folder / "in" / "peer.prof")
        if not Path(f"{prefix}.0.prof").exists():  # written by MPI_Finalize
            return 0, 0, traffic.metadata.get("pattern", "")
        ours, theirs = (
            _point_to_point(each, case.ranks)
            for each in (traffic, read_monitoring(Path(f"{prefix}.0.prof")))
        )
        sent = (ours[1] > 0) | (theirs[1] > 0)
        wrong = int(((ours != theirs).any(axis=0) & sent).sum())
        return int(sent.sum()), wrong, traffic.metadata.get("pattern", "")


def _start(mpi: MpiToolchain, said: Path, ranks: int) -> list[str]:
    """The launcher's words that keep what each rank says in files below a folder, std*."""
    apart = ["--output-filename", str(said)]
    if mpi.family == "mpich":
        said.mkdir()
        apart = ["-outfile-pattern", f"{said}/stdout-%r", "-errfile-pattern", f"{said}/stderr-%r"]
    return [str(mpi.mpirun), *mpi.run_flags, *apart, "-n", str(ranks)]


def _batch(case: Case, mpi: MpiToolchain, said: Path) -> Iterator[str]:
    """A script that starts one program after the other, and keeps each one's exit code."""
    said.mkdir()
    for name, ranks, words in case.batch:
        line = shlex.join([*_start(mpi, said / name, ranks), *words])
        code = shlex.quote(str(said / name / CODE))
        yield f"timeout -k 9 {BATCH_LIMIT} {line} </dev/null\necho exit code $? >{code}\n"


def batched(items: Iterable[Item], size: int) -> Iterator[list[Item]]:
    """Lists of `size`, the last one shorter."""
    held = list(items)
    return (held[at : at + size] for at in range(0, len(held), size))


def _what(line: str) -> str:
    """A line of an outcome; of a file only its name, whose content may be one of several."""
    return line.rpartition(" ")[0] if line.startswith("file ") else line


def _lines(case: Case, path: Path) -> Iterator[str]:
    rank, text = f"{path.parent.name}/{path.name}", path.read_text(errors="replace")
    for line in text.splitlines():
        if not case.verdicts:
            yield f"{rank}: {' '.join(OWN_NUMBER.sub('#', line).split())}"
        elif verdict := VERDICT.match(line):
            yield f"{rank}: {verdict[1]} {verdict[2]}"


def _point_to_point(traffic: Traffic, ranks: int) -> np.ndarray:
    """Bytes and messages, 2 x ranks x ranks."""
    table = traffic.table(kind=TrafficKind.POINT_TO_POINT)
    made = np.zeros((2, ranks, ranks), dtype=np.int64)
    np.add.at(made[0], (table.source, table.target), table.bytes)
    np.add.at(made[1], (table.source, table.target), table.messages)
    return made


def main() -> None:
    arguments = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    arguments.add_argument(
        "suites", nargs="*", help="programs, codes, mpi4py, mpich; all unless said"
    )
    arguments.add_argument("--only", default="", help="a regular expression for SUITE NAME")
    arguments.add_argument("--limit", type=float, default=900, help="seconds of one run")
    arguments.add_argument("--mpich", type=Path, help="MPICH's test/mpi, configured and made")
    arguments.add_argument("--ranks", type=int, default=10, help="at most, of MPICH's programs")
    arguments.add_argument("--mpi4py", type=Path, help="a folder with an mpi4py for Debian's MPICH")
    options = arguments.parse_args()
    mpis = {}
    print(describe())
    for name in (OPEN_MPI, MPICH):
        mpi = find_mpi(name)
        if isinstance(mpi, str):
            raise SystemExit(f"skipped: {mpi}")
        mpis[name] = mpi
        line = [mpi.mpirun, "--version"]
        version = subprocess.run(line, capture_output=True, text=True, check=True)
        print(*version.stdout.splitlines()[:2], flush=True)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        referee = Referee(mpis, folder, options.limit)
        counts: dict[str, Counter[str]] = {}
        makers = {
            "programs": program_cases,
            "codes": lambda: code_cases(mpis[OPEN_MPI], folder),
            "mpi4py": lambda: mpi4py_cases(folder, options.mpi4py),
            "mpich": lambda: mpich_cases(mpis[MPICH], folder, options.mpich, options.ranks),
        }
        for case in chain.from_iterable(makers[each]() for each in options.suites or makers):
            if re.search(options.only, f"{case.suite} {case.name}"):
                judge(referee, case, counts.setdefault(case.suite, Counter()))
    today = datetime.now(UTC).date().isoformat()
    for suite, count in counts.items():
        print(f"{today}: {suite}: {', '.join(f'{n} {what}' for what, n in count.items())}")


def judge(referee: Referee, case: Case, count: Counter[str]) -> None:
    """One program in every way; prints a line, and one per difference."""
    bare, _ = referee.outcome(case)
    if not bare:
        count["programs that did not end in time, bare"] += 1
        print(f"{case.suite} {case.name}: did not end in time, bare", flush=True)
        return
    if slow := [each for each in case.batch if bare[f"{each[0]}/{CODE}: exit code 124"]]:
        count["programs that did not end in time, bare"] += len(slow)
        print(*(f"{case.name}: {each[0]}: did not end in time, bare" for each in slow), sep="\n")
        case = replace(case, batch=tuple(each for each in case.batch if each not in slow))
        names = tuple(f"{each[0]}/" for each in slow)
        bare = Counter({line: n for line, n in bare.items() if not line.startswith(names)})
    count["programs"] += len(case.batch) or 1
    count["verdicts and lines"] += sum(bare.values())
    found = [each for way in WAYS for each in referee.differences(case, bare, way)]
    own = sum(each.endswith(ITSELF) for each in found)
    count["runs that differ by themselves"] += own
    count["differences"] += len(found) - own
    told = f"{sum(bare.values())} verdicts and lines, {len(found) - own} differences"
    if case.monitored:
        pairs, wrong, pattern = referee.cells(case)
        if not case.persistent:
            count["pairs compared"] += pairs
            count["pairs that differ"] += wrong
            told += f", {pairs} pairs, {wrong} not as monitored"
        if case.pattern:
            right = re.match(case.pattern, pattern) is not None
            count["patterns as known" if right else "patterns not as known"] += 1
            found += [] if right else [f"{case.name}: pattern {pattern!r}, not {case.pattern!r}"]
            told += f", {pattern.partition(';')[0]}"
    print(f"{case.suite} {case.name}: {told}", *found, sep="\n  ", flush=True)


if __name__ == "__main__":
    main()
