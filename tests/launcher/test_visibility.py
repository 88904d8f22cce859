"""The device variables: modes, inherited lists, vendors, and what this process can reach."""

import pytest

from tests.launcher.support import PCI, UUID, placement_text, seat_line

ORDER = "CUDA_DEVICE_ORDER"
LIST = "CUDA_VISIBLE_DEVICES"
PCI_ORDER = {ORDER: "PCI_BUS_ID"}
# Local ranks 0, 1, 2 on devices 2, 0, 3.
THREE = placement_text([seat_line(0, 2), seat_line(1, 0), seat_line(2, 3)])


def lists(launcher, *options, env=None):
    return [
        launcher.variables(THREE, *options, rank=rank, env=env).variables[LIST] for rank in range(3)
    ]


def untouched(done, env):
    names = (LIST, ORDER, "ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ZE_AFFINITY_MASK")
    return all(done.variables.get(name) == env.get(name) for name in names)


# ---- modes ----


def test_permute_gives_all_ranks_one_list_by_local_rank(launcher):
    assert lists(launcher) == ["2,0,3"] * 3
    assert launcher.variables(THREE).variables[ORDER] == "PCI_BUS_ID"


def test_mask_gives_each_rank_its_own_device(launcher):
    assert lists(launcher, "--visibility", "mask") == ["2", "0", "3"]


def test_rotate_puts_the_own_device_first_and_warns_once(launcher):
    assert lists(launcher, "--visibility=rotate") == ["2,0,1,3", "0,1,2,3", "3,0,1,2"]
    said = [launcher.variables(THREE, "--visibility=rotate", rank=rank).stderr for rank in range(3)]
    assert "RCCL" in said[0]
    assert said[1:] == ["", ""]


def test_cpu_only_leaves_the_device_variables_alone(launcher):
    env = {LIST: "3,1", "ROCR_VISIBLE_DEVICES": "1"}
    assert untouched(launcher.variables(THREE, "--visibility", "cpu-only", env=env), env)


def test_uuids_on_request(launcher):
    done = launcher.variables(THREE, "--ids", "uuid")
    assert done.variables[LIST] == ",".join(UUID[i] for i in (2, 0, 3))


def test_uuids_under_mps_because_its_server_renumbers(launcher):
    done = launcher.variables(THREE, env={"CUDA_MPS_PIPE_DIRECTORY": "/tmp/mps"})
    assert done.variables[LIST].startswith(UUID[2])


def test_numbers_follow_pci_order_whatever_the_index_says(launcher):
    backwards = ",".join(f"{i}={PCI[3 - i]}={UUID[i]}" for i in range(4))
    line = seat_line(0, 0).replace(PCI[0], PCI[3])
    done = launcher.variables(placement_text([line], devices=backwards))
    assert done.variables[LIST] == "3"


def test_without_pci_bus_ids_numbers_are_indices(launcher):
    text = placement_text([seat_line(0, 1)], devices="0=-=-,1=-=-,2=-=-").replace(PCI[1], "-")
    assert launcher.variables(text).variables[LIST] == "1"


def test_without_a_devices_line_the_seats_are_all_there_is(launcher):
    text = "\n".join(line for line in THREE.split("\n") if not line.startswith("# devices"))
    assert launcher.variables(text).variables[LIST] == "1,0,2"  # PCI ranks of devices 2, 0, 3


def test_a_gap_in_the_local_ranks_is_refused(launcher):
    text = placement_text([seat_line(0, 2), seat_line(1, 0, local_rank=2)])
    done = launcher.variables(text)
    assert untouched(done, {})
    assert "no local rank 1" in done.warnings[0]


# ---- inherited lists ----


@pytest.mark.parametrize(
    ("inherited", "expected"),
    [
        ("0,1,2,3", "2,0,3"),
        ("3,2,0", "2,0,3"),
        (" 3 , 2,0", "2,0,3"),
        (f"{UUID[3]},GPU-a,{UUID[2]}", f"{UUID[2]},{UUID[0]},{UUID[3]}"),
        ("GPU-cccc4,GPU-CCCC3,gpu-aaaa1111", f"{UUID[2]},{UUID[0]},{UUID[3]}"),
        ("3,2,0,9,1", "2,0,3"),
        ("3,2,0,-1,1", "2,0,3"),
        ("3,2,0,zero,1", "2,0,3"),
        ("3,2,0,GPU-ffff,1", f"{UUID[2]},{UUID[0]},{UUID[3]}"),
    ],
)
def test_an_inherited_list_is_permuted_inside(launcher, inherited, expected):
    done = launcher.variables(THREE, env={LIST: inherited, **PCI_ORDER})
    assert done.variables[LIST] == expected
    assert done.warnings == []


@pytest.mark.parametrize(
    ("inherited", "cause"),
    [
        ("", "this process sees no device"),
        ("-1", "this process sees no device"),
        ("NoDevFiles", "this process sees no device"),
        ("1,3", f"needs device {PCI[2]}, and this process sees {PCI[1]}, {PCI[3]} only"),
        ("2,-1,0,3", f"needs device {PCI[0]}, and this process sees {PCI[2]} only"),
        ("2,GPU-cccc,0,3", f"needs device {PCI[0]}"),  # two devices start so: no such device
        ("2,2,0,3", "names device 2 twice"),
    ],
)
def test_what_is_hidden_is_never_shown_again(launcher, inherited, cause):
    env = {LIST: inherited, **PCI_ORDER, "ROCR_VISIBLE_DEVICES": "0"}
    done = launcher.variables(THREE, env=env)
    assert untouched(done, env)
    assert len(done.warnings) == 1
    assert cause in done.warnings[0]
    strict = launcher.run(
        "-m",
        launcher.place(THREE),
        "--strict",
        "env",
        env={**env, "PMI_RANK": "0", "PMI_SIZE": "3", "MPI_LOCALRANKID": "0"},
        check=False,
    )
    assert (strict.code, strict.stdout) == (98, "")
    assert "not started: --strict and 1 warning above" in strict.stderr


def test_a_mask_of_ones_own_device_is_enough_for_mask(launcher):
    done = launcher.variables(THREE, "--visibility", "mask", rank=1, env={LIST: "0", **PCI_ORDER})
    assert done.variables[LIST] == "0"
    assert done.warnings == []


def test_uuids_that_the_placement_does_not_know_cannot_be_resolved(launcher):
    text = THREE
    for each in UUID:
        text = text.replace(each, "-")
    env = {LIST: f"{UUID[2]},{UUID[0]}"}
    done = launcher.variables(text, env=env)
    assert untouched(done, env)
    assert "is none of the devices in the placement" in done.warnings[0]


@pytest.mark.parametrize(
    ("order", "inherited", "doubted"),
    [
        (None, "3,2,0", True),
        ("FASTEST_FIRST", "3,2,0", True),
        ("PCI_BUS_ID", "3,2,0", False),
        (None, "3,2,1,0", False),  # all of them: no matter how they are counted
        (None, ",".join(UUID), False),
    ],
)
def test_integers_without_an_order_are_doubted_aloud(launcher, order, inherited, doubted):
    env = {LIST: inherited, **({ORDER: order} if order else {})}
    done = launcher.variables(THREE, env=env)
    assert done.variables[LIST] != inherited
    assert ("CUDA_DEVICE_ORDER=PCI_BUS_ID is not set" in done.stderr) == doubted


def test_a_list_given_with_E_counts_as_inherited(launcher):
    done = launcher.variables(THREE, "-E", f"{LIST}=0,2,3", "-E", f"{ORDER}=PCI_BUS_ID")
    assert done.variables[LIST] == "2,0,3"


# ---- what the driver shows this process ----


def fake_driver(root, shown, hidden_minors=()):
    for minor, pci in enumerate(PCI):
        if minor not in shown:
            continue
        folder = root / "proc/driver/nvidia/gpus" / pci
        folder.mkdir(parents=True)
        text = f"Model: \t\t {shown[minor]}\nBus Location: \t {pci}\nDevice Minor: \t {minor}\n"
        (folder / "information").write_text(text)
        (root / "dev").mkdir(exist_ok=True)
        if minor not in hidden_minors:
            (root / f"dev/nvidia{minor}").touch()


def test_in_a_container_numbers_start_at_the_first_visible_device(launcher, tmp_path):
    fake_driver(tmp_path / "root", dict.fromkeys((0, 2, 3), "X100"))
    done = launcher.variables(THREE, env={"TOPOSEAT_SYSROOT": str(tmp_path / "root")})
    assert done.variables[LIST] == "1,0,2"  # devices 2, 0, 3 among 0, 2, 3
    assert done.warnings == []


def test_a_device_without_its_device_file_is_not_there(launcher, tmp_path):
    fake_driver(tmp_path / "root", dict.fromkeys(range(4), "X100"), hidden_minors=(0,))
    done = launcher.variables(THREE, env={"TOPOSEAT_SYSROOT": str(tmp_path / "root")})
    assert LIST not in done.variables
    assert f"needs device {PCI[0]}" in done.warnings[0]


def test_a_placement_for_another_machine_changes_nothing(launcher, tmp_path):
    (tmp_path / "root/proc/driver/nvidia/gpus/0000:77:00.0").mkdir(parents=True)
    done = launcher.variables(THREE, env={"TOPOSEAT_SYSROOT": str(tmp_path / "root")})
    assert LIST not in done.variables
    assert "this process sees no device" in done.warnings[0]


@pytest.mark.parametrize(("last", "doubted"), [("X100", False), ("X200", True)])
def test_equal_devices_leave_no_doubt_about_integers(launcher, tmp_path, last, doubted):
    fake_driver(tmp_path / "root", {0: "X100", 1: "X100", 2: "X100", 3: last})
    env = {"TOPOSEAT_SYSROOT": str(tmp_path / "root"), LIST: "0,2,3"}
    assert bool(launcher.variables(THREE, env=env).warnings) == doubted


# ---- vendors ----


MIG = [f"MIG-0000000{i}-1111-2222-3333-444444444444" for i in range(3)]


def test_mig_devices_are_masked_by_uuid(launcher):
    devices = ",".join(f"{i}={PCI[0]}={MIG[i]}" for i in range(3))
    seats = [seat_line(i, 2 - i, uuid=MIG[2 - i]).replace(PCI[2 - i], PCI[0]) for i in range(3)]
    text = placement_text(seats, devices=devices)
    for rank in range(3):
        done = launcher.variables(text, rank=rank)
        assert done.variables[LIST] == MIG[2 - rank]
        assert ("visibility is mask" in done.stderr) == (rank == 0)
    inherited = launcher.variables(text, rank=1, env={LIST: f"{MIG[2]},{MIG[1]}"})
    assert inherited.variables[LIST] == MIG[1]


AMD = THREE.replace("vendor: nvidia", "vendor: amd")
INTEL = THREE.replace("vendor: nvidia", "vendor: intel")


def test_amd_gets_one_list_and_the_others_are_cleared(launcher):
    names = ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL")
    env = dict.fromkeys((*names, "ROCR_VISIBLE_DEVICES"), "0,1,2,3") | {"ZE_AFFINITY_MASK": "0"}
    done = launcher.variables(AMD, env=env)
    assert done.variables["ROCR_VISIBLE_DEVICES"] == "2,0,3"
    assert not {*names, "ZE_AFFINITY_MASK", ORDER} & set(done.variables)


@pytest.mark.parametrize(
    ("env", "expected"),
    [
        ({"ROCR_VISIBLE_DEVICES": "0,2,3"}, "2,0,3"),
        ({"HIP_VISIBLE_DEVICES": "0,2,3"}, "2,0,3"),
        ({"ROCR_VISIBLE_DEVICES": f"{UUID[3]},{UUID[2]},{UUID[0]}"}, None),
    ],
)
def test_amd_lists_are_permuted_inside(launcher, env, expected):
    done = launcher.variables(AMD, env=env)
    by_uuid = ",".join(UUID[i] for i in (2, 0, 3))
    assert done.variables["ROCR_VISIBLE_DEVICES"] == (expected or by_uuid)
    assert "HIP_VISIBLE_DEVICES" not in done.variables


@pytest.mark.parametrize(
    "env",
    [
        {"ROCR_VISIBLE_DEVICES": "2,3,0", "HIP_VISIBLE_DEVICES": "0,1"},
        {"ROCR_VISIBLE_DEVICES": "0,2,3,7"},
        {"ROCR_VISIBLE_DEVICES": "1"},
    ],
)
def test_amd_lists_in_doubt_are_left_alone(launcher, env):
    done = launcher.variables(AMD, env=env)
    assert untouched(done, env)
    assert len(done.warnings) == 1


def test_intel_masks_say_the_hierarchy_too(launcher):
    done = launcher.variables(INTEL, "--visibility", "mask", env={LIST: "0"})
    expected = {
        "ZE_AFFINITY_MASK": "2",
        "ZE_FLAT_DEVICE_HIERARCHY": "FLAT",
        "ZE_ENABLE_PCI_ID_DEVICE_ORDER": "1",
    }
    assert done.variables.items() >= expected.items()
    assert LIST not in done.variables


def test_intel_keeps_combined_and_refuses_composite(launcher):
    kept = launcher.variables(
        INTEL, "--visibility", "mask", env={"ZE_FLAT_DEVICE_HIERARCHY": "COMBINED"}
    )
    assert kept.variables["ZE_FLAT_DEVICE_HIERARCHY"] == "COMBINED"
    refused = launcher.variables(
        INTEL, "--visibility", "mask", env={"ZE_FLAT_DEVICE_HIERARCHY": "COMPOSITE"}
    )
    assert "ZE_AFFINITY_MASK" not in refused.variables
    assert "COMPOSITE" in refused.warnings[0]


def test_intel_cannot_be_permuted_by_its_mask(launcher):
    done = launcher.variables(INTEL)
    assert "ZE_AFFINITY_MASK" not in done.variables
    assert "use --visibility mask" in done.warnings[0]
    in_order = placement_text([seat_line(0, 0), seat_line(1, 1)], vendor="intel")
    assert launcher.variables(in_order).variables["ZE_AFFINITY_MASK"] == "0,1"


def test_an_unknown_vendor_gets_no_variables(launcher):
    env = {LIST: "1", "ROCR_VISIBLE_DEVICES": "1"}
    done = launcher.variables(THREE.replace("vendor: nvidia", "vendor: unknown"), env=env)
    assert untouched(done, env)
    assert done.warnings == []
    assert "names no vendor" in done.stderr


@pytest.mark.parametrize("listed", ["", "-1", "NoDevFiles", "-1,0,1,2,3"])
def test_an_empty_list_is_said_to_be_empty(launcher, listed):
    """And nothing is said of its order."""
    done = launcher.variables(
        placement_text([seat_line(0, 2)]), env={"CUDA_VISIBLE_DEVICES": listed}
    )
    assert done.variables["CUDA_VISIBLE_DEVICES"] == listed
    assert [line.partition(": rank 0: ")[2] for line in done.warnings] == [
        f"the placement needs device {PCI[2]}, and this process sees no device; device variables"
        " are left alone"
    ]


COSTS = "100;250,250;250,250,100"


def _with_costs(*seats):
    return placement_text(seats).replace("# devices", f"# costs: {COSTS}\n# devices", 1)


def test_a_rank_that_mpi_reorders_is_told_its_device_and_what_links_cost(launcher):
    text = _with_costs(seat_line(0, 2), seat_line(1, 0))
    for rank, device in ((0, 2), (1, 0)):
        env = {"TOPOSEAT_REORDER": "1"}
        found = launcher.variables(text, rank=rank, env=env).variables
        assert found["TOPOSEAT_REORDER_COSTS"] == f"{device};{COSTS}"
        assert "TOPOSEAT_REORDER_COSTS" not in launcher.variables(text, rank=rank).variables
    plain = placement_text([seat_line(0, 2)])
    assert "TOPOSEAT_REORDER_COSTS" not in launcher.variables(plain, env=env).variables


def test_what_links_cost_is_told_of_the_device_that_the_rank_really_has(launcher):
    """A list that the job inherited shows device 1 alone."""
    env = {"TOPOSEAT_REORDER": "1", "CUDA_VISIBLE_DEVICES": "1"}
    text = _with_costs(seat_line(0, 2), seat_line(1, 1))
    found = launcher.variables(text, env=env).variables
    assert found["TOPOSEAT_REORDER_COSTS"] == f"1;{COSTS}"
