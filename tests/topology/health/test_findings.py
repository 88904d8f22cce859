"""Every finding: on a machine that has the fault, and not on the same machine without it."""

from dataclasses import replace
from functools import partial

import pytest

from toposeat.model.health import Severity
from toposeat.model.quantity import Quantity, Source
from toposeat.model.topology import PathClass, PcieState
from toposeat.topology import findings_of, read_topology, wiring_of

HEALTHY = PcieState(generation=3, width=16, max_generation=3, max_width=16)


def of_code(machine, code):
    return [f for f in findings_of(machine) if f.code == code]


def with_device(machine, position, **changes):
    devices = list(machine.devices)
    devices[position] = replace(devices[position], **changes)  # type: ignore[arg-type]
    return replace(machine, devices=tuple(devices))


def with_devices(machine, change):
    return replace(machine, devices=tuple(change(d) for d in machine.devices))


def with_routes(machine, change):
    return replace(machine, routes=tuple(change(r) for r in machine.routes))


@pytest.fixture
def dgx():
    """A DGX-1V whose links are all as they should be."""
    machine = with_devices(
        read_topology("dgx-1v"), lambda d: replace(d, pcie=HEALTHY, inactive_lanes=0)
    )
    assert findings_of(machine) == ()
    return machine


def test_narrow_links_are_faults(dgx):
    narrow = with_device(dgx, 3, pcie=replace(HEALTHY, width=8))
    (finding,) = of_code(narrow, "pcie-width")
    assert (finding.severity, finding.subject) == (Severity.FAULT, "D3")
    assert "8 of 16 lanes" in finding.detail
    virtual = replace(narrow, metadata={"virtual": "passthrough"})
    assert of_code(virtual, "pcie-width")[0].severity is Severity.DOUBT
    nics = (replace(dgx.nics[0], pcie=replace(HEALTHY, width=4)), *dgx.nics[1:])
    assert of_code(replace(dgx, nics=nics), "pcie-width")[0].subject == "mlx5_0"


def test_slow_links_may_be_idle(dgx):
    one = with_device(dgx, 3, pcie=replace(HEALTHY, generation=1))
    (finding,) = of_code(one, "pcie-generation")
    assert (finding.severity, finding.subject) == (Severity.INFO, "D3")
    assert "may be idle" in finding.detail
    every = with_devices(dgx, lambda d: replace(d, pcie=replace(HEALTHY, generation=1)))
    (finding,) = of_code(every, "pcie-generation")
    assert "as all are" in finding.detail


def test_inactive_lanes_of_one_are_a_fault_of_all_a_doubt(dgx):
    one = with_device(dgx, 2, inactive_lanes=1)
    assert [(f.severity, f.subject) for f in of_code(one, "lanes-inactive")] == [
        (Severity.FAULT, "D2")
    ]
    every = with_devices(dgx, lambda d: replace(d, inactive_lanes=1))
    assert {f.severity for f in of_code(every, "lanes-inactive")} == {Severity.DOUBT}
    bare = with_devices(read_topology("k80-16"), lambda d: replace(d, inactive_lanes=4))
    assert {f.severity for f in of_code(bare, "lanes-inactive")} == {Severity.INFO}


def test_fewer_lanes_than_most_are_doubted(dgx):
    bond = next(x for x in dgx.links if x.kind.value == "nvlink" and x.count == 2)
    weaker = replace(dgx, links=tuple(replace(x, count=1) if x is bond else x for x in dgx.links))
    silent = with_devices(weaker, lambda d: replace(d, inactive_lanes=None))
    (finding,) = of_code(silent, "lanes-unequal")
    ends = sorted(f"D{e.removeprefix('gpu')}" for e in bond.ends)
    assert (finding.severity, finding.subject) == (Severity.DOUBT, ", ".join(ends))


def test_peer_access(dgx):
    devices = {d.id for d in dgx.devices}

    def deny(which):
        return with_routes(
            dgx,
            lambda r: replace(
                r,
                peer_access=not ((r.path_class is PathClass.NVL) in which and r.target in devices),
            ),
        )

    assert of_code(deny(set()), "peer-access-off") == []
    (far,) = of_code(deny({False}), "peer-access-off")
    assert far.severity is Severity.DOUBT
    assert "12 pairs" in far.detail  # 28 pairs, 16 of them with NVLink
    (linked,) = of_code(deny({True}), "peer-access-off")
    assert linked.severity is Severity.FAULT


def test_hidden_gpus_name_the_remedy(dgx):
    (finding,) = of_code(replace(dgx, hidden=("0000:89:00.0",)), "gpu-hidden")
    assert "--gpus-per-node=N --gpu-bind=none); containers: --gpus all" in finding.hint


def test_affinity_that_contradicts(dgx):
    masked = with_devices(dgx, lambda d: replace(d, numa_node=None, cpus="0-3"))
    (finding,) = of_code(masked, "affinity-contradiction")
    assert "16 pairs have the same near CPUs" in finding.detail
    moved = with_device(dgx, 0, numa_node=1)
    (finding,) = of_code(moved, "affinity-contradiction")
    assert finding.subject == "D0-D1"


def with_nics(machine, **changes):
    """The machine with members of some NICs changed, by the NIC's name."""
    nics = (replace(nic, **changes.get(nic.name, {})) for nic in machine.nics)  # type: ignore[arg-type]
    return replace(machine, nics=tuple(nics))


def test_nics_that_are_of_no_use(dgx):
    down = with_nics(dgx, mlx5_0={"active": False})
    (finding,) = of_code(down, "nic-down")
    assert (finding.severity, finding.subject) == (Severity.DOUBT, "mlx5_0")
    assert finding.detail == "1 of 4 NICs have no active port: no rank uses them"
    slow = with_nics(dgx, mlx5_3={"bytes_per_s": Quantity(3.125e9)})
    (finding,) = of_code(slow, "nic-slow")
    assert (finding.severity, finding.subject) == (Severity.DOUBT, "mlx5_3")
    assert finding.detail == "3.12 GB/s, its siblings have 12.5: no rank uses it"
    extra = replace(dgx.nics[0], id="extra", index=4, name="mlx5_bond_0")
    (finding,) = of_code(replace(dgx, nics=(*dgx.nics, extra)), "nic-other-network")
    assert (finding.severity, finding.subject) == (Severity.INFO, "mlx5_bond_0")
    assert "mlx5_0 is beside a GPU, and named otherwise" in finding.detail
    several = [replace(extra, id=f"x{at}", index=4 + at, name=f"mlx5_bond_{at}") for at in range(3)]
    (finding,) = of_code(replace(dgx, nics=(*dgx.nics, *several)), "nic-other-network")
    assert finding.subject == "mlx5_bond_0, mlx5_bond_1, mlx5_bond_2"


def test_nics_that_carry_less_than_they_could(dgx):
    choked = with_nics(dgx, mlx5_1={"bytes_per_s": Quantity(25e9), "pcie": HEALTHY})
    (finding,) = of_code(choked, "nic-throttled")
    assert finding.subject == "mlx5_1"
    assert "ports of 25 GB/s behind a PCIe link of about 12 GB/s" in finding.detail


def test_gpus_that_share_a_nic_while_another_idles(dgx):
    """Two more GPUs come to mlx5_0 when every way to mlx5_1 is as far as across the socket."""
    ids = {nic.name: nic.id for nic in dgx.nics}

    def change(route):
        away = route.target == ids["mlx5_1"]
        return replace(route, path_class=PathClass.SYS) if away else route

    (finding,) = of_code(with_routes(dgx, change), "nic-shared")
    assert (finding.severity, finding.subject) == (Severity.DOUBT, "D0, D1, D2, D3")
    assert finding.detail == "4 GPUs share mlx5_0 (3.12 GB/s each); nearest to none: mlx5_1"
    idle = replace(dgx.nics[0], id="x", index=9, name="mlx5_9", numa_node=None)
    (both,) = of_code(replace(dgx, nics=(*dgx.nics, idle)), "nic-shared")
    assert both.detail.startswith("8 GPUs share mlx5_0 (6.25 GB/s each), mlx5_1 (6.25 GB/s each), ")
    parts = with_devices(dgx, lambda d: replace(d, parent="board"))
    assert of_code(with_routes(parts, change), "nic-shared") == []  # of one GPU


def test_nics_of_another_socket(dgx):
    near_one = {n.id for n in dgx.nics[:2]}
    far = with_routes(
        dgx,
        lambda r: (
            replace(r, path_class=PathClass.SYS)
            if r.target.startswith("nic") and r.target not in near_one
            else r
        ),
    )
    far = replace(far, nics=tuple(replace(n, numa_node=None) for n in far.nics))
    (finding,) = of_code(far, "nic-far")
    assert finding.subject == "D4, D5, D6, D7"
    assert "the nearest NIC of 4 of 8 devices is at another memory node: mlx5_" in finding.detail
    assert finding.detail.endswith("GB/s")
    gone = with_nics(dgx, mlx5_2={"active": False}, mlx5_3={"active": False})
    assert of_code(gone, "nic-far")[0].subject == "D4, D5, D6, D7"  # what is down is not near


def test_measured_outliers(dgx):
    devices = {d.id for d in dgx.devices}

    def measured(slow):
        def change(route):
            if route.target not in devices:
                return route
            rate = min(dgx.link_of_id[x].forward_bytes_per_s.value for x in route.links)
            odd = (route.source, route.target) == ("gpu0", "gpu1")
            value = rate * (slow if odd else 0.9)
            return replace(route, cap_bytes_per_s=Quantity(value, Source.MEASURED))

        return with_routes(dgx, change)

    assert findings_of(measured(0.9)) == ()
    found = findings_of(measured(0.5))
    assert {f.code for f in found} == {"pair-slow", "direction-asymmetric"}
    assert {f.subject for f in found} == {"D0-D1"}
    assert found[0].severity is Severity.FAULT  # the worst comes first


def test_routes_nodes_and_parts(dgx):
    cut = replace(
        dgx, routes=tuple(r for r in dgx.routes if {r.source, r.target} != {"gpu0", "gpu1"})
    )
    assert of_code(cut, "route-missing")[0].subject == "D0-D1"
    uneven = with_device(dgx, 0, numa_node=1)
    assert "3 on node 0, 5 on node 1" in of_code(uneven, "numa-uneven")[0].detail
    parts = with_devices(dgx, lambda d: replace(d, parent=f"board{d.index // 2}"))
    assert "8 devices are parts of 4 GPUs" in of_code(parts, "partitions")[0].detail
    mig = with_device(parts, 0, uuid="MIG-x")
    assert "MIG slice" in of_code(mig, "partitions")[0].detail


def test_what_the_reader_doubted_is_told(dgx):
    (finding,) = findings_of(replace(dgx, report=("a doubt",)))
    assert (finding.code, finding.severity, finding.detail) == ("reader", Severity.INFO, "a doubt")


def test_untold_links_name_the_command_that_lists_them():
    box = replace(read_topology("l40s-8"), tells=())
    assert of_code(box, "links-untold") == []  # they never have any
    for name, words in (
        ("", "their product is not known either"),
        ("NVIDIA A100-PCIE-40GB", "NVIDIA A100 PCIe may have bridges"),
        ("sm_90", "sm_90 may be NVIDIA H100 SXM5"),
        ("Tesla V100-SXM2-16GB", "always has some, and boards join it in several ways"),
        ("NVIDIA New 1", "not a product that toposeat knows"),
    ):
        machine = with_devices(box, partial(replace, name=name))
        (found,) = of_code(machine, "links-untold")
        assert found.severity is Severity.UNTOLD
        assert words in found.detail
        assert "nvidia-smi topo -m" in found.hint
        assert "without device links" in wiring_of(machine).reason
    bare = with_devices(read_topology("l40s-8"), lambda d: replace(d, name="NVIDIA B200"))
    (found,) = of_code(bare, "links-denied")
    assert "always has" in found.detail


def test_a_gpu_without_links_beside_a_switch_is_a_fault():
    """0 of 18 NVLinks while its seven siblings have all of theirs."""
    machine = read_topology("hgx-h100")
    assert of_code(machine, "lanes-unequal") == []
    cut = tuple(x for x in machine.links if "gpu3" not in x.ends or "nvswitch0" not in x.ends)
    (found,) = of_code(replace(machine, links=cut), "lanes-unequal")
    assert (found.severity, found.subject) == (Severity.FAULT, "D3")
    assert "0 device-link lanes, others of its kind 18" in found.detail


def test_pairs_of_unknown_class_are_not_compared():
    """Some may be joined by NVLink, others not."""
    machine = read_topology("k40-8")

    def measured(route):
        rate = Quantity(2e9 if "gpu0" in (route.source, route.target) else 2e10, Source.MEASURED)
        return replace(route, cap_bytes_per_s=rate, path_class=PathClass.UNKNOWN)

    assert of_code(with_routes(machine, measured), "pair-slow") == []


@pytest.mark.parametrize(("name", "tool"), [("dgx-1v", "nvidia-smi"), ("mi100-8", "amd-smi")])
def test_hints_name_the_tool_of_the_maker(name, tool):
    machine = with_device(read_topology(name), 0, inactive_lanes=1)
    off = with_routes(machine, lambda route: replace(route, peer_access=False))
    hints = [f.hint for code in ("lanes-inactive", "peer-access-off") for f in of_code(off, code)]
    assert len(hints) >= 2
    assert all(f"{tool} " in hint for hint in hints)
