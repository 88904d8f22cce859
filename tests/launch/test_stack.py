"""MPI stacks: what a launch line and an environment say, and what may be set."""

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.launch.test_ucx_protocols import recorded
from tests.support.processes import executable, ran
from tests.support.tables import rows, variables
from toposeat.emulation import emulated_node, machine_text
from toposeat.errors import UsageError
from toposeat.launch import (
    NVLINK_GPU,
    conflict,
    device_rule,
    find_gpu_aware_mpi,
    find_installations,
    for_devices,
    named_stack,
    stack_of,
)
from toposeat.model.protocol import Basis, StackKind
from toposeat.model.route import CopyProtocol
from toposeat.topology import read_topology

LINES = Path(__file__).with_name("lines.txt")
GET, PUT, STAGED = CopyProtocol.GET, CopyProtocol.PUT, CopyProtocol.STAGED


def fake_open_mpi(folder, *components):
    """An `mpirun` with the `ompi_info` of another installation beside it."""
    (folder / "mpirun").write_text("#!/bin/sh\necho 'mpirun (Open MPI) 5.0.1'\n")
    lines = ["ompi:version:full:5.0.1", *(f'mca:{c}:version:"api:1"' for c in components)]
    said = "\n".join(lines)
    (folder / "ompi_info").write_text(f"#!/bin/sh\ncat <<'END'\n{said}\nEND\n")
    for name in ("mpirun", "ompi_info"):
        (folder / name).chmod(0o755)
    return str(folder / "mpirun")


def stack(mpirun, *words, **environment):
    variables = {"PATH": "/usr/bin:/bin", **environment}
    return stack_of([mpirun, "-n", "2", *words, "./a"], variables)


def test_open_mpi_by_its_parts_and_what_is_asked_for(tmp_path):
    mpirun = fake_open_mpi(tmp_path, "pml:ucx", "pml:ob1", "btl:smcuda")
    found = stack(mpirun)
    assert (found.kind, found.version) == (StackKind.OPENMPI_UCX, "5.0.1")
    assert any(s.basis is Basis.ASSUMED and "UCX" in s.text for s in found.statements)
    asked = stack(mpirun, "--mca", "pml", "ob1")
    assert asked.kind is StackKind.OPENMPI_OB1
    assert asked.rule.pieces == ((0, GET),)
    assert stack(mpirun, OMPI_MCA_pml="ob1").kind is StackKind.OPENMPI_OB1
    off = stack(mpirun, "--mca", "pml", "ob1", "--mca", "btl_smcuda_use_cuda_ipc", "0")
    assert off.rule.pieces == ((0, STAGED),)


def test_open_mpi_without_ucx_uses_ob1(tmp_path):
    assert stack(fake_open_mpi(tmp_path, "pml:ob1")).kind is StackKind.OPENMPI_OB1


@pytest.mark.parametrize(("name", "given", "expected", "piece", "said"), rows(LINES, "stacks"))
def test_a_stack_by_its_variables(name, given, expected, piece, said):
    """How messages between GPUs go, from which size on, in what pieces; and what is said of it."""
    found = named_stack(name, variables(given))
    pieces = [f"{start}:{protocol.value}" for start, protocol in found.rule.pieces]
    assert " ".join(pieces) == expected
    assert str(found.piece_bytes) == piece
    assert said == "-" or any(said in each.text for each in found.statements)


@pytest.mark.parametrize("ranks", [2, 4, 8])
def test_ucx_divides_what_it_takes_for_slow_among_the_ranks(ranks):
    """The size that UCX 1.22 printed in tables of 2, 4 and 8 ranks on a stand-in of K80s."""
    rule = device_rule(recorded(f"K80, {ranks} ranks"))
    expected = for_devices(named_stack("openmpi-ucx", {}), ["Tesla K80", ""], ranks)
    assert rule == expected.rule
    assert {each.basis for each in expected.statements if "slow" in each.text} == {Basis.ASSUMED}


def test_ucx_left_to_itself_goes_by_the_generation():
    auto = named_stack("openmpi-ucx", {})
    assert for_devices(auto, ["Tesla K80"], 16) == auto
    assert for_devices(auto, [""], 2) == auto
    assert for_devices(auto, [NVLINK_GPU], 2).rule.protocol_of(1 << 20) is PUT
    fast = for_devices(auto, ["NVIDIA A100-SXM4-40GB"], 8)
    assert fast.rule.protocol_of(1 << 20) is PUT
    assert fast.rule.protocol_of(100) is STAGED
    assert for_devices(fast, ["NVIDIA A100-SXM4-40GB"], 8) == fast
    told = named_stack("openmpi-ucx", {"UCX_TLS": "^cuda_ipc"})
    assert for_devices(told, ["NVIDIA A100-SXM4-40GB"], 8) == told


def test_intel_mpi_by_its_launcher_and_variables(tmp_path):
    mpirun = tmp_path / "mpirun"
    said = "Intel(R) MPI Library for Linux* OS, Version 2021.15 Build 20250213"
    executable(mpirun, f"#!/bin/sh\necho '{said}'\n")
    found = stack(str(mpirun), "-genv", "I_MPI_OFFLOAD_IPC", "0", I_MPI_OFFLOAD="1")
    assert (found.kind, found.version) == (StackKind.INTEL_MPI, "2021.15")
    assert found.rule.pieces == ((0, STAGED),)


def test_the_mpi_is_not_guessed(monkeypatch):
    monkeypatch.delenv("CRAY_MPICH_VERSION", raising=False)
    with pytest.raises(UsageError, match="does not say which MPI app uses") as refused:
        stack_of(["srun", "-n", "2", "./app"], {})
    assert "--stack" in (refused.value.hint or "")
    with pytest.raises(UsageError, match="no stack 'nccl'"):
        named_stack("nccl", {})
    cray = stack_of(["srun", "-n", "2", "./app"], {"CRAY_MPICH_VERSION": "8.1.30"})
    assert (cray.kind, cray.version) == (StackKind.CRAY_MPICH, "8.1.30")


def test_what_the_launch_line_sets_cannot_be_tried(tmp_path):
    mpirun = fake_open_mpi(tmp_path, "pml:ucx")
    found = stack(mpirun, "-x", "UCX_TLS=sm,cuda_copy", "-x", "UCX_RNDV_SCHEME")
    assert found.variables == {"UCX_TLS": "sm,cuda_copy"}
    said = {each.name: conflict(found, each) for each in found.settings}
    assert "UCX_TLS" in said["receiver reads"]
    assert all(conflict(stack(mpirun), each) == "" for each in found.settings)


names = st.sampled_from(["all", "sm", "rc", "tcp", "cuda", "cuda_copy", "cuda_ipc"])


@given(st.lists(names, max_size=4), st.booleans())
def test_tls_is_changed_in_cuda_ipc_only(chosen, negated):
    tls = ("^" if negated else "") + ",".join(chosen)
    given = {"UCX_TLS": tls, "UCX_RNDV_SCHEME": "put_zcopy"}
    for setting in named_stack("openmpi-ucx", given).settings:
        changed = given | setting.variables | {"UCX_RNDV_SCHEME": "put_zcopy"}
        direct = named_stack("openmpi-ucx", changed).rule.pieces == ((0, PUT),)
        assert direct == (setting.name != "through the host")
        others, value = set(chosen) - {"cuda_ipc"}, changed["UCX_TLS"]
        if not {"cuda", "all"} & set(chosen) and others and value != "all":
            assert value.startswith("^") == negated
            assert set(value.lstrip("^").split(",")) - {"cuda_ipc"} == others


def test_ucx_knows_every_variable_that_is_named():
    """With a driver UCX lists those of its CUDA part too: the stand-in's will do."""
    found = find_gpu_aware_mpi()
    if isinstance(found, str):
        pytest.skip(found)
    if Path("/proc/driver/nvidia/version").exists():
        pytest.skip("this node has a real NVIDIA driver: the stand-in refuses to load beside it")
    program = found.ucx.parent / "bin" / "ucx_info"
    if not program.exists():
        pytest.skip(f"no {program}")
    with emulated_node(machine_text(read_topology("power9-4"))) as node:
        environment = {**node.environment(found.environment()), "TOPOSEAT_EMULATOR_QUIET": "1"}
        done = ran([program, "-c"], env=environment, check=True)
    known = {line.partition("=")[0] for line in done.stdout.splitlines()}
    found = named_stack("openmpi-ucx", dict.fromkeys(known, "1"))
    assert {name for each in found.settings for name in each.variables} <= known
    assert len(found.variables) == 9  # of so many that are looked for


def test_mpich_says_its_defaults_and_knows_every_variable():
    mpich = [
        each
        for each in find_installations()
        if each.family == "mpich" and (each.mpirun.parent / "mpivars").exists()
    ]
    if not mpich:
        pytest.skip("no MPICH with mpivars")
    found = stack_of([str(mpich[0].mpirun), "-n", "2", "./a"], dict(os.environ))
    assert found.kind is StackKind.MPICH
    assert len(found.settings) == len(named_stack("mpich", {}).settings)  # none was dropped
    assert any("from 1048576 bytes" in s.text for s in found.statements)
    assert any(s.basis is Basis.KNOWN for s in found.statements)
