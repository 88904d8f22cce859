"""What a file is follows from its content."""

import json

import numpy as np
import pytest

from tests.profile.importers.nccl_samples import LoggedProcess, call_line, init_lines
from tests.profile.records.records import write_record
from toposeat.errors import InputError
from toposeat.profile import holds_traffic, read_traffic

TWO = [LoggedProcess("n", device) for device in range(2)]
LOG = "\n".join([*init_lines(TWO, 0), *(call_line(p, 0, 2, "AllReduce", 4) for p in TWO)])
TRACE = json.dumps({"distributedInfo": {"rank": 0, "world_size": 2}, "traceEvents": []})


@pytest.mark.parametrize(
    ("content", "origin"),
    [
        ("0,1\n1,0\n", "CSV matrix"),
        (LOG, "NCCL debug log"),
        ("epoch 1 of 3, loss 0.5\n" * 5000 + LOG, "NCCL debug log"),
    ],
)
def test_text(tmp_path, content, origin):
    path = tmp_path / "no-suffix"
    path.write_text(content)
    assert read_traffic(path).origin.startswith(origin)
    assert holds_traffic(path)


@pytest.mark.parametrize(
    "content",
    ['{"schema": "toposeat/topology/1"}', "{}", "# toposeat/placement/1\nrank host\n"],
)
def test_files_that_are_no_traffic(tmp_path, content):
    path = tmp_path / "file"
    path.write_text(content)
    with pytest.raises(InputError, match="a file that is no traffic") as caught:
        read_traffic(path)
    assert "NCCL debug logs" in caught.value.hint


@pytest.mark.parametrize(
    ("content", "what"),
    [
        (b'{"header": {}, "coll_perf": {"coll": "AllReduce"}}\n', "NCCL's Inspector"),
        (b'{"entries": [{"profiling_name": "nccl:all_reduce"}]}', "PyTorch's flight recorder"),
        (b"\x80\x02}q\x00X\x09\x00\x00\x00pg_config", "PyTorch's flight recorder"),
    ],
)
@pytest.mark.parametrize("whole", [False, True])
def test_former_sources_are_refused_by_name(tmp_path, content, what, whole):
    path = tmp_path / "job_0"
    path.write_bytes(content)
    assert holds_traffic(path)  # so that the reader says what it is
    with pytest.raises(InputError, match=f"{what}, which is not read") as caught:
        read_traffic(tmp_path if whole else path)
    assert "toposeat profile" in caught.value.hint


@pytest.mark.parametrize(
    ("content", "what", "instead"),
    [
        (b"0 1\n1 0\n", "a matrix with blanks", "put commas"),
        (b"# LU, class A\n\n  0 5e0\n7.0\t0\n", "a matrix with blanks", "put commas"),
        (b"PK\x03\x04", "an archive", "numpy.save"),
    ],
)
def test_what_is_no_longer_read_is_named(tmp_path, content, what, instead):
    path = tmp_path / "file"
    path.write_bytes(content)
    assert holds_traffic(path)  # so that `report` says it too
    with pytest.raises(InputError, match=what) as caught:
        read_traffic(path)
    assert instead in caught.value.hint


def test_a_folder_of_two_tools_is_refused(tmp_path):
    (tmp_path / "a.log").write_text(LOG)
    (tmp_path / "b.json").write_text(TRACE)
    with pytest.raises(InputError, match=r"files of different tools: a\.log and b\.json"):
        read_traffic(tmp_path)


def test_a_folder_of_nothing_is_refused(tmp_path):
    (tmp_path / "readme").write_text("hello\n")
    with pytest.raises(InputError, match="a folder without files of a run"):
        read_traffic(tmp_path)


def test_a_folder_of_our_own_records(tmp_path):
    write_record(tmp_path, 0, 1)
    assert read_traffic(tmp_path).origin == "interposer"


def test_a_folder_of_monitoring_files(tmp_path):
    for rank in range(2):
        (tmp_path / f"run.{rank}.prof").write_text(
            f"# POINT TO POINT\nE\t{rank}\t{1 - rank}\t8 bytes\t1 msgs sent\n"
        )
    assert read_traffic(tmp_path).table().dense_bytes(2).tolist() == [[0, 8], [8, 0]]


def test_other_files_of_a_folder_are_left_alone(tmp_path):
    np.save(tmp_path / "weights.npy", np.eye(3))
    (tmp_path / "notes.csv").write_text("0,1\n1,0\n")
    (tmp_path / "job.log").write_text(LOG)
    assert read_traffic(tmp_path).origin == "NCCL debug log"


def test_a_topology_is_no_traffic(tmp_path):
    for number, content in enumerate(
        ["\tGPU0\tGPU1\nGPU0\t X \tPIX\n", '{"schema": "toposeat/topology/1"}']
    ):
        path = tmp_path / f"{number}.txt"
        path.write_text(content)
        assert not holds_traffic(path)
