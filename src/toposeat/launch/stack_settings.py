"""The settings that each stack has for moving device messages, and where they are documented.

Short on purpose: only variables whose effect is one of the protocols that `measure` measures. Names
and meanings are those of the named sources; `docs/how-to/choose-a-protocol.md` shows the table.
"""

from __future__ import annotations

from collections.abc import Mapping

from toposeat.model.protocol import Setting, StackKind, rule_of
from toposeat.model.route import CopyProtocol

_GET, _PUT, _STAGED = CopyProtocol.GET, CopyProtocol.PUT, CopyProtocol.STAGED

UCX_TLS, UCX_SCHEME = "UCX_TLS", "UCX_RNDV_SCHEME"
UCX_GET = "UCX_CUDA_IPC_ENABLE_GET_ZCOPY"
OMPI_IPC = "OMPI_MCA_btl_smcuda_use_cuda_ipc"
MPICH_THRESHOLD = "MPIR_CVAR_CH4_IPC_GPU_P2P_THRESHOLD"
MPICH_DIRECTION = "MPIR_CVAR_CH4_IPC_GPU_READ_WRITE_PROTOCOL"
MPICH_REPEAT = "MPIR_CVAR_CH4_IPC_MAP_REPEAT_ADDR"
MPICH_GPU = "MPIR_CVAR_ENABLE_GPU"
CRAY_IPC, CRAY_THRESHOLD = "MPICH_GPU_IPC_ENABLED", "MPICH_GPU_IPC_THRESHOLD"
CRAY_GPU = "MPICH_GPU_SUPPORT_ENABLED"

# What steers each stack: these are looked for in the environment and on the launch line.
STEERING: Mapping[StackKind, tuple[str, ...]] = {
    StackKind.OPENMPI_UCX: (
        *(UCX_TLS, UCX_SCHEME, UCX_GET, "UCX_RNDV_THRESH", "UCX_CUDA_IPC_BW"),
        *("UCX_PROTO_ENABLE", "UCX_RNDV_FRAG_MEM_TYPES", "UCX_MEMTYPE_CACHE"),
    ),
    StackKind.OPENMPI_OB1: (OMPI_IPC,),
    StackKind.MPICH: (MPICH_GPU, MPICH_THRESHOLD, MPICH_DIRECTION, MPICH_REPEAT),
    StackKind.CRAY_MPICH: (CRAY_GPU, CRAY_IPC, CRAY_THRESHOLD),
}
UCX_SOURCE = "ucx_info -cf"
OMPI_SOURCE = "ompi_info --param btl smcuda --level 9"
MPICH_SOURCE = "mpivars; MPICH src/mpid/ch4/shm/ipc/gpu/gpu_post.c"
CRAY_SOURCE = "HPE Cray MPI, man page intro_mpi"

_NEVER = str(2**31 - 1)  # bytes: no message is that large, and the variable is an int
_VISIBLE = "the sender must see the receiver's GPU: not with --visibility mask"
_BLIND = "MPICH does not ask whether peers can be accessed: a pair that cannot fails"


def settings_of(
    kind: StackKind, variables: Mapping[str, str], crossing_bytes: int | None
) -> tuple[Setting, ...]:
    """What could be set for a stack.

    Args:
        kind: the stack.
        variables: the user's own, which some settings must take back or go on with.
        crossing_bytes: size from which on direct copies are measured faster than staged ones; None
            if there is none. Stacks with a threshold get a setting for it.
    """
    if kind is StackKind.OPENMPI_UCX:
        return _ucx(variables)
    if kind is StackKind.OPENMPI_OB1:
        return _ob1()
    if kind is StackKind.MPICH:
        return _mpich(crossing_bytes)
    return _cray(crossing_bytes)


def has_cuda_ipc(tls: str) -> bool:
    """Whether UCX_TLS leaves the transport `cuda_ipc` in."""
    names = [each.strip() for each in tls.lstrip("^").split(",") if each.strip()]
    named = bool({"cuda_ipc", "cuda"} & set(names))
    return not named if tls.startswith("^") else named or "all" in names or not names


def with_cuda_ipc(tls: str) -> str:
    """UCX_TLS as it is, with `cuda_ipc` in it."""
    if has_cuda_ipc(tls):
        return tls
    names = [each.strip() for each in tls.lstrip("^").split(",") if each.strip()]
    if tls.startswith("^"):
        left = [each for each in names if each not in ("cuda_ipc", "cuda")]
        return f"^{','.join(left)}" if left else "all"
    return ",".join([*names, "cuda_ipc"])


def without_cuda_ipc(tls: str) -> str:
    """UCX_TLS as it is, without `cuda_ipc`; `cuda` stands for `cuda_copy` and `cuda_ipc`."""
    if not has_cuda_ipc(tls):
        return tls
    names = [each.strip() for each in tls.lstrip("^").split(",") if each.strip()]
    if tls.startswith("^"):
        return f"^{','.join([*names, 'cuda_ipc'])}"
    if "all" in names or not names:
        return "^cuda_ipc"
    left = ["cuda_copy" if each == "cuda" else each for each in names if each != "cuda_ipc"]
    return ",".join(dict.fromkeys(left)) or "^cuda_ipc"


def _ucx(variables: Mapping[str, str]) -> tuple[Setting, ...]:
    tls = variables.get(UCX_TLS, "all")
    direct = {} if has_cuda_ipc(tls) else {UCX_TLS: with_cuda_ipc(tls)}
    found = [
        Setting(
            name="receiver reads",
            variables={UCX_SCHEME: "get_zcopy", UCX_GET: "on", **direct},
            rule=rule_of(_GET),
            source=UCX_SOURCE,
            caution=f"without {UCX_GET} a node without NVLink falls back to eager copies",
        ),
        Setting(
            name="sender writes",
            variables={UCX_SCHEME: "put_zcopy", **direct},
            rule=rule_of(_PUT),
            source=UCX_SOURCE,
        ),
        Setting(
            name="through the host",
            variables={UCX_SCHEME: "auto", UCX_TLS: without_cuda_ipc(tls)},
            rule=rule_of(_STAGED),
            source=UCX_SOURCE,
            caution=f"{UCX_SCHEME} must be auto: put_zcopy without cuda_ipc means eager copies",
        ),
    ]
    return tuple(found)


def _ob1() -> tuple[Setting, ...]:
    return (
        Setting(
            name="receiver reads",
            variables={OMPI_IPC: "1"},
            rule=rule_of(_GET),
            source=OMPI_SOURCE,
            caution="smcuda compares device numbers: not with --visibility mask or rotate",
        ),
        Setting(
            name="through the host",
            variables={OMPI_IPC: "0"},
            rule=rule_of(_STAGED),
            source=OMPI_SOURCE,
        ),
    )


def _mpich(crossing_bytes: int | None) -> tuple[Setting, ...]:
    always = {MPICH_THRESHOLD: "1"}
    found = [
        Setting(
            name="receiver reads",
            variables={**always, MPICH_DIRECTION: "read"},
            rule=rule_of(_GET),
            source=MPICH_SOURCE,
            caution=_BLIND,
        ),
        Setting(
            name="sender writes",
            variables={**always, MPICH_DIRECTION: "write"},
            rule=rule_of(_PUT),
            source=MPICH_SOURCE,
            caution=f"{_VISIBLE}; {_BLIND}",
        ),
        Setting(
            name="through the host",
            variables={MPICH_THRESHOLD: _NEVER, MPICH_REPEAT: "0"},
            rule=rule_of(_STAGED),
            source=MPICH_SOURCE,
        ),
    ]
    if crossing_bytes:
        found.append(
            Setting(
                name=f"receiver reads from {crossing_bytes} bytes on",
                variables={
                    MPICH_THRESHOLD: str(crossing_bytes),
                    MPICH_REPEAT: "0",
                    MPICH_DIRECTION: "read",
                },
                rule=rule_of(_GET, threshold_bytes=crossing_bytes),
                source=MPICH_SOURCE,
                caution=_BLIND,
            )
        )
    return tuple(found)


def _cray(crossing_bytes: int | None) -> tuple[Setting, ...]:
    found = [
        Setting(
            name="direct",
            variables={CRAY_IPC: "1", CRAY_THRESHOLD: "1"},
            rule=rule_of(_GET),
            source=CRAY_SOURCE,
        ),
        Setting(
            name="through the host",
            variables={CRAY_IPC: "0"},
            rule=rule_of(_STAGED),
            source=CRAY_SOURCE,
        ),
    ]
    if crossing_bytes:
        found.append(
            Setting(
                name=f"direct from {crossing_bytes} bytes on",
                variables={CRAY_IPC: "1", CRAY_THRESHOLD: str(crossing_bytes)},
                rule=rule_of(_GET, threshold_bytes=crossing_bytes),
                source=CRAY_SOURCE,
            )
        )
    return tuple(found)
