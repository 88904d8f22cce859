"""Folders and marks of records that a stranger makes first."""

import os
import secrets
import shutil
from pathlib import Path

import pytest

from tests.neighbour.conftest import STRANGER, VICTIM
from toposeat.installed import native_path
from toposeat.launch import python_hook

MEMORY = Path("/dev/shm")
RANK = {"OMPI_COMM_WORLD_RANK": "0", "OMPI_COMM_WORLD_LOCAL_RANK": "0"}


@pytest.fixture
def run():
    """The name of a run; what it leaves in memory is removed."""
    name = secrets.token_hex(8)
    yield name
    for left in MEMORY.glob(f"toposeat-*-{name}"):
        shutil.rmtree(left)


@pytest.fixture
def exec_program(open_folder):
    """toposeat-exec, where every user can start it."""
    return Path(shutil.copy(native_path("bin/toposeat-exec"), open_folder))


def boot():
    return Path("/proc/sys/kernel/random/boot_id").read_text()[:8]


def owned(path, user, mode=448):
    path.mkdir(exist_ok=True)
    path.chmod(mode)
    os.chown(path, user, user)
    return path


def mark_of(folder, run, user):
    (folder / f".run-{run}").touch()
    os.chown(folder / f".run-{run}", user, user)


def records_go_to(as_user, program, words, **variables):
    """The folder where a rank of the victim keeps its record."""
    line = ("--records", words, "--", "sh", "-c", 'echo "$TOPOSEAT_PROFILE_DIR"')
    given = words.partition(":")[2]
    environment = {**RANK, "TOPOSEAT_PROFILE_DIR": given, **variables}
    done = as_user(VICTIM, program, *line, environment=environment)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_a_folder_is_that_of_the_run_only_where_it_is_the_user_s(
    as_user, scratch, run, exec_program
):
    of_node = str(MEMORY / f"toposeat-records-{boot()}-{run}")
    for user, mode, marked_by in (
        (STRANGER, 0o777, STRANGER),
        (VICTIM, 0o777, VICTIM),  # others may enter it
        (VICTIM, 0o700, STRANGER),
    ):
        folder = owned(scratch / "records", user, mode)
        mark_of(folder, run, marked_by)
        assert records_go_to(as_user, exec_program, f"{run}:{folder}") == of_node
    mark_of(folder, run, VICTIM)
    assert records_go_to(as_user, exec_program, f"{run}:{folder}") == str(folder)
    (scratch / "link").symlink_to(folder)
    assert records_go_to(as_user, exec_program, f"{run}:{scratch}/link") == of_node


def test_a_folder_of_the_node_that_a_stranger_made_first_is_not_taken(
    as_user, scratch, run, exec_program
):
    name = f"toposeat-records-{boot()}-{run}"
    theirs = owned(MEMORY / name, STRANGER)
    own = str(scratch / "job" / name)
    words = f"{run}:/no/such"
    place = {"TMPDIR": str(scratch / "job")}
    assert records_go_to(as_user, exec_program, words, **place) == own
    theirs.rmdir()
    theirs.symlink_to(scratch / "job")
    assert records_go_to(as_user, exec_program, words, **place) == own
    theirs.unlink()
    owned(MEMORY / name, VICTIM, 0o770)
    (scratch / "job").chmod(0o777)  # what is made here, another may take away
    found = records_go_to(as_user, exec_program, words, **place)
    assert found == f"/tmp/{name}"
    shutil.rmtree(found)


def test_a_mark_of_python_follows_no_link(as_user, scratch, run):
    hook = scratch / "hook"  # the layout of the package, where every user can read it
    package = Path(python_hook.__file__).parents[2]
    shutil.copytree(package / "launch" / "python_hook", hook / "launch" / "python_hook")
    (hook / "model").mkdir()
    shutil.copy(package / "model" / "trust.py", hook / "model")
    folder = owned(scratch / "records", VICTIM)
    program = (
        "import os, sys; name = f'{sys.argv[1]}/rank-0-{os.getpid()}'\n"
        "os.close(os.open(name + '.tpstorch', os.O_CREAT | os.O_WRONLY))\n"
        "if sys.argv[2:]: os.symlink(sys.argv[2], name + '.left')"
    )
    variables = {
        "PYTHONPATH": str(hook / "launch" / "python_hook"),
        "TOPOSEAT_PROFILE_DIR": str(folder),
        "TOPOSEAT_PROFILE_RUN": run,
        "TOPOSEAT_PROFILE_EXEC": "/bin/echo",
        "TOPOSEAT_PROFILE_HOME": "home",
    }
    line = ("/usr/bin/python3", "-c", program, folder)
    done = as_user(VICTIM, *line, environment=variables)
    assert done.stdout == f"--leave {run}:home\n", done.stderr
    assert len(list(folder.glob("rank-0-*.left"))) == 1
    done = as_user(VICTIM, *line, scratch / "job" / ".hushlogin", environment=variables)
    assert "records stay on this node" in done.stderr
    assert not (scratch / "job" / ".hushlogin").exists()
    mark_of(folder, run, VICTIM)
    assert as_user(VICTIM, *line, environment=variables).stdout == ""
    owned(folder, STRANGER, 0o777)
    done = as_user(VICTIM, *line, environment=variables)
    assert "records stay on this node: " in done.stderr
    assert done.stdout == ""
