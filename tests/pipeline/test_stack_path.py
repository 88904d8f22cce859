"""The way that messages take through the MPI: by hand, and against clocked runs that were kept."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from tests.launch.test_stack import fake_open_mpi
from toposeat import evaluation, pipeline, profile, topology
from toposeat.cli.main import main
from toposeat.emulation import scaled_topology
from toposeat.errors import UsageError
from toposeat.launch import MicrobenchOptions
from toposeat.mapping import Machine
from toposeat.model.map_options import Constraints, MapOptions
from toposeat.model.placement_file import load_placement
from toposeat.model.rank_info import RankInfo
from toposeat.model.topology import LinkKind
from toposeat.model.traffic import MemorySpace, Traffic
from toposeat.model.traffic_file import save_traffic
from toposeat.pipeline import path_of_stack

KIB = 1024
MIB = 1024 * KIB


def k80():
    return topology.read_topology("k80-16")


def path(name, machine, ranks, **variables):
    return path_of_stack(name, None, machine, ranks, environment=variables)


def exchange(size):
    return profile.pattern_traffic(f"stencil2d:1x2,bytes={size}")


# Milliseconds of one exchange by a real UCX 1.22 left to itself under Open MPI 4.1.4, on the
# stand-in of k80-16 with links x 0.01, 22 November 2026: two ranks on these devices.
CLOCKED = {
    (0, 1): {400000: 4.05, 1048576: 77.68, 4194304: 233.20, 16777216: 854.77},
    (0, 2): {1000000: 64.42, 4194304: 199.23, 16777216: 731.18},
    (0, 4): {1000000: 37.89, 4194304: 118.11, 16777216: 428.07},
    (0, 8): {1000000: 37.88, 4194304: 116.98, 16777216: 431.14},
}


@pytest.mark.parametrize("devices", CLOCKED)
def test_pairs_take_what_was_clocked(devices):
    """Near and far pairs: direct up to 766399 bytes, then through the host in pieces."""
    machine = scaled_topology(k80(), 0.01)
    taken = path("openmpi-ucx", machine, 2)
    for size, milliseconds in CLOCKED[devices].items():
        used = taken.machine_for(machine, exchange(size))
        predicted = evaluation.evaluate(used, exchange(size), devices).predicted_s
        assert predicted * 1e3 == pytest.approx(milliseconds, rel=0.05), size


# The same for more ranks: milliseconds by pattern, devices and size.
CLOCKED_IN_ORDER = {
    ("stencil2d:1x3", (0, 4, 8)): {400000: 31.47, 4194304: 220.77},
    ("stencil2d:1x4", (0, 2, 4, 8)): {400000: 43.70, 4194304: 302.83},
    ("stencil2d:2x2", (0, 4, 8, 12)): {400000: 39.63, 4194304: 324.22},
    ("stencil2d:2x4", (0, 1, 2, 3, 4, 5, 6, 7)): {400000: 138.72, 1500000: 456.6, 4000000: 1214.1},
    ("stencil2d:2x4", (15, 12, 3, 1, 10, 8, 4, 7)): {400000: 77.71, 1500000: 277.1, 4000000: 723.0},
}


@pytest.mark.parametrize(("pattern", "devices"), CLOCKED_IN_ORDER)
def test_several_partners_take_a_time_between_the_orders(pattern, devices):
    """Chains reach the best order, the square the worst: the bounds are those of real runs."""
    machine = scaled_topology(k80(), 0.01)
    taken = path("openmpi-ucx", machine, len(devices))
    partners = 3 if pattern == "stencil2d:2x4" else 2
    for size, milliseconds in CLOCKED_IN_ORDER[pattern, devices].items():
        traffic = profile.pattern_traffic(f"{pattern},bytes={size}")
        used = taken.machine_for(machine, traffic)
        predicted = 1e3 * evaluation.evaluate(used, traffic, devices).predicted_s
        least, halfway, most = evaluation.staging_times(size, 512 * KIB, partners)
        assert 0.99 * least <= milliseconds * halfway / predicted <= 1.01 * most, size
        assert most == pytest.approx(least + (partners - 1) / partners)


def test_a_staged_message_by_hand():
    """Both GPUs of a board go up its uplink and down; the way down begins one piece later."""
    machine = k80()
    uplink = machine.link_of_id["pcie:board0-switch0"].forward_bytes_per_s.value
    used = path("openmpi-ucx", machine, 2).machine_for(machine, exchange(4 * MIB))
    found = evaluation.evaluate(used, exchange(4 * MIB), (0, 1)).predicted_s
    assert found == pytest.approx(18e-6 + 2 * 4 * MIB * (1 + 1 / 8) / uplink)
    larger = path("openmpi-ucx", machine, 2, UCX_RNDV_FRAG_SIZE="host:2M")
    used = larger.machine_for(machine, exchange(4 * MIB))
    found = evaluation.evaluate(used, exchange(4 * MIB), (0, 1)).predicted_s
    assert found == pytest.approx(18e-6 + 2 * 4 * MIB * (1 + 1 / 2) / uplink)


def test_what_changes_nothing():
    machine, traffic = k80(), exchange(MIB)
    assert path("direct", machine, 2).machine_for(machine, traffic) is machine
    assert path(None, machine, 2).machine_for(machine, traffic) is machine
    assert path("openmpi-ob1", machine, 2).machine_for(machine, traffic) is machine
    put = path("openmpi-ucx", machine, 2, UCX_RNDV_SCHEME="put_zcopy")
    assert put.machine_for(machine, traffic) is machine
    assert put.notes([traffic]) == ()
    small = exchange(400000)
    ucx = path("openmpi-ucx", machine, 2)
    assert ucx.machine_for(machine, small) is machine
    (table,) = traffic.tables.values()
    (kind, _) = next(iter(traffic.tables))
    host = Traffic(ranks=2, origin="test", tables={(kind, MemorySpace.HOST): table})
    assert ucx.machine_for(machine, host) is machine
    assert "at 1 of 2 sizes" in ucx.notes([small, traffic])[0]


def test_staged_messages_take_no_device_links():
    machine = topology.read_topology("dgx-1v")
    used = topology.through_host_memory(machine)
    devices = {device.id for device in machine.devices}
    for route in machine.routes:
        same = used.route_of_pair[route.source, route.target]
        if route.target in devices:
            assert same.staged
            kinds = {machine.link_of_id[link].kind for link in same.links}
            assert LinkKind.NVLINK not in kinds
            assert same.path_class is route.path_class
        else:
            assert same == route
    used.check()


def test_what_is_assumed_without_a_stack():
    machine, traffic = k80(), exchange(MIB)
    options = MapOptions()

    def assumed(name, device):
        pins = Constraints(pins={0: 0, 1: device})
        taken = path(name, machine, 2)
        found = pipeline.map_on_path(
            Machine.of(machine), traffic, replace(options, constraints=pins), taken
        )
        return found.premises.assumed[-1] if found.premises and found.premises.assumed else None

    near, far = assumed(None, 1), assumed(None, 8)
    assert (near.what, near.low, near.nominal) == ("stack", 1.0, 1.0)
    assert near.high > 4  # up and down the uplink instead of over the board's switch
    assert not near.decides  # the default itself
    assert (far.high, far.low < 1) == (1.0, True)  # the far pair is faster if all is staged
    assert not far.decides
    direct = assumed("direct", 1)
    assert direct is None or direct.what != "stack"


def test_a_gain_that_a_staging_mpi_has_not():
    """Pairs that talk move onto one board: through host memory all use the uplinks alike."""
    traffic = profile.pattern_traffic("alltoall:2x2")
    taken = path(None, k80(), 4)
    options = MapOptions(constraints=Constraints(devices=[0, 1, 2, 3]))
    found = pipeline.map_on_path(Machine.of(k80()), traffic, options, taken)
    assert found.placed.predicted_s < 0.9 * found.default.predicted_s
    assert found.premises.assumed[-1].decides


def test_map_and_compare_predict_the_stacks_path(capsys, tmp_path, monkeypatch):
    for name in ("UCX_RNDV_SCHEME", "UCX_TLS"):
        monkeypatch.delenv(name, raising=False)
    words = ["stencil2d:2x4", "-t", "k80-16"]
    place = str(tmp_path / "p.place")
    assert main(["map", *words, "--stack", "openmpi-ucx", "-o", place, "--json"]) == 0
    mapped = json.loads(capsys.readouterr().out)
    assert mapped["stack"]["kind"] == "openmpi-ucx"
    assert "stack" not in [each["what"] for each in mapped["premises"]["assumed"]]
    assert load_placement(Path(place)).metadata["stack"] == "openmpi-ucx"
    said, order = mapped["notes"][-2:]
    assert "sends through host memory" in said
    assert "toposeat advise" in said
    assert "up to 22% less or more" in order
    assert mapped["placed"]["predicted_s"] < 0.55 * mapped["default"]["predicted_s"]
    assert main(["map", *words, "--json"]) == 0
    untold = json.loads(capsys.readouterr().out)
    assert untold["stack"] is None
    assert [each["what"] for each in untold["premises"]["assumed"]][-1] == "stack"

    compared = ["compare", place, "-t", "k80-16", "--traffic", "stencil2d:2x4", "--json"]
    assert main([*compared, "--stack", "openmpi-ucx"]) == 0
    said = capsys.readouterr()
    assert "sends through host memory" in said.err
    rows = json.loads(said.out)["predicted"]
    assert rows[1]["predicted_s"] == pytest.approx(mapped["placed"]["predicted_s"])

    machine = k80()
    program = MicrobenchOptions(sizes=(1 << 20,))
    for pattern in ("stencil2d:2x4", "alltoall:4x2x2"):
        taken = path("openmpi-ucx", machine, 16)
        plan = pipeline.plan_pattern(
            pattern, machine, program, options=MapOptions(min_gain=0), randoms=0, path=taken
        )
        assert "sends through host memory" in plan.notes[0]
        if pattern == "stencil2d:2x4":
            (seconds,) = plan.predicted(plan.default)
            assert seconds == pytest.approx(mapped["default"]["predicted_s"])


def test_a_stack_is_for_messages_between_gpus(capsys, tmp_path):
    words = ["compare", "ring:4", "-t", "k80-16", "--stack", "openmpi-ucx"]
    assert main([*words, "--", fake_open_mpi(tmp_path), "-n", "4"]) == 2
    assert "not for host buffers" in capsys.readouterr().err
    with pytest.raises(UsageError, match="no stack 'lam'"):
        path("lam", k80(), 4)


def test_an_mpi_that_is_not_gpu_aware_is_named_before_the_run(capsys, tmp_path):
    mpirun = fake_open_mpi(tmp_path, "pml:ob1")
    with (tmp_path / "ompi_info").open("a") as script:
        script.write("echo 'mca:mpi:base:param:mpi_built_with_cuda_support:value:false'\n")
    line = ["--buffers", "device", "--", mpirun, "-n", "4"]
    assert main(["compare", "ring:4", "-t", "k80-16", *line]) == 1
    said = capsys.readouterr().err
    assert "this MPI is not GPU-aware: openmpi-ob1 5.0.1 is built without a GPU library" in said
    assert main(["map", "ring:4", "-t", "k80-16", "-o", str(tmp_path / "p.place")]) == 0
    recorded = replace(
        profile.pattern_traffic("ring:4"), rank_info=tuple(RankInfo(rank=r) for r in range(4))
    )
    save_traffic(recorded, tmp_path / "p.prof")
    compared = ["compare", str(tmp_path / "p.place"), "-t", "k80-16", "--dry-run"]
    for traffic, is_seen in (("ring:4", False), (str(tmp_path / "p.prof"), True)):
        assert main([*compared, "--traffic", traffic, "--", mpirun, "-n", "4", "true"]) == 0
        assert ("This MPI is not GPU-aware" in capsys.readouterr().err) == is_seen


def test_a_srun_line_tells_nothing():
    found = path_of_stack(None, ["srun", "-n", "2", "./app"], k80(), 2, environment={})
    assert found.stack is None
    assert "does not say which MPI" in found.untold
    ucx = pipeline.path_of_stack("openmpi-ucx", ["srun", "./app"], k80(), 2, environment={})
    assert ucx.stack is not None
