"""Which ranks have no record, on which hosts, and why."""

import pytest

from tests.profile.records import test_torch_record as torch_record
from tests.profile.records.records import write_record
from toposeat.errors import ToposeatError
from toposeat.profile import merge_records


def said_of(folder):
    """What is said of the ranks without a record."""
    (line,) = (each for each in merge_records(folder, partial=True).report if "have no" in each)
    return line


def test_ranks_are_grouped_by_host_and_cause(tmp_path):
    write_record(tmp_path, 0, 9)
    for rank, host in ((1, "n1"), (2, "n1"), (3, "n1"), (5, "n2"), (6, "n2")):
        (tmp_path / f"rank-{rank}-1.host").write_text(host)
    (tmp_path / "rank-3-1.errno-28").touch()
    (tmp_path / "rank-6-1.tpsrec").write_bytes(b"TPSREC\r\n")
    none = "it made no MPI call, or its record was removed"
    assert said_of(tmp_path) == (
        f"8 of 9 ranks have no record: ranks 1-2 on n1 ({none}); rank 3 on n1 (No space left on"
        f" device); ranks 4, 7-8 (nothing came from its node); rank 5 on n2 ({none});"
        " ... (5 such groups)"
    )


def test_names_of_hosts_that_are_none(tmp_path):
    write_record(tmp_path, 0, 2)
    (tmp_path / "rank-1-1.host").write_bytes(b"\x1b[2J\n")
    assert "rank 1 (nothing came" in said_of(tmp_path)


@pytest.mark.parametrize(("started", "host"), [(7, " on n1"), (8, "")])
def test_tasks_that_are_no_ranks_of_pytorch_say_no_host(tmp_path, started, host):
    """torchrun on the second of two nodes is task 1, not rank 1."""
    write_record(tmp_path, 0, 2)
    torch_record.write(tmp_path)
    (tmp_path / f"rank-0-{started}.host").write_text("n0")
    (tmp_path / "rank-1-9.host").write_text("n1")
    assert f"rank 1{host} (" in said_of(tmp_path)


def test_merging_needs_all_ranks_or_partial(tmp_path):
    write_record(tmp_path, 0, 2)
    with pytest.raises(ToposeatError, match="1 of 2 ranks have no record: rank 1"):
        merge_records(tmp_path)
    said = merge_records(tmp_path, partial=True).report
    assert [line for line in said if "record" in line] == [
        "1 of 2 ranks have no record: rank 1 (nothing came from its node)"
    ]
    write_record(tmp_path, 1, 2)
    assert not any("record" in line for line in merge_records(tmp_path).report)
