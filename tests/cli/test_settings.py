"""Settings of a user, by what verbs do with them."""

import json
import os

import pytest

from toposeat.cli.main import main
from toposeat.model.placement_file import load_placement

MAP = ["map", "llm:tp=2,dp=4", "--json"]


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A folder below a home folder, without any settings."""
    monkeypatch.setenv("TOPOSEAT_CACHE_DIR", "")  # what verbs set is undone, too
    for name in list(os.environ):
        if name.startswith("TOPOSEAT_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    (tmp_path / "job" / "inner").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "job" / "inner")
    return tmp_path / "job"


def of_user(project, text):
    path = project.parent / ".config" / "toposeat" / "config.toml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def machine_of(words, capsys):
    assert main(words) == 0
    return str(json.loads(capsys.readouterr().out)["topology"])


def test_an_option_beats_the_environment_and_the_file(project, monkeypatch, capsys):
    of_user(project, 'machine = "dgx-1v"\n')
    assert machine_of(MAP, capsys) == "dgx-1v"
    monkeypatch.setenv("TOPOSEAT_MACHINE", "k40-8")
    assert machine_of(MAP, capsys) == "k40-8"
    assert machine_of([*MAP, "-t", "mi60-8"], capsys) == "mi60-8"


def test_options_have_the_defaults_that_are_set(project, capsys):
    of_user(project, 'machine = "dgx-1v"\nmin-gain = 99\nmetric = "latency"\n')
    assert main(MAP) == 0
    kept = json.loads(capsys.readouterr().out)
    assert kept["metric"] == "latency"
    assert kept["device_of_rank"] == list(range(8))
    assert main([*MAP, "--min-gain", "1"]) == 0
    assert json.loads(capsys.readouterr().out)["device_of_rank"] != list(range(8))


def test_a_network_and_its_nodes(project, capsys):
    conf = of_user(project, "").with_name("topology.conf")
    conf.write_text("SwitchName=leaf Nodes=n[1-4]\n")
    text = 'network = "slurm:topology.conf,taper=2"\nmachine = "dgx-1v"\nhosts = "n[2-3]"\n'
    of_user(project, text)
    assert main(["map", "llm:tp=8,dp=2", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["hosts"] == ["n2", "n3"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('budget = 1\nmashine = "dgx-1v"', "config.toml:2: there is no setting 'mashine'"),
        ('solver = "autos"', "config.toml:1: solver cannot be 'autos'"),
        ("budget = -1", "config.toml:1: budget cannot be '-1'"),
        ("budget = [1]", "config.toml:1: budget is no word and no number"),
        ('machine = "\\u001b[2J"', "config.toml:1: machine is no word and no number"),
        ("budget = ", "config.toml:1: no TOML"),
        ("a" * 40000, "too long for settings"),
    ],
)
def test_what_is_wrong_is_said_with_its_line(project, text, said, capsys):
    of_user(project, text + "\n")
    assert main([*MAP, "-t", "dgx-1v"]) == 1
    assert said in capsys.readouterr().err


def test_a_wrong_file_stops_no_job(project, capsys):
    of_user(project, "x = 1\n")
    assert main(["profile", "-o", "p.prof", "--", "sh", "-c", "exit 7"]) == 7
    said = capsys.readouterr().err
    assert said.count("config.toml:1: there is no setting 'x'") == 1


def test_what_a_file_decided_is_named(project, capsys):
    conf = of_user(project, "").with_name("topology.conf")
    conf.write_text("SwitchName=leaf Nodes=n[1-4]\n")
    file = of_user(
        project, 'network = "slurm:topology.conf"\nmachine = "dgx-1v"\nhosts = "n[2-3]"\n'
    )
    assert main(["map", "llm:tp=8,dp=2", "-o", "app.place"]) == 0
    network = f"network slurm:{conf} ({file}:1)"
    words = f"machine dgx-1v ({file}:2), {network}, hosts n[2-3] ({file}:3)"
    assert f"Settings  {words}\n" in capsys.readouterr().out
    assert load_placement("app.place").metadata["settings"] == words
    assert main(["map", "llm:tp=8,dp=2", "--json", "--hosts", "n[3-4]", "--node", "dgx-1v"]) == 0
    assert list(json.loads(capsys.readouterr().out)["settings"]) == ["network"]
    file.write_text('metric = "bandwidth"\nlauncher = "openmpi"\n')
    assert main(["compare", "app.place", "--json"]) == 0
    assert list(json.loads(capsys.readouterr().out)["settings"]) == ["metric"]
    assert main(["export", "app.place"]) == 0
    assert f"Settings  launcher openmpi ({file}:2)" in capsys.readouterr().err


@pytest.mark.parametrize("home", ["", "here", None])
def test_no_file_of_this_folder_is_a_user_s(project, home, monkeypatch, capsys):
    for base in (project / "inner", project / "inner" / "here"):
        (base / ".config" / "toposeat").mkdir(parents=True)
        (base / ".config" / "toposeat" / "config.toml").write_text("broken")
    if home is None:
        monkeypatch.delenv("HOME")
    else:
        monkeypatch.setenv("HOME", home)
    monkeypatch.setenv("TOPOSEAT_MACHINE", "dgx-1v")
    assert main(MAP) == 0
    assert json.loads(capsys.readouterr().out)["topology"] == "dgx-1v"


def test_the_folder_of_the_cache_is_handed_on(project):
    of_user(project, 'cache = "~/kept"\n')
    assert main([*MAP, "-t", "dgx-1v"]) == 0
    assert os.environ["TOPOSEAT_CACHE_DIR"] == str(project.parent / "kept")
