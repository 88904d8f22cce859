"""Settings that a stranger plants above a user's folder, or in it."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.neighbour.conftest import STRANGER, VICTIM, AsUser

MAP = ("toposeat", "map", "ring:8")
GIVES_A_MACHINE = 'machine = "k80-16"\n'


def write(path: Path, text: str, user: int, mode: int = 0o644) -> Path:
    path.write_text(text)
    path.chmod(mode)
    os.chown(path, user, user)
    return path


def left_alone(said: str, path: Path) -> bool:
    notes = [line for line in said.splitlines() if line.startswith("note: settings in ")]
    return len(notes) == 1 and f"{path} are left alone" in notes[0]


def test_a_machine_of_a_stranger_decides_nothing(as_user: AsUser, scratch: Path) -> None:
    planted = write(scratch / "toposeat.toml", GIVES_A_MACHINE, STRANGER)
    done = as_user(VICTIM, *MAP, cwd=scratch / "job")
    assert done.returncode == 1
    assert "no GPU found on this machine" in done.stderr
    assert left_alone(done.stderr, planted)
    named = {"TOPOSEAT_CONFIG": str(planted)}
    done = as_user(VICTIM, *MAP, cwd=scratch / "job", environment=named)
    assert (done.returncode, done.stderr.count("left alone")) == (0, 0)
    assert f"Settings  machine k80-16 ({planted}:1)" in done.stdout


@pytest.mark.parametrize(
    ("plant", "words", "code"),
    [
        ("x = 1\n", (*MAP, "-t", "dgx-1v"), 0),
        ("\x00\xff", ("toposeat", "discover", "-t", "dgx-1v"), 0),
        ('seed = "' + "a" * 100_000, ("toposeat", "doctor", "--config"), 0),
        (None, ("toposeat", "profile", "-o", "p.prof", "--", "sh", "-c", "exit 7"), 7),
    ],
)
def test_nothing_that_a_stranger_plants_stops_a_verb(
    as_user: AsUser, scratch: Path, plant: str | None, words: tuple[str, ...], code: int
) -> None:
    planted = scratch / "toposeat.toml"
    if plant is None:
        os.mkfifo(planted)
        os.chown(planted, STRANGER, STRANGER)
    else:
        write(planted, plant, STRANGER)
    done = as_user(VICTIM, *words, cwd=scratch / "job")
    assert done.returncode == code, done.stderr
    assert left_alone(done.stderr, planted)


def test_an_own_file_is_named_where_it_decides(as_user: AsUser, scratch: Path) -> None:
    own = write(scratch / "job" / "toposeat.toml", GIVES_A_MACHINE, VICTIM)
    done = as_user(VICTIM, *MAP, "-o", "app.place", cwd=scratch / "job")
    assert done.returncode == 0, done.stderr
    assert f"Settings  machine k80-16 ({own}:1)" in done.stdout
    assert f"# settings: machine k80-16 ({own}:1)" in (scratch / "job" / "app.place").read_text()
    told = json.loads(as_user(VICTIM, *MAP, "--json", cwd=scratch / "job").stdout)
    assert told["settings"] == {"machine": {"value": "k80-16", "source": f"{own}:1"}}
    told = json.loads(as_user(VICTIM, *MAP, "-t", "dgx-1v", "--json", cwd=scratch / "job").stdout)
    assert "settings" not in told


def test_a_folder_of_a_group_is_trusted_where_the_group_is_the_user_s(
    as_user: AsUser, scratch: Path
) -> None:
    project = scratch / "job"
    project.chmod(0o2775)
    own = write(project / "toposeat.toml", GIVES_A_MACHINE, VICTIM, 0o664)
    assert as_user(VICTIM, *MAP, cwd=project).returncode == 0
    os.chown(project, VICTIM, STRANGER)
    done = as_user(VICTIM, *MAP, cwd=project)
    assert done.returncode == 1
    assert left_alone(done.stderr, own)


def test_files_and_folders_above_are_judged_each(as_user: AsUser, scratch: Path) -> None:
    inner = scratch / "job" / "inner"
    inner.mkdir()
    os.chown(inner, VICTIM, VICTIM)
    file = write(scratch / "job" / "toposeat.toml", GIVES_A_MACHINE, STRANGER)
    assert left_alone(as_user(VICTIM, *MAP, cwd=inner).stderr, file)
    write(file, GIVES_A_MACHINE, 0)
    assert as_user(VICTIM, *MAP, cwd=inner).returncode == 0
    os.chown(scratch / "job", STRANGER, STRANGER)
    assert left_alone(as_user(VICTIM, *MAP, cwd=scratch / "job").stderr, file)
    done = as_user(VICTIM, *MAP, cwd=inner)  # the first folder is the stranger's way in already
    assert (done.returncode, "k80-16" in done.stdout) == (1, False)


def test_a_link_is_what_it_leads_to(as_user: AsUser, scratch: Path) -> None:
    real = write(scratch / "real.toml", GIVES_A_MACHINE, VICTIM)
    link = scratch / "job" / "toposeat.toml"
    link.symlink_to(real)
    assert left_alone(as_user(VICTIM, *MAP, cwd=scratch / "job").stderr, link)
    link.unlink()
    (scratch / "job" / "kept").mkdir()
    os.chown(scratch / "job" / "kept", VICTIM, VICTIM)
    link.symlink_to(write(scratch / "job" / "kept" / "real.toml", GIVES_A_MACHINE, VICTIM))
    assert as_user(VICTIM, *MAP, cwd=scratch / "job").returncode == 0


def test_a_user_s_file_that_others_may_write_is_left_alone(as_user: AsUser, scratch: Path) -> None:
    config = scratch / "job" / "toposeat"
    config.mkdir()
    os.chown(config, VICTIM, VICTIM)
    file = write(config / "config.toml", GIVES_A_MACHINE, VICTIM)
    home = {"XDG_CONFIG_HOME": str(scratch / "job")}
    assert as_user(VICTIM, *MAP, environment=home).returncode == 0
    file.chmod(0o666)
    done = as_user(VICTIM, *MAP, environment=home)
    assert done.returncode == 1
    assert left_alone(done.stderr, file)


def test_an_own_file_that_is_wrong_stops_no_job(as_user: AsUser, scratch: Path) -> None:
    own = write(scratch / "job" / "toposeat.toml", "x = 1\n", VICTIM)
    done = as_user(VICTIM, *MAP, "-t", "dgx-1v", cwd=scratch / "job")
    assert done.returncode == 1
    assert f"{own}:1: there is no setting 'x'" in done.stderr
    line = ("toposeat", "profile", "-o", "p.prof", "--", "sh", "-c", "exit 7")
    done = as_user(VICTIM, *line, cwd=scratch / "job")
    assert done.returncode == 7
    assert done.stderr.count("warning: settings are left alone: ") == 1
