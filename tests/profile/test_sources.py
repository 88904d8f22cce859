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


# Content, words of the cause, words of the hint, and whether it is said to be traffic, so that the
# reader says what it is.
REFUSED = [
    (b'{"schema": "toposeat/topology/1"}', "a file that is no traffic", "NCCL debug logs", False),
    (b"{}", "a file that is no traffic", "NCCL debug logs", False),
    (b"# toposeat/placement/1\nrank host\n", "a file that is no traffic", "NCCL debug logs", False),
    (b"\tGPU0\tGPU1\nGPU0\t X \tPIX\n", "is no number", "one line per sender", False),
    (b"0 1\n1 0\n", "a matrix with blanks", "put commas", True),
    (b"# LU, class A\n\n  0 5e0\n7.0\t0\n", "a matrix with blanks", "put commas", True),
    (b"PK\x03\x04", "an archive", "numpy.save", True),
    (b"# POINT TO POINT\nE\t0\t1\t8 bytes\t1 msgs sent\n", r"ends in \.<rank>\.prof", "", True),
]
FORMER = [
    (b'{"header": {}, "coll_perf": {"coll": "AllReduce"}}\n', "NCCL's Inspector"),
    (b'{"entries": [{"profiling_name": "nccl:all_reduce"}]}', "PyTorch's flight recorder"),
    (b"\x80\x02}q\x00X\x09\x00\x00\x00pg_config", "PyTorch's flight recorder"),
]
REFUSED += [(text, f"{what}, which is not read", "toposeat profile", True) for text, what in FORMER]


@pytest.mark.parametrize(("content", "cause", "hint", "is_said"), REFUSED)
def test_what_is_not_read_is_refused_by_name(tmp_path, content, cause, hint, is_said):
    path = tmp_path / "job_0"
    path.write_bytes(content)
    assert holds_traffic(path) == is_said
    for source in (path, tmp_path) if "which is not read" in cause else (path,):
        with pytest.raises(InputError, match=cause) as caught:
            read_traffic(source)
        assert hint in caught.value.hint


@pytest.mark.parametrize(
    ("files", "cause"),
    [
        ({"a.log": LOG, "b.json": TRACE}, r"files of different tools: a\.log and b\.json"),
        ({"readme": "hello\n"}, "a folder without files of a run"),
    ],
)
def test_folders_that_are_none_of_a_run(tmp_path, files, cause):
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    with pytest.raises(InputError, match=cause):
        read_traffic(tmp_path)


@pytest.mark.parametrize("name", ["nowhere.csv", "run.0.prof", "rank0.json"])
def test_a_file_that_is_missing(tmp_path, name):
    with pytest.raises(InputError, match=f"{name}: no such file"):
        read_traffic(tmp_path / name)


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
