"""Parts of a GPU as devices: MIG slices, CPX partitions, tiles; and GPUs that are out of reach."""

import pytest

from tests.topology.live.fake_machine import AMD, GPU_CLASS, INTEL, FakeNvml, FakeSysfs
from tests.topology.live.test_discover import bus, dgx1_nvml, dgx1_sysfs, doubts, kfd_node
from toposeat.errors import UnavailableError
from toposeat.model.topology import PcieState, Vendor
from toposeat.topology import discover_this

NO_NVML = FakeNvml([], present=False)


def shared_links(topology, a, b):
    """Links that two devices both use on their way to a third."""
    other = next(d.id for d in topology.devices if d.id not in (a, b))
    routes = topology.route_of_pair
    return set(routes[a, other].links) & set(routes[b, other].links)


def test_mig_slices_are_devices_by_uuid(tmp_path):
    """A free slot between two slices; the GPU's number is not used, and it has no NVLink."""
    dgx1_sysfs(tmp_path)
    nvml = dgx1_nvml()
    nvml.gpus[2].mig = True
    nvml.gpus[2].slices = ["MIG-aaa", None, "MIG-bbb"]
    found = discover_this(sysfs=tmp_path, nvml=nvml)
    assert [d.index for d in found.devices] == [0, 1, 8, 9, 3, 4, 5, 6, 7]
    slices = found.devices[2:4]
    assert [d.uuid for d in slices] == ["MIG-aaa", "MIG-bbb"]
    assert {d.pci_bus_id for d in slices} == {None}
    assert {d.parent for d in slices} == {"0000:0a:00.0"}
    assert {d.memory_bytes for d in slices} == {4 << 30}
    assert slices[0].name.endswith("MIG 3g.40gb")
    assert not [x for x in found.links if x.kind.value == "nvlink" and set(x.ends) & {"gpu8"}]
    assert found.route_of_pair["gpu8", "gpu9"].peer_access is False
    assert found.route_of_pair["gpu8", "gpu0"].peer_access is False
    assert found.route_of_pair["gpu0", "gpu1"].peer_access is True
    assert len(shared_links(found, "gpu8", "gpu9")) >= 1  # the one PCIe link of their GPU
    assert "its 2 slices, devices from 8 on" in doubts(found)


def test_a_machine_of_slices_only_is_numbered_from_0(tmp_path):
    dgx1_sysfs(tmp_path)
    nvml = dgx1_nvml()
    for number, gpu in enumerate(nvml.gpus):
        gpu.mig = True
        gpu.slices = [f"MIG-{number}-{slot}" for slot in range(2)]
    found = discover_this(sysfs=tmp_path, nvml=nvml)
    assert [d.index for d in found.devices] == list(range(16))
    assert len({d.uuid for d in found.devices}) == 16


def test_state_of_links_is_nvmls_then_sysfs(tmp_path):
    sysfs = dgx1_sysfs(tmp_path)
    nvml = dgx1_nvml(unsupported=["nvmlDeviceGetCurrPcieLinkWidth"])
    nvml.gpus[3].pcie = (1, 16, 3, 16)
    path = next(sysfs.root.glob(f"devices/**/{bus('0b')}/current_link_width"))
    path.write_text("8\n")
    found = discover_this(sysfs=tmp_path, nvml=nvml)
    assert found.devices[3].pcie == PcieState(generation=1, width=8, max_generation=3, max_width=16)
    assert found.nics[0].pcie == PcieState(generation=1, width=16, max_generation=3, max_width=16)


@pytest.mark.parametrize(("mode", "word"), [(0, None), (1, "passthrough"), (2, "vGPU"), (3, None)])
def test_virtual_machines_are_known(tmp_path, mode, word):
    dgx1_sysfs(tmp_path)
    nvml = dgx1_nvml()
    nvml.gpus[0].virtual = mode
    assert discover_this(sysfs=tmp_path, nvml=nvml).metadata.get("virtual") == word


def test_peer_status_unknown_is_not_off(tmp_path):
    dgx1_sysfs(tmp_path)
    nvml = dgx1_nvml()
    nvml.nvmlDeviceGetP2PStatus = lambda a, b, capability: 6
    found = discover_this(sysfs=tmp_path, nvml=nvml)
    assert found.route_of_pair["gpu0", "gpu1"].peer_access is None


def amd_box(root, gpus=2):
    """GPUs behind root ports of one socket, each with a render node's number in KFD."""
    sysfs = FakeSysfs(root)
    sysfs.numa(0, "0-15", 0)
    kfd_node(sysfs, 0, {"simd_count": 0}, [])
    for i in range(gpus):
        port = f"pci0000:00/0000:00:{i + 1:02x}.0"
        sysfs.pci(port, vendor="0x1022", pci_class="0x060400", node=0)
        sysfs.pci(f"{port}/{bus(f'c{i}')}", vendor=AMD, pci_class="0x038000", node=0, cpus="0-15")
        properties = {
            "simd_count": 304, "location_id": (0xC0 + i) << 8, "domain": 0,
            "drm_render_minor": 128 + i, "gfx_target_version": 90402, "unique_id": 7 + i,
        }  # fmt: skip
        kfd_node(sysfs, i + 1, properties, [])
    return sysfs


def test_amd_gpus_without_a_render_node_are_hidden(tmp_path):
    sysfs, dev = amd_box(tmp_path / "sys"), tmp_path / "dev"
    (dev / "dri").mkdir(parents=True)
    (dev / "dri" / "renderD129").touch()
    found = discover_this(sysfs=sysfs.root, dev=dev, nvml=NO_NVML)
    assert [d.pci_bus_id for d in found.devices] == [bus("c1")]
    assert found.hidden == (bus("c0"),)
    assert "1 of 2 AMD GPUs are hidden" in doubts(found)
    assert discover_this(sysfs=sysfs.root, nvml=NO_NVML).hidden == ()  # a recorded machine


def test_amd_gpus_that_the_kernel_does_not_show_are_hidden(tmp_path):
    """Outside the cgroup, reading a node's properties fails; a folder stands for that here."""
    sysfs = amd_box(tmp_path)
    node = tmp_path / "class/kfd/kfd/topology/nodes/2"
    (node / "properties").unlink()
    (node / "properties").mkdir()
    found = discover_this(sysfs=sysfs.root, nvml=NO_NVML)
    assert found.hidden == (bus("c1"),)
    assert len(found.devices) == 1


def test_all_hidden_names_the_remedy(tmp_path):
    sysfs, dev = amd_box(tmp_path / "sys"), tmp_path / "dev"
    (dev / "dri").mkdir(parents=True)
    with pytest.raises(UnavailableError, match="2 of 2 AMD GPUs are hidden") as caught:
        discover_this(sysfs=sysfs.root, dev=dev, nvml=NO_NVML)
    assert "--gpus-per-node=N --gpu-bind=none" in caught.value.hint


def test_cpx_partitions_of_a_recorded_mi300(shared_dir, tmp_path):
    """The driver writes the partition's number into the function digit: 8 GPUs, 63 partitions."""
    sysfs = FakeSysfs(tmp_path)
    sysfs.kfd((shared_dir / "machines" / "kfd-topology" / "topo-mi300-cpx.txt").read_text())
    for number in ("05", "27", "47", "65", "85", "a7", "c7", "e5"):
        sysfs.pci(f"pci0000:{number}/{bus(number)}", vendor=AMD, pci_class="0x120000", node=0)
        sysfs.write(f"bus/pci/devices/{bus(number)}/current_compute_partition", "CPX")
        sysfs.write(f"bus/pci/devices/{bus(number)}/current_memory_partition", "NPS4")
    found = discover_this(sysfs=tmp_path, nvml=NO_NVML)
    parents = [d.parent for d in found.devices]
    assert sorted(parents.count(p) for p in set(parents)) == [7, 8, 8, 8, 8, 8, 8, 8]
    assert {d.name.rsplit(" ", 1)[-1] for d in found.devices} == {"(CPX/NPS4)"}
    boards = [c for c in found.components if c.name.startswith("GPU ")]
    assert len(boards) == 8
    uplinks = [x for x in found.links if {c.id for c in boards} & {x.ends[0]}]
    assert len(uplinks) == 8  # one PCIe link per GPU, not per partition
    assert "are hidden" not in doubts(found)


def intel_card(sysfs, number, *, driver, tiles, fabric):
    """A discrete card below a root port, as i915 (`gt` folders) or xe (`tile` folders) shows it."""
    port = f"pci0000:16/0000:16:{number + 1:02x}.0"
    sysfs.pci(port, vendor=INTEL, pci_class="0x060400", node=0)
    path = f"{port}/{bus(f'1{number + 8:x}')}"
    sysfs.pci(path, vendor=INTEL, pci_class="0x038000", node=0, speed="32.0 GT/s PCIe")
    card = f"devices/{path}/drm/card{number}"
    sysfs.write(f"{card}/dev", f"226:{number}")
    sysfs.write(f"devices/{path}/drm/renderD{128 + number}/dev", f"226:{128 + number}")
    for tile in range(tiles):
        if driver == "xe":
            size = f"devices/{path}/tile{tile}/physical_vram_size_bytes"
            sysfs.write(size, "0x1000000000")
        else:
            sysfs.write(f"{card}/gt/gt{tile}/id", str(tile))
    if driver == "i915":
        sysfs.write(f"{card}/lmem_total_bytes", str(tiles * (64 << 30)))
    if fabric:
        sysfs.write(f"devices/{path}/i915.iaf.{number}/iaf_fabric_id", f"0x{number + 1:x}")
    return bus(f"1{number + 8:x}")


@pytest.mark.parametrize("driver", ["i915", "xe"])
@pytest.mark.parametrize("tiles", [1, 2])
def test_intel_tiles_are_devices(tmp_path, driver, tiles):
    sysfs = FakeSysfs(tmp_path)
    sysfs.numa(0, "0-51", 0)
    sysfs.pci("pci0000:00/0000:00:02.0", vendor=INTEL, pci_class="0x030000", node=0)  # of the CPU
    cards = [
        intel_card(sysfs, n, driver=driver, tiles=tiles, fabric=driver == "i915") for n in (0, 1)
    ]
    found = discover_this(sysfs=tmp_path, nvml=NO_NVML)
    assert len(found.devices) == 2 * tiles
    assert {d.vendor for d in found.devices} == {Vendor.INTEL}
    assert {d.memory_bytes for d in found.devices} == {64 << 30}
    assert found.devices[0].pci_bus_id == (cards[0] if tiles == 1 else None)
    assert found.devices[-1].parent == (cards[1] if tiles == 2 else "")
    assert found.devices[0].pcie == PcieState(
        generation=1, width=16, max_generation=5, max_width=16
    )
    inside = [x for x in found.links if x.kind.value == "xelink"]
    assert [set(x.ends) for x in inside] == (
        [{"gpu0", "gpu1"}, {"gpu2", "gpu3"}] if tiles == 2 else []
    )
    assert ("2 GPUs have Xe Link" in doubts(found)) is (driver == "i915")
    assert found.origin == "discovered: sysfs (i915, xe)"


def test_intel_cards_without_a_render_node_are_hidden(tmp_path):
    sysfs, dev = FakeSysfs(tmp_path / "sys"), tmp_path / "dev"
    sysfs.numa(0, "0-51", 0)
    cards = [intel_card(sysfs, n, driver="xe", tiles=1, fabric=False) for n in (0, 1)]
    (dev / "dri").mkdir(parents=True)
    (dev / "dri" / "renderD128").touch()
    found = discover_this(sysfs=sysfs.root, dev=dev, nvml=NO_NVML)
    assert (len(found.devices), found.hidden) == (1, (cards[1],))


def test_nic_rates_and_states(tmp_path):
    sysfs = dgx1_sysfs(tmp_path)
    for number, state in enumerate(("4: ACTIVE", "1: DOWN")):
        port = next(sysfs.root.glob(f"devices/**/infiniband/mlx5_{number}")) / "ports" / "1"
        relative = port.relative_to(sysfs.root)
        sysfs.write(f"{relative}/state", state)
        sysfs.write(f"{relative}/rate", "100 Gb/sec (4X EDR)")
    found = discover_this(sysfs=tmp_path, nvml=dgx1_nvml())
    assert [nic.active for nic in found.nics[:3]] == [True, False, None]
    rates = [nic.bytes_per_s.value if nic.bytes_per_s else None for nic in found.nics[:3]]
    assert rates == [12.5e9, None, None]


def test_slingshot_rates_are_those_of_the_network_interface(tmp_path):
    sysfs = FakeSysfs(tmp_path)
    sysfs.numa(0, "0-15", 0)
    sysfs.pci("pci0000:00/0000:00:01.0", vendor="0x1022", pci_class="0x060400", node=0)
    path = f"pci0000:00/0000:00:01.0/{bus('01')}"
    sysfs.pci(path, vendor=AMD, pci_class=GPU_CLASS, node=0)
    properties = {"simd_count": 440, "location_id": 1 << 8, "domain": 0}
    kfd_node(sysfs, 1, properties, [])
    nic = "pci0000:00/0000:00:02.0"
    sysfs.pci(nic, vendor="0x17db", pci_class="0x020000", node=0)
    sysfs.adapter("cxi", "cxi0", nic)
    sysfs.adapter("net", "hsn0", nic)
    sysfs.write(f"devices/{nic}/net/hsn0/operstate", "up")
    sysfs.write(f"devices/{nic}/net/hsn0/speed", "200000")
    found = discover_this(sysfs=tmp_path, nvml=NO_NVML)
    assert [(n.name, n.active) for n in found.nics] == [("cxi0", True)]
    assert found.nics[0].bytes_per_s is not None
    assert found.nics[0].bytes_per_s.value == 25e9
