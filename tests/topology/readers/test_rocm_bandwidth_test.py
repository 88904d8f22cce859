"""rocm-bandwidth-test over recorded runs: directions, access and distances as they were printed."""

from math import isnan

import pytest

from tests.topology.readers.recorded import bonds, facts_of, facts_of_text, peers, row_of

FOLDER = "machines/rocm-bandwidth-test"


def test_no_peer_access_is_known_and_no_number_invented(shared_dir):
    facts = facts_of(shared_dir / FOLDER / "2gpu-mi50-noP2P.txt")
    assert [d.pci_bus_id for d in facts.devices] == ["0000:19:00.0", "0000:67:00.0"]
    assert [d.numa_node for d in facts.devices] == [0, 0]
    assert dict(peers(facts)) == {(0, 1): False, (1, 0): False}
    (uni,) = facts.numbers  # the other direction has numbers of host copies only
    assert isnan(uni.values[0, 1])
    assert isnan(uni.values[1, 0])
    # The program counts a copied byte as read and written.
    assert uni.values[0, 0] == pytest.approx(696.717e9 / 2)
    # Row is source: the CPU writes 13.750 GB/s into GPU 0, which sends 14.280 back.
    host = {row_of(facts)[h.device]: (h.to_device, h.from_device) for h in facts.host_copies}
    assert host == {
        0: (pytest.approx(13.750e9), pytest.approx(14.280e9)),
        1: (pytest.approx(13.769e9), pytest.approx(14.280e9)),
    }
    assert bonds(facts) == {}


def test_names_and_anonymised_uuids(shared_dir):
    facts = facts_of(shared_dir / FOLDER / "2gpu-7900xtx-noP2P.txt")
    assert {d.name for d in facts.devices} == {"Radeon RX 7900 XTX"}
    assert [d.uuid for d in facts.devices] == [None, None]  # "GPU-XX" twice
    assert [d.pci_bus_id for d in facts.devices] == ["0000:83:00.0", "0000:03:00.0"]


def test_hive_on_the_second_socket(shared_dir):
    facts = facts_of(shared_dir / FOLDER / "4gpu-mi100-xgmi-hive.txt")
    assert [d.numa_node for d in facts.devices] == [1, 1, 1, 1]
    assert set(bonds(facts)) == {(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)}
    assert facts.numbers == ()


def test_four_memory_nodes_and_empty_names(shared_dir):
    facts = facts_of(shared_dir / FOLDER / "4gpu-nps4-distances.txt")
    assert [d.numa_node for d in facts.devices] == [0, 1, 2, 3]
    assert [d.pci_bus_id for d in facts.devices] == [
        "0000:c9:00.0", "0000:87:00.0", "0000:49:00.0", "0000:09:00.0"
    ]  # fmt: skip
    assert len(bonds(facts)) == 6  # distance 15 is xGMI though no link table was printed
    assert all(peers(facts).values())


PAIR = """
          Device: 0,  CPU A
          Device: 1,  CPU B
          Device: 2,  AMD Instinct MI100,  GPU-0123456789abcdef,  c1:0.0
          Device: 3,  AMD Instinct MI100,  GPU-fedcba9876543210,  c6:0.0

          Unidirectional copy peak bandwidth GB/s

          D/D       0           1           2           3

          0         N/A         N/A         28.4        24.9

          1         N/A         N/A         25.0        28.5

          2         28.5        11.3        1000.0      49.0

          3         25.0        28.6        47.5        1000.0


          Bidirectional copy peak bandwidth GB/s

          D/D       0           1           2           3

          0         N/A         N/A         40.0        39.0

          1         N/A         N/A         39.0        40.0

          2         40.0        39.0        N/A         90.0

          3         39.0        40.0        90.0        N/A
"""


def test_directions_are_never_made_symmetric():
    facts = facts_of_text(PAIR)
    uni, both = facts.numbers
    assert (uni.values[0, 1], uni.values[1, 0]) == (pytest.approx(49e9), pytest.approx(47.5e9))
    assert not uni.both_ways
    assert both.both_ways
    assert both.values[0, 1] == pytest.approx(90e9)
    assert {(row_of(facts)[h.device], h.numa_node): h.from_device for h in facts.host_copies}[
        0, 1
    ] == pytest.approx(11.3e9)
    assert facts.devices[0].uuid == "GPU-0123456789abcdef"


def test_a_host_copy_of_zero_is_not_known():
    facts = facts_of_text(PAIR.replace("28.4 ", "0.0  "))
    first = facts.host_copies[0]
    assert first.to_device is None
    assert first.from_device == pytest.approx(28.5e9)
