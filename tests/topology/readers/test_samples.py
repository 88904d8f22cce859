"""A short sample of our own for every format: `cases/formats.txt` says what is read of each.

Written from what the formats' documentation and sources say, none copied from a recorded file.
"""

import tarfile

import pytest

from tests.topology.case_files import cases
from tests.topology.readers.recorded import FORMATS, TREES, format_name
from toposeat.errors import InputError
from toposeat.model.topology import PathClass
from toposeat.topology import read_topologies, read_topology

SAMPLES = {name: case.files["sample"] for name, case in cases("formats").items()}
UUIDS = ("GPU-00000000-1111-2222-3333-000000000000", "GPU-00000000-1111-2222-3333-000000000001")


@pytest.mark.parametrize("name", SAMPLES)
def test_a_sample_is_known_whatever_its_ends_of_lines(name, tmp_path):
    files = cases("formats")[name].files
    found = []
    for folder, mark, end in (("unix", b"", "\n"), ("windows", b"\xef\xbb\xbf", "\r\n")):
        (tmp_path / folder).mkdir()
        paths = [tmp_path / folder / file for file in files]
        for path, text in zip(paths, files.values(), strict=True):
            path.write_bytes(mark + text.replace("\n", end).encode())
        assert format_name(paths[-1]) == name
        found.append(read_topologies(paths))
    assert found[0] == found[1]
    if len(paths) > 1:
        with pytest.raises(InputError, match="says too little to be a machine by itself"):
            read_topology(paths[-1])


def test_no_format_is_without_a_sample():
    assert {each.name for each in FORMATS} == {*SAMPLES, "toposeat topology JSON"}
    assert [tree.name for tree in TREES] == ["saved sysfs or KFD tree"]  # below


def test_a_saved_tree(tmp_path):
    """Two GPUs below one root port each, in an archive with the links that sysfs has."""
    sysfs = tmp_path / "node" / "sys"
    for i in range(2):
        device = sysfs / f"devices/pci0000:{i}0/0000:{i}0:01.0/0000:{i}1:00.0"
        device.mkdir(parents=True)
        for name, text in {"vendor": "0x10de", "class": "0x030200", "numa_node": str(i)}.items():
            (device / name).write_text(text + "\n")
        link = sysfs / f"bus/pci/devices/0000:{i}1:00.0"
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(f"../../../devices/pci0000:{i}0/0000:{i}0:01.0/0000:{i}1:00.0")
    for node in range(2):
        (sysfs / f"devices/system/node/node{node}").mkdir(parents=True)
        (sysfs / f"devices/system/node/node{node}/cpulist").write_text(f"{node}\n")
    with tarfile.open(tmp_path / "node.tar.gz", "w:gz") as tar:
        tar.add(tmp_path / "node", arcname="node")
    for path in (tmp_path / "node", tmp_path / "node.tar.gz"):
        topology = read_topology(path)
        assert [d.pci_bus_id for d in topology.devices] == ["0000:01:00.0", "0000:11:00.0"]
        assert [d.numa_node for d in topology.devices] == [0, 1]
        assert topology.route_of_pair["gpu0", "gpu1"].path_class is PathClass.SYS
