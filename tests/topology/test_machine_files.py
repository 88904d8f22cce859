"""Machine files: a user's own folder, hostile input; their language: `cases/machine_file.txt`."""

import json
import re
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.processes import ran
from tests.topology.case_files import texts_of
from toposeat.cli.main import main
from toposeat.errors import InputError, ToposeatError, UsageError
from toposeat.topology import catalogue_names, machine_path, read_topology

SMALL = texts_of("machine_file", "two pairs")["mine.toml"]
NAMES = catalogue_names()
TEXTS = {name: path.read_text() for name in NAMES if (path := machine_path(name)) and path.exists()}


@pytest.fixture
def own(tmp_path, monkeypatch):
    """Writes a machine file into the user's own folder."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    folder = tmp_path / "config" / "toposeat" / "machines"
    folder.mkdir(parents=True)

    def write(name, text):
        path = folder / f"{name}.toml"
        path.write_text(text)
        return path

    return write


def written(folder, text):
    path = folder / "mine.toml"
    path.write_text(text)
    return path


def test_one_machine_reads_its_own_file_alone():
    program = (
        "import sys, toposeat\n"
        "sys.addaudithook(lambda what, told: what == 'open' and print(told[0]))\n"
        "toposeat.read_topology('k80-16')\n"
        "toposeat.read_topology('hgx-b300')\n"
    )
    opened = ran([sys.executable, "-c", program], check=True).stdout
    names = re.findall(r"([\w-]+)\.toml$", opened, re.MULTILINE)
    assert names == ["k80-16", "hgx-b300", "hgx-h100"]


def test_a_set_is_numbered_as_it_is_written():
    assert read_topology("gb200-nvl72").hosts == tuple(f"tray{n:02}" for n in range(18))


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        (f"a = {'[' * 5000}", "no valid TOML"),
        (f"a = {'9' * 5000}", "no valid TOML"),
        ("#" * 32769, "more than 32768 characters"),
    ],
)
def test_a_text_that_is_too_long_or_too_deep(tmp_path, text, cause):
    path = written(tmp_path, text)
    with pytest.raises(InputError, match=cause) as caught:
        read_topology(path)
    assert caught.value.message.startswith(f"{path}: ")


def test_a_users_machine_is_found_by_its_name(own):
    own("Box", SMALL)
    own("box-2", 'like = "Box"\n[devices]\nmemory_gib = 24\n')
    assert read_topology("Box").name == "Box"
    assert read_topology("box-2").devices[0].memory_bytes == 24 << 30
    with pytest.raises(UsageError) as caught:
        read_topology("box-3")
    assert "box-2" in caught.value.hint


def test_a_users_machine_never_stands_in_for_a_known_one(own):
    path = own("dgx-1v", SMALL)
    own("hgx-h100", SMALL)
    assert len(read_topology("hgx-b300").devices) == 8
    with pytest.raises(UsageError, match=r"two machines are called dgx-1v: the catalogue's and /"):
        read_topology("dgx-1v")
    assert len(read_topology(path).devices) == 4
    assert len(read_topology("dgx-2").devices) == 16


def test_machines_that_are_like_each_other_are_refused(own):
    path = own("a", 'like = "b"\n')
    own("b", 'description = "x"\nlike = "a"\n')
    with pytest.raises(
        InputError, match=r"[ab]\.toml: like: too many machines build on one another"
    ):
        read_topology(path)


def test_the_list_says_where_each_is_from(own, capsys):
    path, bad, taken = own("box", SMALL), own("bad", "x = 1"), own("dgx-2", SMALL)
    assert main(["discover", "--list"]) == 0
    shown = capsys.readouterr()
    row = next(line for line in shown.out.splitlines() if line.startswith("box "))
    assert "4 x A40" in row
    assert " yours " in row
    assert str(path) in "".join(shown.out.split())  # folded in its column
    assert next(x for x in shown.out.splitlines() if x.startswith("dgx-2 ")).count("built in") == 1
    assert f"warning: {bad}: unknown key 'x'" in shown.err
    assert f"the catalogue's and {taken}" in shown.err
    assert main(["discover", "--list", "--json"]) == 0
    entries = json.loads(capsys.readouterr().out)["entries"]
    assert {each["name"]: each["where"] for each in entries} == {
        **dict.fromkeys(NAMES, "built in"),
        "box": str(path),
    }


def test_no_folder_and_a_relative_one_are_no_machines(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "nobody"))
    for value in ("", "config"):
        monkeypatch.setenv("XDG_CONFIG_HOME", value)
        assert machine_path("box") is None
        assert machine_path("dgx-1v") is not None
    for name in ("", "../machines/dgx-1v", "/etc/passwd", "a" * 4000, "a\0b", ".dgx-1v"):
        assert machine_path(name) is None


@given(data=st.data())
def test_a_damaged_file_is_a_machine_or_an_error_with_its_path(data, tmp_path_factory):
    """Lines of shipped files lost, doubled or swapped, words changed."""
    lines = TEXTS[data.draw(st.sampled_from(NAMES))].splitlines()
    for _ in range(data.draw(st.integers(1, 4))):
        i, j = (data.draw(st.integers(0, len(lines) - 1)) for _ in range(2))
        match data.draw(st.sampled_from(["lose", "double", "swap", "number", "word"])):
            case "lose":
                lines[i] = ""
            case "double":
                lines.insert(j, lines[i])
            case "swap":
                lines[i], lines[j] = lines[j], lines[i]
            case "number":
                new = data.draw(st.sampled_from(["-1", "0", "3", "1e99", "nan", "99999"]))
                lines[i] = lines[i].replace("1", new, 1).replace("2", new, 1)
            case "word":
                lines[i] = lines[i].replace("e", data.draw(st.characters(codec="utf-8")), 1)
    path = written(tmp_path_factory.mktemp("damaged"), "\n".join(lines))
    try:
        assert read_topology(path).devices
    except ToposeatError as error:
        assert str(path) in error.message
