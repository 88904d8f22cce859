"""The stand-in's management library: what it tells is the topology, under old names too."""

import json
from collections import Counter
from dataclasses import replace

import pytest

from tests.emulation.stand_in import output_of
from toposeat.emulation import machine_text
from toposeat.model.topology import ComponentKind, LinkKind
from toposeat.topology import read_topology

_PORTS = {ComponentKind.NVSWITCH: "switch", ComponentKind.NUMA: "cpu"}


def lanes_of(machine):
    """By bus id of the device and of the other end, or its kind."""
    topology = read_topology(machine)
    ends = {d.id: d.pci_bus_id or "" for d in topology.devices}
    ports = {c.id: _PORTS[c.kind] for c in topology.components if c.kind in _PORTS}
    found = {pci: Counter() for pci in ends.values()}
    for link in topology.links:
        for here, there in (link.ends, link.ends[::-1]):
            if link.kind is LinkKind.NVLINK and here in ends:
                found[ends[here]][(ends | ports)[there]] += link.count
    return {pci: dict(lanes) for pci, lanes in found.items()}


@pytest.mark.parametrize(
    ("machine", "generation"),
    [
        ("dgx-1v", 3),
        ("dgx-2", 3),
        ("power9-4", None),  # its GPUs reach the CPU by NVLink
        ("k40-4", 3),
        ("l40s-8", 4),
        ("hgx-h100", 5),
        ("hgx-b300", 6),
        ("alps-gh200-4", None),
    ],
)
def test_links_are_those_of_the_topology(machine, generation):
    program = """
    import pynvml
    from toposeat.topology.live.nvidia import read_nvml
    lanes, generations = {}, set()
    for gpu in read_nvml(pynvml).gpus:
        here = lanes.setdefault(gpu.bus, {})
        generations.add(gpu.device.pcie.max_generation)
        for link in gpu.links:
            end = link.end if link.end in ("switch", "cpu") else link.remote_pci
            here[end] = here.get(end, 0) + 1
    print(json.dumps([lanes, list(generations)]))
    """
    lanes, generations = json.loads(output_of(program, machine=machine))
    assert lanes == lanes_of(machine)
    assert generations == [generation]


def test_old_names_and_pairs():
    program = """
    nvml = ctypes.CDLL("libnvidia-ml.so.1")
    class Pci(ctypes.Structure):  # the first versions' struct, and what lies behind it
        _fields_ = [("bus_id", ctypes.c_char * 16), ("domain", c_uint), ("bus", c_uint),
                    ("rest", c_uint * 3), ("reserved", c_uint * 4), ("behind", ctypes.c_char * 8)]
    def ask(name, *arguments):
        return getattr(nvml, name)(*arguments)
    count, one, same, can = c_uint(), c_void_p(), c_void_p(), c_uint()
    assert ask("nvmlInit") == 0
    assert ask("nvmlDeviceGetCount", byref(count)) == 0 and count.value == 8
    assert ask("nvmlDeviceGetHandleByIndex", c_uint(1), byref(one)) == 0
    pci = Pci(behind=b"intact")
    assert ask("nvmlDeviceGetPciInfo", one, byref(pci)) == 0
    assert ask("nvmlDeviceGetHandleByPciBusId", pci.bus_id, byref(same)) == 0
    assert same.value == one.value
    remote = Pci(behind=b"intact")
    assert ask("nvmlDeviceGetNvLinkRemotePciInfo", one, c_uint(0), byref(remote)) == 0
    assert ask("nvmlDeviceGetNvLinkCapability", one, c_uint(0), c_int(0), byref(can)) == 0
    assert can.value == 1  # peer to peer
    assert ask("nvmlDeviceGetNvLinkCapability", one, c_uint(0), c_int(1), byref(can)) == 0
    assert can.value == 0  # system memory
    assert ask("nvmlDeviceGetNvLinkCapability", one, c_uint(6), c_int(0), byref(can)) == 3
    assert ask("nvmlDeviceGetP2PStatus", one, one, c_int(0), byref(can)) == 0 and can.value == 0
    print(pci.bus_id.decode(), remote.bus_id.decode(), pci.behind, remote.behind)
    """
    devices = [d.pci_bus_id for d in read_topology("dgx-1v").devices]
    first, second, *ends = output_of(program, machine="dgx-1v").split()
    assert [first, second] == [(devices[1] or "").upper(), (devices[0] or "").upper()]
    assert ends == ["b'intact'", "b'intact'"]


def test_a_switch_joins_all_of_its_devices():
    program = """
    driver.start()
    value = c_int()
    for which in (1, 2, 3):  # rank, access, atomics
        driver.do("cuDeviceGetP2PAttribute", byref(value), c_int(which), c_int(0), c_int(7))
        print(value.value)
    """
    assert output_of(program, machine="hgx-h100").split() == ["0", "1", "1"]
    assert output_of(program, machine="l40s-8").split() == ["1", "1", "0"]


def test_pairs_with_nvlink_have_a_pcie_distance_too():
    program = """
    import pynvml
    from toposeat.topology.live.nvidia import read_nvml
    told = read_nvml(pynvml).distances
    print(*(told[0, other].value for other in (1, 2, 3)))
    """
    assert output_of(program, machine="rtx-4-crossed-bridges").split() == ["PHB", "NODE", "NODE"]


def test_compute_capabilities_are_those_that_nvidia_lists():
    listed = """K20m 35, K40m 35, Tesla K80 37, P100-PCIE-16GB 60, V100-SXM2-32GB 70, T4 75,
        GeForce RTX 2080 Ti 75, A100-SXM4-80GB 80, A30 80, A10 86, GeForce RTX 3090 86, A6000 86,
        GeForce RTX 4090 89, L40S 89, GH200 480GB 90, H20 90, H800 90, GB200 100"""
    names, capabilities = zip(*(each.rsplit(" ", 1) for each in listed.split(",")), strict=True)
    machine = read_topology("pcie:2:3:3")
    devices = tuple(replace(d, name=n) for d, n in zip(machine.devices, names, strict=True))
    lines = machine_text(replace(machine, devices=devices)).splitlines()
    assert [line.split()[4] for line in lines if line.startswith("device ")] == [*capabilities]
