"""The C parser of placement files against the Python one, on whole, damaged and random files.

`make lint-deep` also gives it damaged ones under sanitizers (fuzz/placement.c).
"""

import os
import random
from pathlib import Path

from tests.launcher.support import placement_text, seat_line
from toposeat.errors import InputError
from toposeat.model.placement_file import parse_placement

WHOLE = placement_text(
    [
        seat_line(0, 2, cpus="0-3,8", node="0", nic="mlx5_0:1"),
        seat_line(1, 0, host="n1.example", cpus="1", node="1"),
        seat_line(2, 3, local_rank=1, cpus="0"),
    ],
    hosts=("*", "n1.example"),
).replace("# vendor", "# a remark\n# command: mpirun -n 3 ./app\n# vendor")


def accepts(launcher, path):
    """Whether the C parser takes the file; anything but a clean verdict fails the test."""
    done = launcher.run(
        *("-m", path, "--dry-run", "--strict", "--visibility", "mask", "true"),
        env={"PMI_RANK": "0", "MPI_LOCALRANKID": "0"},
        check=False,
    )
    assert done.code in (0, 98), done.stderr
    return f"{path}:" not in done.stderr


def damaged_texts(count):
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


def test_the_whole_file_is_accepted(launcher, tmp_path):
    assert accepts(launcher, launcher.place(WHOLE))
    assert accepts(launcher, launcher.place(WHOLE.replace("\n", "\r\n")))


def test_damaged_files_are_refused_or_used_but_never_break_the_parser(launcher, tmp_path):
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


def test_long_lines_many_columns_and_huge_numbers_are_refused(launcher, tmp_path):
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


def test_what_is_no_file_is_refused(launcher, tmp_path):
    """A pipe that nobody writes to is not waited for."""
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path, Path("/dev/null"), tmp_path / "pipe"):
        done = launcher.run("-m", path, "echo", "ran")
        assert done.stdout == "ran\n"
        assert "not a regular file" in done.warnings[0]


def test_a_missing_or_damaged_file_is_named_and_the_program_runs(launcher):
    damaged = launcher.place(placement_text([seat_line(0, 2)]).replace("\t0\t", "\tzero\t"))
    for path, cause in (
        (launcher.folder / "no.place", "No such file or directory; started without placement"),
        (damaged, "local_rank must be a number"),
    ):
        done = launcher.run("-m", path, "echo", "ran")
        assert done.stdout == "ran\n"
        assert f"{path}:" in done.warnings[0]
        assert cause in done.warnings[0]


def test_control_characters_of_a_file_do_not_reach_the_terminal(launcher):
    """Neither ESC nor U+009B, which some terminals take for ESC [; letters with accents do."""
    done = launcher.run("-m", launcher.place("# toposeat\x1b[31m\x9b0mé\n"), "true")
    assert "\x1b" not in done.stderr
    assert "\x9b" not in done.stderr
    assert "\\x1b[31m\\xc2\\x9b0mé" in done.stderr


def test_nothing_that_is_shown_steers_the_terminal(launcher):
    done = launcher.run("-E", "A\x1b=\x1b[2J", "--dry-run", "true", "\x1b]0;title\x07")
    assert "\x1b" not in done.stdout
    assert "set A\\x1b=\\x1b[2J" in done.stdout
