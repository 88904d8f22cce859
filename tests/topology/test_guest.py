"""A host's wiring under the bus ids of a guest: by number, by pairs, and what is refused."""

import xml.etree.ElementTree as ET

import pytest

from tests.topology.case_files import texts_of
from tests.topology.test_nccl_file import stops_of
from toposeat.cli.main import main
from toposeat.errors import InputError, UsageError
from toposeat.topology import nccl_xml, read_topology, with_guest

HOST = texts_of("nccl_xml", "a host of three GPUs")["node.xml"]
GUEST = "index, pci.bus_id\n0, 00000000:06:00.0\n1, 00000000:07:00.0\n"


@pytest.fixture
def host(tmp_path):
    path = tmp_path / "host.xml"
    path.write_text(HOST)
    return path


def written(path, text):
    path.write_text(text)
    return path


def with_bus_ids_of(host, guest):
    found = with_guest([str(host), str(guest)])
    assert found is not None
    return found[1]


def test_each_device_of_the_guest_takes_the_place_of_its_number(host, tmp_path):
    guest = written(tmp_path / "guest.csv", GUEST)
    machine = with_bus_ids_of(host, guest)
    assert [(d.index, d.pci_bus_id, d.numa_node) for d in machine.devices] == [
        (0, "0000:06:00.0", 0),
        (1, "0000:07:00.0", 1),
    ]
    root = ET.fromstring(nccl_xml(machine)[0])
    ids = [pci.get("busid") for pci in root.iter("pci")]
    assert len(set(ids)) == len(ids)  # the switch and the NIC of the same ids have none any more
    assert root.find("cpu/pci[@busid='0000:16:00.0']/pci[@busid='0000:06:00.0']/gpu") is not None
    assert [link.get("target") for link in root.iter("nvlink")] == ["fffffff:ffff:ff"] * 2
    assert [net.get("name") for net in root.iter("net")] == ["mlx5_0"]
    assert stops_of(root, {"0000:07:00.0"}) == []


def test_pairs_say_which_device_is_which(host, tmp_path):
    """Numbers follow the guest's bus ids."""
    text = "# host guest\n98:00.0 0000:0b:00.0\n\n00000000:A8:00.0, 0000:05:00.0  # last\n"
    machine = with_bus_ids_of(host, written(tmp_path / "pairs", text))
    assert [(d.index, d.pci_bus_id, d.numa_node) for d in machine.devices] == [
        (0, "0000:05:00.0", 1),
        (1, "0000:0b:00.0", 1),
    ]


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ("0000:18:00.0 0000:06:00.0\n98:00.0\n", ":2: not two PCI bus ids"),
        ("0000:18:00.0 0000:06:00.0\n0000:99:00.0 0000:07:00.0\n", "has no GPU 0000:99:00.0"),
        ("18:00.0 06:00.0\n98:00.0 06:00.0\n", ":2: a GPU is named twice"),
        ("18:00.0 06:00.0 07:00.0\n", "format"),
    ],
)
def test_a_line_that_names_no_pair_is_refused(text, cause, host, tmp_path):
    with pytest.raises(InputError, match=cause) as error:
        with_bus_ids_of(host, written(tmp_path / "pairs", text))
    assert error.value.hint


def test_a_guest_that_does_not_fit_is_refused(host, tmp_path):
    guest = written(tmp_path / "guest.csv", f"{GUEST}7, 00000000:0d:00.0\n")
    with pytest.raises(UsageError, match="a GPU 7, and the host's are 0, 1, 2") as error:
        with_bus_ids_of(host, guest)
    assert error.value.hint


def test_sources_of_the_host_alone_have_no_guest(host, tmp_path):
    assert with_guest([str(host)]) is None
    names = written(tmp_path / "names.csv", "index, name\n0, NVIDIA H200\n")
    assert with_guest([str(host), str(names)]) is None
    same = written(tmp_path / "same.csv", "index, pci.bus_id\n0, 00000000:18:00.0\n")
    assert with_guest([str(host), str(same)]) is None


def test_the_command_takes_a_list_or_pairs(host, tmp_path, capsys):
    guest = written(tmp_path / "guest.csv", GUEST)
    command = ["discover", "-t", str(host), "--format", "nccl"]
    assert main([*command, "-t", str(guest)]) == 0
    by_index, err = capsys.readouterr()
    assert "1 of the host's 3 GPUs are not in the guest" in err
    pairs = written(tmp_path / "pairs", "18:00.0 06:00.0\n98:00.0 07:00.0\n")
    assert main([*command, "-t", str(pairs)]) == 0
    assert capsys.readouterr().out == by_index
    assert main(["discover", "-t", str(host), "-t", str(guest)]) == 1  # not one machine
    assert "--format nccl" in capsys.readouterr().err


def test_the_wiring_of_a_host_of_eight_for_its_guest(shared_dir, tmp_path):
    case = shared_dir / "cases/topology/25-nccl-file-for-a-guest"
    if not case.is_dir():
        pytest.skip("no such case beside the checkout")
    sources = ["-t", str(case / "host.xml"), "-t", str(case / "guest.csv")]
    path = tmp_path / "guest.xml"
    command = ["discover", *sources, "--format", "nccl", "-o", str(path)]
    assert main(command) == 0
    root = ET.fromstring(path.read_text())
    gpus = [pci for pci in root.iter("pci") if pci.find("gpu") is not None]
    assert [pci.get("busid") for pci in gpus] == [f"0000:{n:02x}:00.0" for n in range(6, 14)]
    assert {link.get("count") for link in root.iter("nvlink")} == {"18"}
    host, guest = read_topology(case / "host.xml"), read_topology(path)
    classes = {pair: route.path_class for pair, route in host.route_of_pair.items()}
    assert {pair: r.path_class for pair, r in guest.route_of_pair.items()} == classes
    for cpu in root.findall("cpu"):
        used = {pci.get("busid") for pci in cpu.iter("pci")}
        assert stops_of(root, used) == []
