"""Several sources of one machine, and standard input, as every verb takes them."""

import json
import sys
from pathlib import Path

import pytest

from tests.support.processes import ran
from toposeat.cli.main import main

TOPOSEAT = (sys.executable, "-c", "from toposeat.cli.main import entry; entry()")
MATRIX = """\
        GPU0    GPU1    GPU2    CPU Affinity    NUMA Affinity
GPU0     X      NODE    NODE    0-15    0
GPU1    NODE     X      NODE    0-15    0
GPU2    NODE    NODE     X      0-15    0
"""
ACCESS = "\tGPU0\tGPU1\tGPU2\nGPU0\tX\tCNS\tCNS\nGPU1\tCNS\tX\tOK\nGPU2\tCNS\tOK\tX\n"


@pytest.fixture
def files(tmp_path):
    """A matrix and a table of peer access, with a blank in their names."""
    names = [str(tmp_path / name) for name in ("the matrix.txt", "peers.txt")]
    for name, text in zip(names, (MATRIX, ACCESS), strict=True):
        Path(name).write_text(text)
    return names


@pytest.mark.parametrize("verb", ["choose 2", "map ring:3", "doctor", "discover"])
def test_several_sources_are_merged(verb, files, tmp_path, capsys):
    """As if discover had merged them into one file: peer access decides what is taken."""
    both = [word for name in files for word in ("-t", name)]
    merged = str(tmp_path / "merged.json")
    assert main(["discover", *both, "-o", merged]) == 0
    capsys.readouterr()
    found = []
    for sources in (both, ["-t", merged], both[:2]):
        main([*verb.split(), *sources, "--json"])
        document = json.loads(capsys.readouterr().out)
        found.append([document.get(key) for key in ("devices", "rate", "placed", "findings")])
    assert found[0] == found[1] != found[2]


def test_a_placement_names_all_sources(files, tmp_path, capsys):
    place = str(tmp_path / "app.place")
    both = [word for name in files for word in ("-t", name)]
    assert main(["map", "ring:3", *both, "-o", place]) == 0
    capsys.readouterr()
    assert main(["compare", place]) == 0
    assert f"on '{files[0]}' -t {files[1]} (others" in capsys.readouterr().err
    moved = tmp_path / "moved"
    moved.mkdir()
    for name in (*files, place):
        Path(name).rename(moved / Path(name).name)
    assert main(["report", str(moved / "app.place")]) == 0  # they are found beside it
    assert f"on '{moved / Path(files[0]).name}' -t {moved}" in capsys.readouterr().err


def test_a_node_of_a_network_may_have_several_sources(files, tmp_path, capsys):
    node = [word for name in files for word in ("--node", name)]
    place = str(tmp_path / "app.place")
    assert main(["map", "ring:6", "-t", "hierarchy:3:2", *node, "-o", place]) == 0
    capsys.readouterr()
    assert main(["compare", place, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)


def test_standard_input_is_a_source(files, tmp_path):
    """A pipe or a file; a placement does not name what cannot be read again."""
    line = [*TOPOSEAT, "map", "ring:3", "-t", "-", "-t", files[1]]
    place = tmp_path / "app.place"
    with Path(files[0]).open() as file:
        more = [*line, "-o", str(place)]
        by_file = ran(more, stdin=file, check=True)
    by_pipe = ran(line, input=MATRIX, check=True)
    assert by_pipe.stdout == by_file.stdout
    assert "# source" not in place.read_text()


def test_standard_input_is_traffic(tmp_path):
    """By a pipe or a file; a placement of it is read without it, whatever stands on the input."""
    place, matrix = tmp_path / "app.place", tmp_path / "sent.csv"
    matrix.write_text("0,5,0\n5,0,700\n0,700,0\n")
    line = [*TOPOSEAT, "map", "-", "-t", "dgx-1v"]
    with matrix.open() as file:
        by_file = ran([*line, "-o", str(place)], stdin=file, check=True)
    assert ran(line, input=matrix.read_text(), check=True).stdout == by_file.stdout
    assert "CSV matrix stdin, 3 ranks, 1.38 KiB" in by_file.stdout
    read = ran([*TOPOSEAT, "report", str(place)], input=matrix.read_text(), check=True)
    assert "does not say its traffic" in read.stderr
