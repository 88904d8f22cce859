"""Settings of a user that a stranger may write."""

import json
import os

import pytest

from tests.neighbour.conftest import STRANGER, VICTIM

MAP = ("toposeat", "map", "ring:8")
GIVES_A_MACHINE = 'machine = "k80-16"\n'


def write(path, text, user, mode=420):
    path.write_text(text)
    path.chmod(mode)
    os.chown(path, user, user)
    return path


def left_alone(said, path):
    notes = [line for line in said.splitlines() if line.startswith("note: settings in ")]
    return len(notes) == 1 and f"{path} are left alone" in notes[0]


def settings(scratch):
    """The user's folder of settings, and the variable that names it."""
    config = scratch / "job" / "toposeat"
    config.mkdir()
    os.chown(config, VICTIM, VICTIM)
    return config, {"XDG_CONFIG_HOME": str(scratch / "job")}


@pytest.mark.parametrize(
    ("plant", "words", "code"),
    [
        ("x = 1\n", (*MAP, "-t", "dgx-1v"), 0),
        ("\x00\xff", ("toposeat", "discover", "-t", "dgx-1v"), 0),
        (None, ("toposeat", "profile", "-o", "p.prof", "--", "sh", "-c", "exit 7"), 7),
    ],
)
def test_nothing_that_a_stranger_plants_stops_a_verb(as_user, scratch, plant, words, code):
    config, named = settings(scratch)
    planted = config / "config.toml"
    if plant is None:
        os.mkfifo(planted)
        os.chown(planted, STRANGER, STRANGER)
    else:
        write(planted, plant, STRANGER)
    done = as_user(VICTIM, *words, cwd=scratch / "job", environment=named)
    assert done.returncode == code, done.stderr
    assert left_alone(done.stderr, planted)


def test_an_own_file_is_named_where_it_decides(as_user, scratch):
    config, named = settings(scratch)
    own = write(config / "config.toml", GIVES_A_MACHINE, VICTIM)
    done = as_user(VICTIM, *MAP, "-o", "app.place", cwd=scratch / "job", environment=named)
    assert done.returncode == 0, done.stderr
    assert f"Settings  machine k80-16 ({own}:1)" in done.stdout
    assert f"# settings: machine k80-16 ({own}:1)" in (scratch / "job" / "app.place").read_text()
    told = json.loads(as_user(VICTIM, *MAP, "--json", environment=named).stdout)
    assert told["settings"] == {"machine": {"value": "k80-16", "source": f"{own}:1"}}
    told = json.loads(as_user(VICTIM, *MAP, "-t", "dgx-1v", "--json", environment=named).stdout)
    assert "settings" not in told


def test_a_link_is_what_it_leads_to(as_user, scratch):
    config, named = settings(scratch)
    real = write(scratch / "real.toml", GIVES_A_MACHINE, VICTIM)
    link = config / "config.toml"
    link.symlink_to(real)
    assert left_alone(as_user(VICTIM, *MAP, environment=named).stderr, link)
    link.unlink()
    link.symlink_to(write(config / "real.toml", GIVES_A_MACHINE, VICTIM))
    assert as_user(VICTIM, *MAP, environment=named).returncode == 0


def test_a_file_or_folder_that_others_may_write_is_left_alone(as_user, scratch):
    config, named = settings(scratch)
    file = write(config / "config.toml", GIVES_A_MACHINE, VICTIM)
    assert as_user(VICTIM, *MAP, environment=named).returncode == 0
    file.chmod(0o666)
    done = as_user(VICTIM, *MAP, environment=named)
    assert done.returncode == 1
    assert left_alone(done.stderr, file)
    file.chmod(0o664)
    config.chmod(0o2775)
    assert as_user(VICTIM, *MAP, environment=named).returncode == 0
    os.chown(config, VICTIM, STRANGER)
    assert left_alone(as_user(VICTIM, *MAP, environment=named).stderr, file)


def test_an_own_file_that_is_wrong_stops_no_job(as_user, scratch):
    config, named = settings(scratch)
    own = write(config / "config.toml", "x = 1\n", VICTIM)
    done = as_user(VICTIM, *MAP, "-t", "dgx-1v", environment=named)
    assert done.returncode == 1
    assert f"{own}:1: there is no setting 'x'" in done.stderr
    line = ("toposeat", "profile", "-o", "p.prof", "--", "sh", "-c", "exit 7")
    done = as_user(VICTIM, *line, cwd=scratch / "job", environment=named)
    assert done.returncode == 7
    assert done.stderr.count("warning: settings are left alone: ") == 1
