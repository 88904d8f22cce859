"""Environments, folders and limits that nobody meant: the application must not notice anything.

A program on the stand-in MPI of interposer/tests is run with and without the interposer. Its
output, exit code and signal must be the same, and stderr may only hold lines of the interposer.
`TOPOSEAT_TEST_HOSTILE=20000` makes the random part longer.
"""

import os
import random
import resource
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.interposed import PROGRAMS, only_one
from tests.support.processes import LONGEST_S
from toposeat.installed import native_path

STANDIN = PROGRAMS.parents[2] / "interposer" / "tests"
ENDS = ["", "segv", "kill", "_exit", "abort", "exec", "fork", "threads", "close"]
CASES = int(os.environ.get("TOPOSEAT_TEST_HOSTILE", "250"))
NOBODY = 65534
WORDS = ["0", "1", "-1", "2", "", " ", "yes", "pcontrol", "PCONTROL", "0.05", "1e9", "1e400", "nan"]
WORDS += ["inf", "-inf", "0x1p-3", "1s", "%s%n%p", "99999999999999999999", "\n", "a\tb", "0.0499"]

Outcome = tuple[int, bytes]


@pytest.fixture(scope="module")
def program(build_dir):
    """programs/hostile.c on the stand-in MPI."""
    mpi, made = build_dir / "libmpi.so.40", build_dir / "hostile"
    common = ["gcc", "-O1", "-D_GNU_SOURCE", f"-I{STANDIN}"]
    shared = ["-shared", "-fPIC", "-Wl,-soname,libmpi.so.40"]
    here = f"-Wl,-rpath,{build_dir}"
    source = PROGRAMS / "hostile.c"
    with only_one(made):
        if not made.exists():
            subprocess.run([*common, *shared, "-o", mpi, STANDIN / "standin_mpi.c"], check=True)
            subprocess.run([*common, "-o", made, source, mpi, here, "-pthread"], check=True)
    return made


def preload(*names):
    return " ".join(str(native_path(f"lib/libtoposeat_{name}.so")) for name in names)


def run(program, how, environment, before=None, wrapper=()):
    done = subprocess.run(
        [*wrapper, program, how],
        env=environment,
        capture_output=True,
        preexec_fn=before,
        timeout=LONGEST_S,
        check=False,
    )
    return (done.returncode, done.stdout), done.stderr


@pytest.fixture(scope="module")
def expected(program):
    return {how: run(program, how, {})[0] for how in ENDS}


def test_the_program_ends_as_it_says(expected):
    codes = {how: code for how, (code, _) in expected.items()}
    assert codes == {
        **dict.fromkeys(("", "fork", "threads", "close"), 7),
        **{"segv": -11, "kill": -9, "_exit": 5, "abort": 6, "exec": 9},
    }


def only_own_lines(stderr):
    return all(line.startswith((b"toposeat: ", b"ERROR: ld.so")) for line in stderr.splitlines())


def folders(tmp_path):
    """Places for records: good ones, bad ones and absurd ones."""
    (tmp_path / "good").mkdir()
    (tmp_path / "file").touch()
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "link").symlink_to("good")
    (tmp_path / "dangling").symlink_to("nowhere")
    for name in ("good", "file", "loop", "link", "dangling", "absent/deep", "good/../good"):
        yield str(tmp_path / name)
    # Nowhere that takes files: the tests may be root's, who can write records to "/".
    yield from ("", ".", "/proc", "/dev/null", "/dev/full", "/proc/self/fd", "/sys", "~", "%s%n")
    yield from ("x" * 300, "/" + "y/" * 3000, str(tmp_path) + "/" * 5000 + "good")


def test_random_environments(program, expected, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    places = list(folders(tmp_path))
    for seed in range(CASES):
        draw = random.Random(seed)
        noise = bytes(draw.randrange(1, 256) for _ in range(draw.choice((1, 8, 200, 5000))))
        values = [*WORDS, noise.decode("latin-1")]
        environment = {"TOPOSEAT_PROFILE_DIR": draw.choice([*places, *values])}
        names = ["TOPOSEAT_PROFILE_TIME", "TOPOSEAT_PROFILE_PHASES", "TOPOSEAT_NONSENSE"]
        names += ["OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_RANK", "PMIX_NAMESPACE", "LANG"]
        for name in draw.sample(names, draw.randrange(len(names))):
            environment[name] = draw.choice(values)
        libraries = draw.choice([("ompi",)] * 6 + [("ompi", "ompi"), ("mpich",), ("mpich", "ompi")])
        environment["LD_PRELOAD"] = preload(*libraries) + draw.choice(["", "", ":/no/such.so", " "])
        how = draw.choice(ENDS)
        raw = {k.encode(): v.encode("latin-1") for k, v in environment.items()}
        outcome, stderr = run(program, how, raw)
        assert outcome == expected[how], (seed, environment, stderr)
        assert only_own_lines(stderr), (seed, environment, stderr)
        for each in (tmp_path / "good").iterdir():
            each.unlink()


LIMITS = {
    "file size 0": (resource.RLIMIT_FSIZE, 0),
    "file size 100 KiB": (resource.RLIMIT_FSIZE, 100 << 10),
    "open files 3": (resource.RLIMIT_NOFILE, 3),
    "address space 64 MiB": (resource.RLIMIT_AS, 64 << 20),
    "data 4 MiB": (resource.RLIMIT_DATA, 4 << 20),
    "locked memory 0": (resource.RLIMIT_MEMLOCK, 0),
}


@pytest.mark.parametrize("how", ["", "threads", "fork", "segv"])
@pytest.mark.parametrize("limit", LIMITS)
def test_limits(program, tmp_path, how, limit):
    which, value = LIMITS[limit]
    # exec of the program needs a file or two more than nothing: the limit is set in a shell.
    shell = {resource.RLIMIT_NOFILE: "n"}.get(which)
    line = f'ulimit -S -{shell} {value + 1}; exec "$@"' if shell else 'exec "$@"'

    def lower():
        if shell is None:
            resource.setrlimit(which, (value, resource.getrlimit(which)[1]))

    wrapper = ["sh", "-c", line, "sh"]
    plain, _ = run(program, how, {}, lower, wrapper)
    environment = {"TOPOSEAT_PROFILE_DIR": str(tmp_path)}
    preloaded = ["env", f"LD_PRELOAD={preload('ompi')}"]
    outcome, stderr = run(program, how, environment, lower, [*wrapper, *preloaded])
    if b"cannot be preloaded" not in stderr:
        assert outcome == plain, stderr
    assert only_own_lines(stderr)


@pytest.mark.parametrize("how", ENDS)
def test_folders_that_cannot_be_written(program, expected, tmp_path, how):
    """As an ordinary user: root may write anywhere."""
    if os.geteuid() != 0 or shutil.which("setpriv") is None:
        pytest.skip("only root can become somebody else")
    public = Path("/dev/shm") / f"toposeat-hostile-{os.getpid()}"
    try:
        public.mkdir(mode=0o755)
        for name in (
            program,
            program.parent / "libmpi.so.40",
            native_path("lib/libtoposeat_ompi.so"),
        ):
            shutil.copy(name, public)
        environment = {
            "TOPOSEAT_PROFILE_DIR": str(public),
            "LD_LIBRARY_PATH": str(public),
            "LD_PRELOAD": str(public / "libtoposeat_ompi.so"),
        }
        become = ["setpriv", f"--reuid={NOBODY}", "--clear-groups"]
        outcome, stderr = run(public / "hostile", how, environment, None, become)
        assert outcome == expected[how], stderr
        assert b"not recording" in stderr
        assert not list(public.glob("*.tpsrec"))
    finally:
        shutil.rmtree(public, ignore_errors=True)


@pytest.mark.parametrize("how", ENDS)
@pytest.mark.parametrize("old_kernel", [False, True])
@pytest.mark.parametrize("size", ["4k", "16k", "64k"])
def test_full_file_system(*, program, expected, tmp_path, how, old_kernel, size, build_dir):
    """Touching a page of a full file system raises SIGBUS, unless one asks first."""
    folder = tmp_path / "full"
    folder.mkdir()
    line = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)]
    if os.geteuid() != 0 or subprocess.run(line, capture_output=True, check=False).returncode != 0:
        pytest.skip("mounting a small file system is not allowed here")
    try:
        libraries = preload("ompi")
        if old_kernel:
            libraries = f"{without_populate(build_dir)} {libraries}"
        environment = {"TOPOSEAT_PROFILE_DIR": str(folder), "LD_PRELOAD": libraries}
        outcome, stderr = run(program, how, environment)
        assert outcome == expected[how], stderr
        assert only_own_lines(stderr)
        assert stderr.count(b"toposeat: ") >= 1
    finally:
        subprocess.run(["umount", str(folder)], check=True)


def without_populate(build_dir):
    """A library that makes madvise answer as Linux before 5.14 does."""
    made = build_dir / "old_kernel.so"
    text = (
        "#include <errno.h>\n#include <stddef.h>\n"
        "#include <sys/syscall.h>\n#include <unistd.h>\n"
        "int madvise(void *start, size_t length, int advice) {\n"
        "  if (advice == 23) { errno = EINVAL; return -1; }\n"
        "  return (int)syscall(SYS_madvise, start, length, advice);\n}\n"
    )
    line = ["gcc", "-O1", "-D_GNU_SOURCE", "-shared", "-fPIC", "-o", made, "-xc", "-"]
    with only_one(made):
        if not made.exists():
            subprocess.run(line, input=text, text=True, check=True)
    return made


@pytest.mark.parametrize("how", ENDS)
def test_standard_error_is_closed(program, expected, how):
    environment = {"TOPOSEAT_PROFILE_DIR": "/nowhere", "LD_PRELOAD": preload("ompi")}
    wrapper = ["sh", "-c", 'exec "$@" 2>&-', "sh"]
    outcome, _ = run(program, how, environment, None, wrapper)
    assert outcome == expected[how]


def test_folder_removed_while_running(program, tmp_path):
    """Thread segments are made later than the main one."""
    folder = tmp_path / "gone"
    folder.mkdir()
    shim = tmp_path / "remove.c"
    shim.write_text(
        "#include <stdlib.h>\n#include <unistd.h>\n#include <stdio.h>\n"
        "int fflush(FILE *stream) {\n"
        '  (void)stream; unsetenv("LD_PRELOAD");\n'
        '  system("rm -rf \\"$TOPOSEAT_PROFILE_DIR\\" >/dev/null");\n'
        "  return 0;\n}\n"
    )
    library = tmp_path / "remove.so"
    subprocess.run(["gcc", "-shared", "-fPIC", "-w", "-o", library, shim], check=True)
    environment = {
        "TOPOSEAT_PROFILE_DIR": str(folder),
        "LD_PRELOAD": f"{library} {preload('ompi')}",
    }
    environment["PATH"] = os.environ["PATH"]
    (code, output), stderr = run(program, "threads", environment)
    assert (code, output.split()) == (7, [b"threads", b"end"]), stderr
    assert only_own_lines(stderr)
    assert not folder.exists()


def test_more_rights_than_the_caller(tmp_path):
    """Of a set-user-id program the loader drops LD_PRELOAD: nothing is recorded, nothing breaks."""
    if os.geteuid() != 0:
        pytest.skip("only root can make a set-user-id program for somebody else")
    echo = shutil.which("echo")
    assert echo is not None
    secure = tmp_path / "secure"
    shutil.copy(echo, secure)
    os.chown(secure, NOBODY, NOBODY)
    secure.chmod(0o4755)
    environment = {"TOPOSEAT_PROFILE_DIR": str(tmp_path), "LD_PRELOAD": preload("ompi")}
    outcome, stderr = run(secure, "hello", environment)
    assert outcome == (0, b"hello\n")
    assert only_own_lines(stderr)
