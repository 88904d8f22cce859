"""Machine files: the language, the place of what is wrong, a user's own folder, hostile input."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toposeat.cli.main import main
from toposeat.errors import InputError, ToposeatError, UsageError
from toposeat.model.quantity import Quantity, Source
from toposeat.topology import catalogue_names, read_topology
from toposeat.topology.catalogue import (
    machine_file,
    machine_path,
)
from toposeat.topology.catalogue.assembly import members

SMALL = """\
description = "two pairs"
sources = ["nobody: a test"]
pcie_generation = 4

[devices]
name = "NVIDIA A40"
vendor = "nvidia"
count = 4
memory_gib = 48
link = "nvlink3-bridge"

[numa]
nodes = [0, 1]
cpus = ["0-7", "8-15"]

[nics]
names = ["mlx5_0", "mlx5_1"]
gigabits_per_s = 200

[[links]]
lanes = 4
pairs = [[0, 1], [2, 3]]

[[links]]
tree = [{ bridges = 1 }, { devices = 2, nics = 1 }]

[[links]]
type = "smp"
from = "numa0"
to = "numa1"
bytes_per_s = { value = 31e9, source = "measured" }
"""
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


def test_a_file_says_devices_adapters_and_links(tmp_path):
    machine = read_topology(written(tmp_path, SMALL))
    assert (machine.name, machine.origin, machine.report) == ("mine", "machine file", ())
    assert [d.numa_node for d in machine.devices] == [0, 0, 1, 1]
    assert [d.cpus for d in machine.devices] == ["0-7", "0-7", "8-15", "8-15"]
    assert [n.bytes_per_s for n in machine.nics] == [Quantity(25e9)] * 2
    route = machine.route_of_pair
    assert route["gpu0", "gpu1"].path_class == "NVL"
    assert route["gpu0", "nic0"].path_class == "PHB"
    assert route["gpu1", "gpu2"].path_class == "SYS"
    smp = machine.link_of_id["smp:numa0-numa1"]
    assert smp.forward_bytes_per_s == Quantity(31e9, Source.MEASURED)


def test_like_completes_a_file(tmp_path):
    text = 'like = "dgx-1v"\ndescription = "ours"\n[nics]\ngigabits_per_s = 200\n'
    ours, base = read_topology(written(tmp_path, text)), read_topology("dgx-1v")
    assert ours.description == "ours"
    assert ours.devices == base.devices
    assert ours.links == base.links
    assert [n.bytes_per_s for n in ours.nics] == [Quantity(25e9)] * 4
    assert [n.name for n in ours.nics] == [n.name for n in base.nics]


def test_sets_of_parts():
    assert members("gpu0-2,5") == ["gpu0", "gpu1", "gpu2", "gpu5"]
    assert members("numa3,1") == ["numa3", "numa1"]
    assert members("tray08-10") == ["tray08", "tray09", "tray10"]


def test_one_machine_reads_its_own_file_alone(monkeypatch):
    from toposeat.topology import catalogue

    read = []
    real = machine_file.tables_of

    def watched(path):
        read.append(path.stem)
        return real(path)

    monkeypatch.setattr(machine_file, "tables_of", watched)
    catalogue._built_in.cache_clear()
    read_topology("k80-16")
    read_topology("hgx-b300")
    assert read == ["k80-16", "hgx-b300", "hgx-h100"]


@pytest.mark.parametrize(
    ("text", "cause", "hint"),
    [
        ("[devices", "no valid TOML", "correct that value"),
        (f"a = {'[' * 5000}", "no valid TOML", "correct that value"),
        (f"a = {'9' * 5000}", "no valid TOML", "correct that value"),
        (
            SMALL.replace("memory_gib", "memory_gb"),
            "devices: unknown key 'memory_gb'",
            "did you mean 'memory_gib'?",
        ),
        (
            SMALL.replace("gigabits_per_s", "speed"),
            "nics: unknown key 'speed'",
            "correct that value",
        ),
        (SMALL.replace("nics = 1", "nic = 1"), "'nic'", "did you mean 'nics'?"),
        (SMALL + "low = 3\n", "'low'", "did you mean"),
        (SMALL.replace('31e9, source = "', '1, low = 0, source = "'), "'low'", ""),
        (SMALL.replace("count = 4", 'count = "4"'), "devices.count: Expected `int`, got `str`", ""),
        (SMALL.replace("31e9", "nan"), "Expected `float` > 0.0", ""),
        (SMALL.replace("count = 4\n", ""), "missing key `count`", ""),
        (SMALL.replace("[2, 3]]", "[2, 4]]"), "links[0]: there is no gpu4", ""),
        (SMALL.replace("[2, 3]]", "[2, 2]]"), "to itself", ""),
        (SMALL.replace('"numa1"', '"numa2"'), "there is no numa2", ""),
        (SMALL.replace('"numa1"', '"numa0-3"'), "there is no numa2", ""),
        (SMALL.replace('"smp"', '"upi"'), "no type of link 'upi'; known are nvlink1", ""),
        (SMALL.replace("devices = 2", "devices = 3"), "more places than there are dev", ""),
        (SMALL.replace("bridges = 1", "bridges = 1, nics = 1"), "a level of a tree has", ""),
        (SMALL.replace("nodes = [0, 1]", "nodes = [0, 1, 2]"), "numa.cpus: 2 cpus for 3 nodes", ""),
        (SMALL.replace('"0-7"', '"0-"'), "not a CPU list", ""),
        (
            SMALL.replace("count = 4", 'count = 4\npci_bus_ids = ["1"]'),
            "1 pci_bus_ids for 4 devices",
            "",
        ),
        (SMALL + '[[pairs]]\nfrom = "gpu8"\n', "there is no device gpu8", ""),
        (SMALL + "[[pairs]]\ntogether = 3\n", "3 groups cannot be shared out", ""),
        (SMALL.replace("count = 4", 'hosts = "n"'), "unknown key 'hosts'", ""),
        ('like = "dgx1v"\n', "no machine 'dgx1v'", "did you mean dgx-1v"),
        ('like = "dgx-1v"\n[devices]\ncount = 6\n', "8 pci_bus_ids for 6 devices", ""),
        ('like = "dgx-1v"\n[numa]\nnodes = [0]\n', "2 cpus for 1 nodes", ""),
    ],
)
def test_what_is_wrong_is_told_with_its_place(tmp_path, text, cause, hint):
    path = written(tmp_path, text)
    with pytest.raises(InputError) as caught:
        read_topology(path)
    assert caught.value.message.startswith(f"{path}: ")
    assert cause in caught.value.message
    assert caught.value.hint.startswith(hint)


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ("#" * (machine_file.MAX_CHARACTERS + 1), "more than 32768 characters"),
        (SMALL.replace("pcie_gen", 'hosts = "n0-99"\npcie_gen'), "more than 256 devices"),
        (SMALL.replace("pcie_gen", 'hosts = "n0-9999"\npcie_gen'), "more than 4096 parts"),
        (
            SMALL.replace("1 }, { devices = 2, nics", "256 }, { switches = 256 }, { switches"),
            "more than 4096",
        ),
        (SMALL + '[[links]]\neach_to_each = ["gpu' + "0-3," * 200 + '0"]\n', "to itself"),
    ],
)
def test_a_file_cannot_make_too_much(tmp_path, text, cause):
    with pytest.raises(InputError, match=cause):
        read_topology(written(tmp_path, text))


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
