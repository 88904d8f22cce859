"""Questions about start-up, devices, contexts, memory, pointers, streams and events."""

from __future__ import annotations

import ctypes
from ctypes import byref, c_float, c_int, c_size_t, c_uint, c_uint64, c_void_p
from typing import Any

from benchmarks.driver_conformance.calls import Calls
from benchmarks.driver_conformance.record import question

_PAGE = 4096


@question("start: before cuInit")
def _before(calls: Calls) -> Any:
    return [
        calls.code("cuDeviceGetCount", byref(c_int())),
        calls.code("cuMemAlloc_v2", byref(c_uint64()), c_size_t(64)),
        calls.code("cuInit", c_uint(1)),
    ]


@question("start: without a context")
def _no_context(calls: Calls) -> Any:
    calls.devices()
    return [
        calls.code("cuMemAlloc_v2", byref(c_uint64()), c_size_t(64)),
        calls.code("cuStreamCreate", byref(c_void_p()), c_uint(0)),
        calls.code("cuEventCreate", byref(c_void_p()), c_uint(0)),
        calls.code("cuMemGetInfo_v2", byref(c_size_t()), byref(c_size_t())),
        calls.code("cuCtxSynchronize"),
    ]


@question("start: an unknown call")
def _unknown_call(calls: Calls) -> Any:
    calls.devices()
    found, status = c_void_p(1), c_int(-1)
    code = calls.code(
        "cuGetProcAddress_v2",
        b"cuNoSuchCall",
        byref(found),
        c_int(12000),
        c_uint64(0),
        byref(status),
    )
    return [code, bool(found.value), status.value]


def _count(calls: Calls) -> Any:
    count = c_int(-1)
    return [
        calls.code("cuInit", c_uint(0)),
        calls.code("cuDeviceGetCount", byref(count)),
        count.value,
    ]


for _list in ("0,0", "", "none", "-1", "0,-1", "0,999", "999", " 0", "0 ", "GPU-", "x"):
    question(f"visible: {_list!r}", environment={"CUDA_VISIBLE_DEVICES": _list})(_count)
question("visible: '1,0,1'", gpus=2, environment={"CUDA_VISIBLE_DEVICES": "1,0,1"})(_count)


@question("devices: ordinals that are none")
def _ordinals(calls: Calls) -> Any:
    count, device = calls.devices(), c_int()
    return [
        calls.code("cuDeviceGet", byref(device), c_int(count)),
        calls.code("cuDeviceGet", byref(device), c_int(-1)),
        calls.code("cuDeviceGetAttribute", byref(c_int()), c_int(1), c_int(count)),
        calls.code("cuDeviceGetAttribute", byref(c_int()), c_int(0), c_int(0)),
        calls.code("cuDeviceGetAttribute", byref(c_int()), c_int(9999), c_int(0)),
        calls.code("cuDeviceGetByPCIBusId", byref(device), b"0000:ff:1f.0"),
        calls.code("cuDevicePrimaryCtxRetain", byref(c_void_p()), c_int(count)),
    ]


@question("devices: features that memory between processes needs")
def _features(calls: Calls) -> Any:
    calls.devices()
    found = {}
    for name, number in (
        ("unified addressing", 41),
        ("virtual memory", 102),
        ("its file descriptors", 103),
        ("pools", 115),
    ):
        value = c_int(-1)
        found[name] = [
            calls.code("cuDeviceGetAttribute", byref(value), c_int(number), c_int(0)),
            value.value,
        ]
    return found


@question("memory: sizes and pointers that are none")
def _sizes(calls: Calls) -> Any:
    calls.start()
    pointer = calls.allocate(1000)
    return [
        calls.code("cuMemAlloc_v2", byref(c_uint64()), c_size_t(0)),
        calls.code("cuMemAlloc_v2", byref(c_uint64()), c_size_t(1 << 50)),
        calls.code("cuMemFree_v2", c_uint64(pointer + 8)),
        calls.code("cuMemFree_v2", c_uint64(0)),
        calls.code("cuMemFree_v2", c_uint64(pointer)),
        calls.code("cuMemFree_v2", c_uint64(pointer)),
    ]


@question("memory: its range")
def _range(calls: Calls) -> Any:
    calls.start()
    pointer, base, size = calls.allocate(1000), c_uint64(), c_size_t()
    inside = calls.code(
        "cuMemGetAddressRange_v2", byref(base), byref(size), c_uint64(pointer + 999)
    )
    found = [inside, base.value - pointer, size.value]
    calls.do("cuMemFree_v2", c_uint64(pointer))
    after = calls.code("cuMemGetAddressRange_v2", byref(base), byref(size), c_uint64(pointer))
    host = ctypes.create_string_buffer(8)
    none = calls.code(
        "cuMemGetAddressRange_v2", byref(base), byref(size), c_uint64(ctypes.addressof(host))
    )
    return [*found, after, none]


@question("memory: copies over the end, and fills")
def _copies(calls: Calls) -> Any:
    calls.start()
    a, b = calls.allocate(1 << 21), calls.allocate(1 << 21)
    size = c_size_t((1 << 21) + 1)
    return [
        calls.code("cuMemcpyDtoD_v2", c_uint64(b), c_uint64(a), size),
        calls.code("cuMemsetD32_v2", c_uint64(a + 2), c_uint(0), c_size_t(4)),
        calls.code("cuMemsetD8_v2", c_uint64(a), ctypes.c_ubyte(0), c_size_t(0)),
        calls.code("cuMemcpyDtoD_v2", c_uint64(b), c_uint64(a), c_size_t(0)),
        calls.code("cuMemcpyDtoD_v2", c_uint64(0), c_uint64(a), c_size_t(8)),
    ]


@question("memory: touched by the host")
def _touched(calls: Calls) -> Any:
    calls.start()
    return ctypes.string_at(calls.allocate(), 1).hex()


@question("memory: registered host memory")
def _registered(calls: Calls) -> Any:
    calls.start()
    room = ctypes.create_string_buffer(4 * _PAGE)
    at = c_void_p((ctypes.addressof(room) + _PAGE - 1) // _PAGE * _PAGE)
    size, none = c_size_t(2 * _PAGE), c_uint(0)
    return [
        calls.code("cuMemHostUnregister", at),
        calls.code("cuMemHostRegister_v2", at, size, none),
        calls.code("cuMemHostRegister_v2", at, size, none),
        calls.code("cuMemHostUnregister", c_void_p((at.value or 0) + _PAGE)),
        calls.code("cuMemFreeHost", at),
        calls.code("cuMemHostUnregister", at),
        calls.code("cuMemHostRegister_v2", at, c_size_t(0), none),
    ]


_WHICH = (2, 6, 8, 9, 10, 13, 14, 16, 99)  # type, sync, managed, ordinal, IPC, mapped, handles, ...


def _attributes(calls: Calls, pointer: int) -> dict[str, list[int]]:
    return {str(which): calls.attribute(which, pointer) for which in _WHICH}


@question("pointers: device memory")
def _of_device(calls: Calls) -> Any:
    calls.start()
    return _attributes(calls, calls.allocate())


@question("pointers: memory that the driver does not know")
def _of_host(calls: Calls) -> Any:
    calls.start()
    room = ctypes.create_string_buffer(64)
    return _attributes(calls, ctypes.addressof(room))


@question("pointers: pinned host memory")
def _of_pinned(calls: Calls) -> Any:
    calls.start()
    pointer = c_void_p()
    calls.do("cuMemAllocHost_v2", byref(pointer), c_size_t(_PAGE))
    return _attributes(calls, pointer.value or 0)


@question("pointers: managed memory")
def _of_managed(calls: Calls) -> Any:
    calls.start()
    pointer = c_uint64()
    calls.do("cuMemAllocManaged", byref(pointer), c_size_t(_PAGE), c_uint(1))
    return _attributes(calls, pointer.value)


@question("pointers: buffer ids are not used again")
def _ids(calls: Calls) -> Any:
    calls.start()
    first = calls.allocate()
    known = calls.attribute(7, first)
    calls.do("cuMemFree_v2", c_uint64(first))
    second = calls.allocate()
    again = calls.attribute(7, second)
    return [known[0], again[0], known[1] != again[1]]


@question("streams: waiting, asking, destroying")
def _streams(calls: Calls) -> Any:
    calls.start()
    stream = calls.stream()
    return [
        calls.code("cuStreamQuery", stream),
        calls.code("cuStreamQuery", c_void_p(0)),
        calls.code("cuStreamSynchronize", c_void_p(0)),
        calls.code("cuStreamCreate", byref(c_void_p()), c_uint(9)),
        calls.code("cuStreamDestroy_v2", stream),
        calls.code("cuStreamDestroy_v2", c_void_p(0)),
    ]


@question("events: flags, and what was never recorded")
def _events(calls: Calls) -> Any:
    calls.start()
    timed, quiet, between = calls.event(0), calls.event(2), c_void_p()
    took = c_float()
    return [
        calls.code("cuEventCreate", byref(between), c_uint(4)),
        calls.code("cuEventCreate", byref(between), c_uint(6)),
        calls.code("cuEventQuery", timed),
        calls.code("cuEventSynchronize", timed),
        calls.code("cuEventElapsedTime", byref(took), timed, timed),
        calls.code("cuEventRecord", quiet, c_void_p(0)),
        calls.code("cuEventElapsedTime", byref(took), quiet, quiet),
        calls.code("cuEventDestroy_v2", quiet),
    ]


@question("peers: with itself")
def _self_peer(calls: Calls) -> Any:
    context, can = calls.start(), c_int(-1)
    return [
        calls.code("cuDeviceCanAccessPeer", byref(can), c_int(0), c_int(0)),
        can.value,
        calls.code("cuCtxEnablePeerAccess", context, c_uint(0)),
        calls.code("cuCtxDisablePeerAccess", context),
        calls.code("cuDeviceGetP2PAttribute", byref(can), c_int(2), c_int(0), c_int(0)),
    ]


@question("peers: enabled twice, disabled twice", gpus=2)
def _twice(calls: Calls) -> Any:
    other = calls.start(1)
    calls.start(0)
    return [
        calls.code("cuCtxDisablePeerAccess", other),
        calls.code("cuCtxEnablePeerAccess", other, c_uint(1)),
        calls.code("cuCtxEnablePeerAccess", other, c_uint(0)),
        calls.code("cuCtxEnablePeerAccess", other, c_uint(0)),
        calls.code("cuCtxDisablePeerAccess", other),
    ]
