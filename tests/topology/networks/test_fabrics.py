"""InfiniBand fabrics: recorded files, and what is refused."""

import re

import pytest

from toposeat.errors import InputError, UsageError
from toposeat.model.network import NetworkKind
from toposeat.topology import is_network, read_network, read_topology
from toposeat.topology.networks.ibnetdiscover import LANE_BYTES_PER_S


def read(tmp_path, text, name="file"):
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    return read_network(path)


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


def fabric(hca="n1 mlx5_0", rate="4xNDR"):
    return f"""Switch 4 "S-01"  # "leaf" enhanced port 0 lid 1 lmc 0
[1] "H-0a"[1](0a)  # "{hca}" lid 2 {rate}
[2] "H-0b"[1](0b)  # "n1 mlx5_1" lid 3 {rate}
[3] "S-02"[1]  # "spine" lid 4 2x{rate[2:]}
[4] "S-02"[2]  # "spine" lid 4 4x{rate[2:]}
"""


@pytest.mark.parametrize(("rate", "speed"), LANE_BYTES_PER_S.items())
def test_rates_of_cables(tmp_path, rate, speed):
    network = read(tmp_path, fabric(rate=f"4x{rate}"))
    (host,) = network.hosts
    assert [port.bytes_per_s.value for port in host.ports if port.bytes_per_s] == [4 * speed] * 2
    assert [port.name for port in host.ports] == ["mlx5_0", "mlx5_1"]
    (trunk,) = network.links
    assert trunk.bytes_per_s is not None
    assert (trunk.bytes_per_s.value, trunk.count) == (6 * speed, 2)


def test_a_port_with_two_cables_is_a_doubt(tmp_path):
    text = (
        'Switch 4 "S-1" # "leaf"\n[1] "H-2"[1](2) # "n1 HCA-1" lid 2 4xHDR\n\n'
        'Ca 1 "H-2" # "n1 HCA-1"\n[1](2) "S-9"[1] # lid 2 lmc 0 "leaf" lid 1 4xHDR\n'
    )
    path = tmp_path / "fabric"
    path.write_text(text)
    report = read_network(path).report
    assert any("line 5: port 1 of H-2 has another cable in line 2" in each for each in report)


def test_adapters_that_were_never_named_are_hosts_of_their_own(tmp_path):
    network = read(tmp_path, fabric(hca="MT4129 ConnectX7   Mellanox Technologies"))
    assert network.host_names == ("H-0a", "n1")


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ("ibwarn: [12] mad_rpc_open_port: can't open UMAD port\n", ":1: no switch and no adapter"),
        (fabric() + "[5] nonsense\n", ":6: unknown line"),
        (fabric() + fabric(), ":6: S-01 is described again"),
        ('Switch 8 "Switch1"\n[1] "Hca1"[1]\n', "Hca1 is not described"),
        ('Ca 1 "H-1" # "n1 HCA-1"\n[1](1) "H-2"[1] # lid 1 lmc 0 "n2" lid 2 4xEDR\n', "no adapter"),
    ],
)
def test_fabrics_that_are_refused(tmp_path, text, cause):
    with pytest.raises(InputError, match=re.escape(cause)) as error:
        read(tmp_path, text)
    assert error.value.hint


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
