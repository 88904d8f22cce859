"""Folders of jobs: removed at the end, swept after a kill, records kept for a week."""

import os
import signal
import tempfile
from pathlib import Path

import pytest

from toposeat.model import job_folder as module
from toposeat.model.job_folder import RECORD_SUFFIX, job_folder, sweep


@pytest.fixture(autouse=True)
def places(tmp_path, monkeypatch):
    """Neither /dev/shm nor /tmp of the machine that runs this."""
    monkeypatch.setattr(module, "MEMORY_FOLDER", tmp_path / "memory")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    (tmp_path / "memory").mkdir()
    return tmp_path


def folder_of_killed_job(record=""):
    """What a process leaves that was killed within the block."""
    here, there = os.pipe()
    child = os.fork()
    if child == 0:
        with job_folder("test", memory=True) as folder:
            if record:
                (folder / record).touch()
            os.write(there, str(folder).encode())
            os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(child, 0)
    os.close(there)
    with os.fdopen(here) as name:
        return Path(name.read())


def dead_pid():
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)
    return child


def test_a_folder_ends_with_its_block(places):
    with job_folder("test", memory=True) as one, job_folder("test") as other:
        assert (one.parent, other.parent) == (places / "memory", places)
        assert one.stat().st_mode & 0o777 == 0o700
        sweep()
        assert one.is_dir()
        assert other.is_dir()
    assert not one.exists()
    assert not other.exists()
    (places / "shared").mkdir()
    with job_folder("test", parent=places / "shared") as hidden:
        assert hidden.name.startswith(".toposeat-test-")


def test_what_a_killed_job_left_is_removed_by_the_next():
    left = folder_of_killed_job()
    assert left.is_dir()
    with job_folder("other"):
        assert not left.exists()


def test_records_of_a_killed_job_are_kept_for_a_week(monkeypatch):
    record = f"rank-0-{dead_pid()}{RECORD_SUFFIX}"
    left = folder_of_killed_job(record)
    sweep()
    os.utime(left / record, (0, 0))  # a clock that was set wrong
    sweep()
    assert (left / record).exists()
    (mark,) = left.glob(".found-*")
    found = int(mark.name.partition("-")[2])
    monkeypatch.setattr(module, "KEPT_S", 100.0)
    mark.rename(left / f".found-{max(found - 101, 0)}")
    monkeypatch.setattr(module.time, "clock_gettime", lambda _: max(found, 101))
    sweep()
    assert not left.exists()


def test_a_rank_that_still_writes_keeps_its_folder():
    left = folder_of_killed_job(f"rank-0-{os.getpid()}{RECORD_SUFFIX}")
    sweep()
    assert left.is_dir()


def test_what_is_not_ours_is_left_alone(places):
    boot = module._boot()
    link = places / f"toposeat-link-{boot}-a"
    (places / "victim").mkdir(mode=0o700)
    link.symlink_to(places / "victim")
    opened = places / f"toposeat-open-{boot}-b"
    opened.mkdir(mode=0o777)
    opened.chmod(0o777)
    other_boot = places / "toposeat-test-00000001-c"
    other_boot.mkdir(mode=0o700)
    sweep()
    assert all(path.is_dir() for path in (link, places / "victim", opened, other_boot))
