"""InfiniBand fabrics, recorded; texts of them: `cases/network_fabric.txt`."""

import pytest

from toposeat.errors import InputError, UsageError
from toposeat.model.network import NetworkKind
from toposeat.topology import is_network, read_network, read_topology

# Every file: hosts, switches, links between switches; or why it is refused.
RECORDED = {
    "slurm-topology/slurm-man-topology.yaml": (4, 3, 2),
    "slurm-topology/slurm_conf-topology.conf": (4, 1, 0),
    "ibnetdiscover/exporter-test.txt": (3, 5, 3),
    "ibnetdiscover/exporter-test2.txt": (1, 5, 0),
    "ibnetdiscover/exporter-test3.txt": "no adapter of a host is connected to a switch",
    "ibnetdiscover/ibsim-net.txt": (2, 2, 1),
    "ibnetdiscover/ibsim-net.1.txt": (2, 1, 0),
    "ibnetdiscover/ibsim-net.2sw2path.txt": (2, 2, 1),
    "ibnetdiscover/ibsim-net.2sw2path4hca.txt": (4, 2, 1),
    "ibnetdiscover/superbench-faked.txt": (10, 8, 7),
}
FOLDERS = ("slurm-topology", "ibnetdiscover")


@pytest.mark.parametrize("name", RECORDED)
def test_recorded_files_are_read_or_refused_for_a_reason(shared_dir, name):
    expected = RECORDED[name]
    path = shared_dir / "machines" / name
    if isinstance(expected, str):
        with pytest.raises(InputError, match=expected) as error:
            read_network(path)
        assert error.value.hint
        return
    network = read_network(path)
    assert (len(network.hosts), len(network.switches), len(network.links)) == expected


def test_no_recorded_file_is_forgotten(shared_dir):
    machines = shared_dir / "machines"
    found = {f"{folder}/{p.name}" for folder in FOLDERS for p in (machines / folder).iterdir()}
    unseen = found - set(RECORDED)
    for name in unseen:  # files that only some copies of the data have
        try:
            assert read_network(machines / name).hosts
        except InputError as error:
            assert error.hint, name


def test_a_director_switch_has_three_levels_and_sharp_nodes_are_no_hosts(shared_dir):
    network = read_network(shared_dir / "machines/ibnetdiscover/superbench-faked.txt")
    assert network.kind is NetworkKind.TREE
    assert {rate.value for link in network.links if (rate := link.bytes_per_s)} == {25e9}
    assert all(host.name.startswith("RMD7010919") or host.name.startswith("RMD70109190")
               for host in network.hosts)  # fmt: skip
    assert [len(set(level.group_of_host)) for level in network.levels] == [1, 2, 5]
    assert any("SHARP" in line for line in network.report)


def test_cables_side_by_side_are_one_link(shared_dir):
    network = read_network(shared_dir / "machines/ibnetdiscover/ibsim-net.2sw2path.txt")
    assert [link.count for link in network.links] == [2]


@pytest.mark.parametrize(
    "text", ['{"instances": [{"id": "a"}]}', "switches:\n  s1:\n    switches: [s2]\n"]
)
def test_what_topograph_writes_is_refused_with_what_to_write(tmp_path, text):
    (tmp_path / "file").write_text(text)
    assert not is_network(str(tmp_path / "file"))
    with pytest.raises(InputError, match="of Topograph: not read") as error:
        read_topology(tmp_path / "file")
    assert "SwitchName=" in error.value.hint


def test_no_file_of_a_machine_is_taken_for_a_network(shared_dir):
    for path in sorted((shared_dir / "machines").rglob("*")):
        if path.is_file():
            expected = path.parent.name in FOLDERS
            assert is_network(str(path)) == expected, path


def test_a_network_is_no_machine_and_says_so(shared_dir):
    path = shared_dir / "machines/ibnetdiscover/superbench-faked.txt"
    with pytest.raises(InputError, match=r"a network of hosts \(ibnetdiscover\)") as error:
        read_topology(path)
    assert "--node" in error.value.hint


@pytest.mark.parametrize("value", ["2\n\n3", "9" * 5000, "1:" + " " * 5000])
def test_shapes_are_refused_in_one_line(value):
    with pytest.raises(UsageError, match="bandwidth") as error:
        read_network(f"fattree:4:2:2,bandwidth={value}")
    assert "\n" not in error.value.message
    assert len(error.value.message) < 500
