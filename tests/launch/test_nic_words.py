"""Words for NICs, against the rules that the libraries document."""

import pytest

from toposeat.launch.nic_words import cray_mapping, other_nics, slingshot_number
from toposeat.model.placement import Seat


def seats(*nics):
    return [Seat(rank=i, local_rank=i, index=i, nic=nic) for i, nic in enumerate(nics)]


def test_the_table_of_cray_mpich_is_as_in_the_guides():
    """Two ranks an adapter, as sites print it; the reversed one of Perlmutter."""
    eight = seats(*(f"cxi{i // 2}" for i in range(8)))
    assert cray_mapping(eight) == "0:0,1; 1:2,3; 2:4,5; 3:6,7"
    assert cray_mapping(seats("cxi3", "cxi2", "cxi1", "cxi0")) == "0:3; 1:2; 2:1; 3:0"
    assert cray_mapping(seats("hsn0", "hsn0")) == "0:0,1"
    assert cray_mapping(seats("cxi0", None)) is None
    assert cray_mapping(seats("mlx5_0")) is None


def test_numbers_are_those_of_slingshot_alone():
    names = ("cxi0", "hsi3", "cxi10", "mlx5_0", "cxi", "cxi0:1", "hfi1_0")
    assert [slingshot_number(name) for name in names] == [0, 3] + [None] * 5


MAPPING, NUMBER = "MPICH_OFI_NIC_MAPPING", "MPIR_CVAR_CH4_OFI_PREF_NIC"


@pytest.mark.parametrize(
    ("nic", "variables", "others", "is_named"),
    [
        ("mlx5_1", {"UCX_NET_DEVICES": "mlx5_1:1", "PSM3_NIC": "mlx5_1"}, [], True),
        ("mlx5_1", {"UCX_NET_DEVICES": "mlx5_10:1"}, ["UCX_NET_DEVICES=mlx5_10:1"], False),
        ("mlx5_1:2", {"UCX_NET_DEVICES": "mlx5_0:1,mlx5_1:1"}, [], True),
        ("mlx5_1", {"UCX_NET_DEVICES": "mlx5_0:1", "PSM3_NIC": "mlx5_1"}, [0], True),
        ("bond0", {"UCX_NET_DEVICES": "bond0", "PSM3_NIC": "bond0"}, [], True),
        ("cxi1", {"MPICH_OFI_NIC_POLICY": "NUMA", "I_MPI_MULTIRAIL": "1"}, [], False),
        ("cxi1", {MAPPING: "0:0-2; 1:3", NUMBER: "1"}, [], True),
        ("cxi1", {MAPPING: "0:0-2; 1:4"}, [f"{MAPPING}=0:0-2; 1:4"], False),
        ("cxi0", {MAPPING: "0:0-2; 1:3", NUMBER: "0"}, [f"{MAPPING}=0:0-2; 1:3"], True),
        ("cxi1", {MAPPING: "what?"}, [f"{MAPPING}=what?"], False),
        ("mlx5_1", {}, [], False),
        ("hfi1_1", {"FI_OPX_HFI_SELECT": "1", "HFI_UNIT": "1"}, [], True),
        ("hfi1_1", {"FI_OPX_HFI_SELECT": "0"}, [0], False),
        ("hfi1_1", {"FI_OPX_HFI_SELECT": "numa:0:0,numa:1:1"}, [0], False),
        ("bond0", {"FI_TCP_IFACE": "bond1"}, [0], False),
    ],
)
def test_what_variables_say_is_read_back(nic, variables, others, is_named):
    """Of local rank 3. 0 stands for the first of the variables."""
    first = next((f"{name}={value}" for name, value in variables.items()), "")
    expected = [first if other == 0 else other for other in others]
    assert other_nics(nic, 3, variables) == (expected, is_named)
