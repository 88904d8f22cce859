"""The C parser of placement files against the Python one, on whole, damaged and random files.

Runs a build with the address and undefined-behaviour sanitizers where the compiler has them.
"""

from __future__ import annotations

import random
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.launcher.support import Exec, placement_text, seat_line
from toposeat.errors import InputError
from toposeat.model.placement_file import parse_placement

SOURCES = Path(__file__).resolve().parents[2] / "launcher" / "src"

WHOLE = placement_text(
    [
        seat_line(0, 2, cpus="0-3,8", node="0", nic="mlx5_0:1"),
        seat_line(1, 0, host="n1.example", cpus="1", node="1"),
        seat_line(2, 3, local_rank=1, cpus="0"),
    ],
    hosts=("*", "n1.example"),
).replace("# vendor", "# a remark\n# command: mpirun -n 3 ./app\n# vendor")


@pytest.fixture(scope="session")
def sanitized(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """toposeat-exec built to stop at the first invalid access or overflow."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("no C compiler")
    program = tmp_path_factory.mktemp("sanitized") / "toposeat-exec"
    sources = [path for path in sorted(SOURCES.glob("*.c")) if path.name != "probe.c"]
    done = subprocess.run(
        [
            *(compiler, "-std=c11", "-D_GNU_SOURCE", "-O1", "-g", "-fno-sanitize-recover=all"),
            *("-fsanitize=address,undefined", "-o", str(program)),
            *map(str, sources),
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        pytest.skip(f"the compiler has no sanitizers: {done.stderr.splitlines()[-1]}")
    return program


def accepts(launcher: Exec, path: Path) -> bool:
    """Whether the C parser takes the file; anything but a clean verdict fails the test."""
    done = launcher.run(
        *("-m", path, "--dry-run", "--strict", "--visibility", "mask", "true"),
        env={
            "PMI_RANK": "0",
            "MPI_LOCALRANKID": "0",
            "ASAN_OPTIONS": "detect_leaks=0",  # the launcher's memory ends with exec
        },
        check=False,
    )
    assert "Sanitizer" not in done.stderr, done.stderr
    assert "runtime error" not in done.stderr, done.stderr
    assert done.code in (0, 1), done.stderr
    return f"{path}:" not in done.stderr


def damaged_texts(count: int) -> list[bytes]:
    """Truncations, replaced bytes and shuffled lines, the same in every run."""
    source = random.Random(20261120)
    whole = WHOLE.encode()
    alphabet = b"\t\n\r #:=-,.*0123456789abcdefxGPU\x00\xff"
    found = [whole[: source.randrange(len(whole))] for _ in range(count // 3)]
    for _ in range(count // 3):
        text = bytearray(whole)
        for _ in range(source.randrange(1, 6)):
            at = source.randrange(len(text))
            text[at : at + source.randrange(3)] = bytes(
                source.choice(alphabet) for _ in range(source.randrange(4))
            )
        found.append(bytes(text))
    for _ in range(count // 3):
        lines = whole.split(b"\n")
        source.shuffle(lines)
        found.append(b"\n".join(lines[:1] * (source.random() < 0.5) + lines))
    return found


def test_the_whole_file_is_accepted(sanitized: Path, tmp_path: Path) -> None:
    launcher = Exec(sanitized, tmp_path)
    assert accepts(launcher, launcher.place(WHOLE))
    assert accepts(launcher, launcher.place(WHOLE.replace("\n", "\r\n")))


def test_damaged_files_are_refused_or_used_but_never_break_the_parser(
    sanitized: Path, tmp_path: Path
) -> None:
    launcher = Exec(sanitized, tmp_path)
    path = tmp_path / "damaged.place"
    refused = 0
    for data in damaged_texts(150):
        path.write_bytes(data)
        accepted = accepts(launcher, path)
        refused += not accepted
        try:
            parse_placement(data.decode(), path=path)
        except (InputError, UnicodeDecodeError):
            continue
        assert accepted, data  # what Python reads, C must read
    assert refused > 50


def test_long_lines_many_columns_and_huge_numbers_are_refused(
    sanitized: Path, tmp_path: Path
) -> None:
    launcher = Exec(sanitized, tmp_path)
    head = placement_text([])
    row = seat_line(0, 0)
    for line in (
        "x" * 1_000_000,
        "0\t" * 100_000,
        row.replace("\t0\t", "\t99999999999999999999\t", 1),
        row.replace("0\t", "18446744073709551616\t", 1),
        row.replace("\t-\t-\t-", "\t0-99999\t-\t-"),
        row.replace("\t-\t-\t-", "\t" + "1," * 50_000 + "1\t99999\t-"),
    ):
        path = launcher.place(head + line + "\n")
        assert not accepts(launcher, path)


def test_what_is_no_file_is_refused(launcher: Exec, tmp_path: Path) -> None:
    for path, cause in ((tmp_path, "not a regular file"), (Path("/dev/null"), "not a regular")):
        done = launcher.run("-m", path, "echo", "ran")
        assert done.stdout == "ran\n"
        assert cause in done.warnings[0]


def test_control_characters_of_a_file_do_not_reach_the_terminal(launcher: Exec) -> None:
    done = launcher.run("-m", launcher.place("# toposeat\x1b[31m\n"), "true")
    assert "\x1b" not in done.stderr
    assert "\\x1b[31m" in done.stderr
