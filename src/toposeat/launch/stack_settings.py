"""The settings that each stack has for moving device messages, and where they are documented.

Short on purpose: only variables whose effect is one of the protocols that `measure` measures. Names
and meanings are those of the named sources; `docs/how-to/choose-a-protocol.md` shows the table.
"""

from __future__ import annotations

from collections.abc import Mapping

from toposeat.model.protocol import Setting, StackKind, rule_of
from toposeat.model.route import CopyProtocol

_READS = "receiver reads", CopyProtocol.GET
_WRITES = "sender writes", CopyProtocol.PUT
_HOST = "through the host", CopyProtocol.STAGED
_DIRECT = "direct", CopyProtocol.GET  # of Cray and Intel, who do not say which side copies

UCX_TLS, UCX_SCHEME = "UCX_TLS", "UCX_RNDV_SCHEME"
UCX_GET = "UCX_CUDA_IPC_ENABLE_GET_ZCOPY"
OMPI_IPC = "OMPI_MCA_btl_smcuda_use_cuda_ipc"
MPICH_THRESHOLD = "MPIR_CVAR_CH4_IPC_GPU_P2P_THRESHOLD"
MPICH_DIRECTION = "MPIR_CVAR_CH4_IPC_GPU_READ_WRITE_PROTOCOL"
MPICH_REPEAT = "MPIR_CVAR_CH4_IPC_MAP_REPEAT_ADDR"
MPICH_GPU = "MPIR_CVAR_ENABLE_GPU"
CRAY_IPC, CRAY_THRESHOLD = "MPICH_GPU_IPC_ENABLED", "MPICH_GPU_IPC_THRESHOLD"
CRAY_GPU = "MPICH_GPU_SUPPORT_ENABLED"
INTEL_GPU, INTEL_IPC = "I_MPI_OFFLOAD", "I_MPI_OFFLOAD_IPC"
UCX_PIECE = "UCX_RNDV_FRAG_SIZE"

# What steers each stack: these are looked for in the environment and on the launch line.
STEERING: Mapping[StackKind, tuple[str, ...]] = {
    StackKind.OPENMPI_UCX: (
        *(UCX_TLS, UCX_SCHEME, UCX_GET, "UCX_RNDV_THRESH", "UCX_CUDA_IPC_BW"),
        *("UCX_PROTO_ENABLE", "UCX_RNDV_FRAG_MEM_TYPES", "UCX_MEMTYPE_CACHE", UCX_PIECE),
    ),
    StackKind.OPENMPI_OB1: (OMPI_IPC,),
    StackKind.MPICH: (MPICH_GPU, MPICH_THRESHOLD, MPICH_DIRECTION, MPICH_REPEAT),
    StackKind.CRAY_MPICH: (CRAY_GPU, CRAY_IPC, CRAY_THRESHOLD),
    StackKind.INTEL_MPI: (INTEL_GPU, INTEL_IPC),
}
UCX_SOURCE = "ucx_info -cf"
OMPI_SOURCE = "ompi_info --param btl smcuda --level 9"
MPICH_SOURCE = "mpivars; MPICH src/mpid/ch4/shm/ipc/gpu/gpu_post.c"
CRAY_SOURCE = "HPE Cray MPI, man page intro_mpi"
INTEL_SOURCE = "Intel MPI Library, Developer Reference for Linux, GPU Buffers Support"

_NEVER = str(2**31 - 1)  # bytes: no message is that large, and the variable is an int
_VISIBLE = "the sender must see the receiver's GPU: not with --visibility mask"
_BLIND = "MPICH does not ask whether peers can be accessed: a pair that cannot fails"


def settings_of(kind: StackKind, variables: Mapping[str, str]) -> tuple[Setting, ...]:
    """What could be set for a stack.

    Args:
        kind: the stack.
        variables: the user's own, which some settings must take back or go on with.
    """
    if kind is StackKind.OPENMPI_UCX:
        return _ucx(variables)
    if kind is StackKind.OPENMPI_OB1:
        return _ob1()
    if kind is StackKind.MPICH:
        return _mpich()
    if kind is StackKind.INTEL_MPI:
        return tuple(
            _setting(INTEL_SOURCE, what, {INTEL_GPU: "1", INTEL_IPC: value})
            for what, value in ((_DIRECT, "1"), (_HOST, "0"))
        )
    return _cray()


def _names(tls: str) -> list[str]:
    return [each.strip() for each in tls.lstrip("^").split(",") if each.strip()]


def has_cuda_ipc(tls: str) -> bool:
    """Whether UCX_TLS leaves the transport `cuda_ipc` in."""
    names = _names(tls)
    named = bool({"cuda_ipc", "cuda"} & set(names))
    return not named if tls.startswith("^") else named or "all" in names or not names


def with_cuda_ipc(tls: str) -> str:
    """UCX_TLS as it is, with `cuda_ipc` in it."""
    if has_cuda_ipc(tls):
        return tls
    names = _names(tls)
    if tls.startswith("^"):
        left = [each for each in names if each not in ("cuda_ipc", "cuda")]
        return f"^{','.join(left)}" if left else "all"
    return ",".join([*names, "cuda_ipc"])


def without_cuda_ipc(tls: str) -> str:
    """UCX_TLS as it is, without `cuda_ipc`; `cuda` stands for `cuda_copy` and `cuda_ipc`."""
    if not has_cuda_ipc(tls):
        return tls
    names = _names(tls)
    if tls.startswith("^"):
        return f"^{','.join([*names, 'cuda_ipc'])}"
    if "all" in names or not names:
        return "^cuda_ipc"
    left = ["cuda_copy" if each == "cuda" else each for each in names if each != "cuda_ipc"]
    return ",".join(dict.fromkeys(left)) or "^cuda_ipc"


def _ucx(variables: Mapping[str, str]) -> tuple[Setting, ...]:
    tls = variables.get(UCX_TLS, "all")
    direct = {} if has_cuda_ipc(tls) else {UCX_TLS: with_cuda_ipc(tls)}
    return (
        _setting(
            *(UCX_SOURCE, _READS, {UCX_SCHEME: "get_zcopy", UCX_GET: "on", **direct}),
            caution=f"without {UCX_GET} a node without NVLink falls back to eager copies",
        ),
        _setting(UCX_SOURCE, _WRITES, {UCX_SCHEME: "put_zcopy", **direct}),
        _setting(
            *(UCX_SOURCE, _HOST, {UCX_SCHEME: "auto", UCX_TLS: without_cuda_ipc(tls)}),
            caution=f"{UCX_SCHEME} must be auto: put_zcopy without cuda_ipc means eager copies",
        ),
    )


def _ob1() -> tuple[Setting, ...]:
    caution = "smcuda compares device numbers: not with --visibility mask or rotate"
    return (
        _setting(OMPI_SOURCE, _READS, {OMPI_IPC: "1"}, caution=caution),
        _setting(OMPI_SOURCE, _HOST, {OMPI_IPC: "0"}),
    )


def _mpich() -> tuple[Setting, ...]:
    always, never = {MPICH_THRESHOLD: "1"}, {MPICH_THRESHOLD: _NEVER, MPICH_REPEAT: "0"}
    reads, writes = {MPICH_DIRECTION: "read"}, {MPICH_DIRECTION: "write"}
    return (
        _setting(MPICH_SOURCE, _READS, always | reads, caution=_BLIND),
        _setting(MPICH_SOURCE, _WRITES, always | writes, caution=f"{_VISIBLE}; {_BLIND}"),
        _setting(MPICH_SOURCE, _HOST, never),
    )


def _cray() -> tuple[Setting, ...]:
    on = {CRAY_IPC: "1"}
    return (
        _setting(CRAY_SOURCE, _DIRECT, {**on, CRAY_THRESHOLD: "1"}),
        _setting(CRAY_SOURCE, _HOST, {CRAY_IPC: "0"}),
    )


def _setting(
    source: str,
    what: tuple[str, CopyProtocol],
    variables: Mapping[str, str],
    *,
    caution: str = "",
) -> Setting:
    name, protocol = what
    return Setting(
        name=name,
        variables=variables,
        rule=rule_of(protocol),
        source=source,
        caution=caution,
    )
