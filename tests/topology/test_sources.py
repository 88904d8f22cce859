"""Finding the right reader, and refusing what none can read."""

from pathlib import Path

import pytest

from tests.support.catalogue import CATALOGUE
from tests.topology.readers.render import RENDERERS
from toposeat.errors import InputError, UsageError
from toposeat.topology import read_topology, save_topology

MATRIX = RENDERERS["tabs_new"]([["X", "PIX"], ["PIX", "X"]], 2, ["0-3", "0-3"])


@pytest.mark.parametrize("name", CATALOGUE)
def test_saved_topology_reads_back(tmp_path, name):
    topology = read_topology(name)
    save_topology(topology, tmp_path / "saved")  # the content decides, not the suffix
    assert read_topology(tmp_path / "saved") == topology


def test_one_whose_measured_pair_is_a_route_of_its_own_reads_back(tmp_path):
    """And keeps no premise of the route that reading it derives first."""
    told = tmp_path / "measured.txt"
    told.write_text("""
          Device: 0,  CPU A
          Device: 1,  AMD Instinct MI100,  GPU-0123456789abcdef,  c1:0.0
          Device: 2,  AMD Instinct MI100,  GPU-fedcba9876543210,  c6:0.0

          Unidirectional copy peak bandwidth GB/s

          D/D       0           1           2

          0         N/A         28.4        24.9

          1         28.5        1000.0      49.0

          2         25.0        47.5        1000.0
""")
    topology = read_topology(told)
    save_topology(topology, tmp_path / "saved")
    again = read_topology(tmp_path / "saved")
    assert again.premises == topology.premises
    assert again.route_of_pair == topology.route_of_pair


def test_names_are_not_case_sensitive():
    assert read_topology(" DGX-1V ").name == "dgx-1v"


def test_a_path_is_always_a_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError):
        read_topology(Path("k80-16"))
    Path("k80-16").write_text(MATRIX)
    assert len(read_topology(Path("k80-16")).devices) == 2
    assert len(read_topology("k80-16").devices) == 16
    assert len(read_topology("./k80-16").devices) == 2


def test_utf16_of_a_windows_redirect(tmp_path):
    path = tmp_path / "topo.txt"
    path.write_bytes(MATRIX.encode("utf-16"))
    assert read_topology(path).name == "topo"


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "the file is empty"),
        (b"\x00\x01\x02GPU0", "binary content"),
        (b"\x7fELF\x02\x01\x01\x00", "binary content"),
        (b"\tGPU0\nGPU0\t\xff\n", ":2: not UTF-8 text"),
        (b"\xff\xfe\x00", "damaged UTF-16"),
        (b"<?xml version='1.0'?><topology/>", "root is <topology>"),
        (b"ranks: 4\n", "unknown format"),
        (b'{"schema": "other/1"}', ""),
        (b'{"schema": "toposeat/topology/1"', ""),
        (b'{"schema": "toposeat/topology/99"}', ""),
    ],
)
def test_refuses_what_is_no_topology(tmp_path, content, words):
    path = tmp_path / "file"
    path.write_bytes(content)
    with pytest.raises(InputError) as caught:
        read_topology(path)
    assert words in str(caught.value)
    assert str(caught.value).startswith(str(path))
    assert "\n" not in caught.value.message
    assert caught.value.hint


def test_refuses_a_directory(tmp_path):
    with pytest.raises(InputError, match="directory"):
        read_topology(tmp_path)


def test_refuses_huge_files(tmp_path):
    path = tmp_path / "huge"
    with path.open("wb") as out:
        out.truncate(65 * 1024 * 1024)  # sparse
    with pytest.raises(InputError, match="larger than 64 MiB"):
        read_topology(path)


@pytest.mark.parametrize(
    ("source", "kind", "hint"),
    [
        ("dgx1v", UsageError, "did you mean dgx-1v"),
        ("quite-other", UsageError, "known are a100-pcie-8-bridged, "),
        ("", UsageError, "give one of: this"),
        ("no/such/file", InputError, "give one of: this"),
        ("no-such-file.txt", InputError, "give one of: this"),
        ("tree:a", UsageError, "forms: tree:2:2:4"),
        ("x" * 5000, UsageError, "known are"),
        ("a\0b", UsageError, "known are"),
    ],
)
def test_names_that_mean_nothing(source, kind, hint):
    with pytest.raises(kind) as caught:
        read_topology(source)
    assert caught.value.hint.startswith(hint)
