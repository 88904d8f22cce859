"""Questions about memory between processes: IPC, events, virtual memory and pools."""

from __future__ import annotations

import ctypes
import os
import signal
import socket
from collections.abc import Callable
from ctypes import byref, c_int, c_size_t, c_uint, c_uint64, c_void_p
from typing import Any

from benchmarks.driver_conformance.calls import (
    POSIX_FILE,
    AllocationProperties,
    Calls,
    Handle,
    PoolProperties,
)
from benchmarks.driver_conformance.record import question

_Side = Callable[[Calls, socket.socket], Any]


def _two(calls: Calls, owner: _Side, opener: _Side) -> Any:
    """The opener's answer; the owner is another process, and lives as long as the opener asks."""
    ours, theirs = socket.socketpair()
    ours.settimeout(20)
    theirs.settimeout(20)
    child = os.fork()
    if child == 0:
        ours.close()
        try:
            owner(calls, theirs)
            theirs.recv(1)  # until the opener is done
        finally:
            os._exit(0)
    theirs.close()
    try:
        return opener(calls, ours)
    finally:
        ours.close()
        os.waitpid(child, 0)


def _own_buffer(calls: Calls, end: socket.socket) -> int:
    calls.start()
    pointer = calls.allocate()
    calls.put(pointer, b"owner")
    end.sendall(bytes(calls.export(pointer)))
    return pointer


def _heard(end: socket.socket) -> Handle:
    return Handle.from_buffer_copy(end.recv(64, socket.MSG_WAITALL))


@question("ipc: one's own handle, nonsense, other memory")
def _own(calls: Calls) -> Any:
    calls.start()
    handle = calls.export(calls.allocate())
    pinned, managed = c_void_p(), c_uint64()
    calls.do("cuMemAllocHost_v2", byref(pinned), c_size_t(4096))
    calls.do("cuMemAllocManaged", byref(managed), c_size_t(4096), c_uint(1))
    room = Handle()
    return [
        calls.open(handle)[0],
        calls.open(Handle())[0],
        calls.code("cuIpcGetMemHandle", byref(room), c_uint64(pinned.value or 0)),
        calls.code("cuIpcGetMemHandle", byref(room), managed),
        calls.code("cuIpcGetMemHandle", byref(room), c_uint64(ctypes.addressof(room))),
        calls.close(0),
    ]


@question("ipc: opened twice, closed thrice")
def _twice(calls: Calls) -> Any:
    def opener(calls: Calls, end: socket.socket) -> Any:
        calls.start()
        handle = _heard(end)
        flags = calls.open(handle, 0)[0]
        (one, first), (two, second) = calls.open(handle), calls.open(handle)
        codes = [flags, one, two, first == second, calls.get(first, 5).decode()]
        return [*codes, *(calls.close(first) for _ in range(3))]

    return _two(calls, _own_buffer, opener)


@question("ipc: a handle of the middle of a buffer")
def _middle(calls: Calls) -> Any:
    def owner(calls: Calls, end: socket.socket) -> None:
        calls.start()
        pointer = calls.allocate()
        calls.put(pointer, b"start" + bytes(1019) + b"inner")
        end.sendall(bytes(calls.export(pointer + 1024)))

    def opener(calls: Calls, end: socket.socket) -> Any:
        calls.start()
        code, pointer = calls.open(_heard(end))
        return [code, calls.get(pointer, 5).decode() if code == 0 else ""]

    return _two(calls, owner, opener)


@question("ipc: freed memory, and memory at its place")
def _freed(calls: Calls) -> Any:
    def owner(calls: Calls, end: socket.socket) -> None:
        first = _own_buffer(calls, end)
        end.recv(1)
        calls.do("cuMemFree_v2", c_uint64(first))
        second = calls.allocate()
        end.sendall(bytes([first == second]) + bytes(calls.export(second)))

    def opener(calls: Calls, end: socket.socket) -> Any:
        calls.start()
        handle = _heard(end)
        opened, pointer = calls.open(handle)
        end.sendall(b"f")
        same_place = bool(end.recv(1)[0])
        other = _heard(end)
        codes = [opened, same_place, calls.open(other)[0], calls.close(pointer)]
        return [*codes, calls.open(handle)[0], calls.open(other)[0]]

    return _two(calls, owner, opener)


@question("ipc: freed before it was opened, and taken again")
def _freed_unopened(calls: Calls) -> Any:
    def owner(calls: Calls, end: socket.socket) -> None:
        first = _own_buffer(calls, end)
        end.recv(1)
        calls.do("cuMemFree_v2", c_uint64(first))
        end.sendall(b"f")
        end.recv(1)
        second = calls.allocate()
        calls.put(second, b"other")
        end.sendall(bytes([first == second]) + bytes(calls.export(second)))

    def opener(calls: Calls, end: socket.socket) -> Any:
        calls.start()
        handle = _heard(end)
        end.sendall(b"f")
        end.recv(1)
        freed = _opened(calls, handle)
        end.sendall(b"a")
        same_place = bool(end.recv(1)[0])
        other = _heard(end)
        return [freed, same_place, _opened(calls, handle), _opened(calls, other)]

    return _two(calls, owner, opener)


@question("ipc: opened, closed, freed, opened again")
def _opened_again(calls: Calls) -> Any:
    def owner(calls: Calls, end: socket.socket) -> None:
        first = _own_buffer(calls, end)
        end.recv(1)
        calls.do("cuMemFree_v2", c_uint64(first))
        end.sendall(b"f")

    def opener(calls: Calls, end: socket.socket) -> Any:
        calls.start()
        handle = _heard(end)
        code, pointer = calls.open(handle)
        closed = calls.close(pointer)
        end.sendall(b"f")
        end.recv(1)
        return [code, closed, _opened(calls, handle)]

    return _two(calls, owner, opener)


def _opened(calls: Calls, handle: Handle) -> list[Any]:
    """The code, and what the memory holds."""
    code, pointer = calls.open(handle)
    return [code, calls.get(pointer, 5).decode(errors="replace") if code == 0 else ""]


def _ended(end: socket.socket) -> None:
    """Wait until the owner is no more: its files close one after the other."""
    assert end.recv(1) == b""
    os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOWAIT)


def _killed_owner(calls: Calls, end: socket.socket) -> None:
    _own_buffer(calls, end)
    end.recv(1)
    os.kill(os.getpid(), signal.SIGKILL)


@question("ipc: the owner was killed before it was opened")
def _killed_unopened(calls: Calls) -> Any:
    def opener(calls: Calls, end: socket.socket) -> Any:
        calls.start()
        handle = _heard(end)
        end.sendall(b"k")
        _ended(end)
        return _opened(calls, handle)

    return _two(calls, _killed_owner, opener)


@question("ipc: the owner was killed")
def _killed(calls: Calls) -> Any:
    def opener(calls: Calls, end: socket.socket) -> Any:
        calls.start()
        handle = _heard(end)
        code, pointer = calls.open(handle)
        end.sendall(b"k")
        _ended(end)
        kept = calls.get(pointer, 5).decode()
        return [code, kept, calls.close(pointer), calls.open(handle)[0]]

    return _two(calls, _killed_owner, opener)


@question("ipc: a device that the opener does not see", gpus=2)
def _masked(calls: Calls) -> Any:
    def opener(calls: Calls, end: socket.socket) -> Any:
        os.environ["CUDA_VISIBLE_DEVICES"] = "1"
        calls.start()
        code, pointer = calls.open(_heard(end))
        return [code, calls.attribute(9, pointer) if code == 0 else []]

    return _two(calls, _own_buffer, opener)


@question("ipc events: which can be shared")
def _events(calls: Calls) -> Any:
    calls.start()
    handle, event = Handle(), calls.event(6)
    return [
        calls.code("cuIpcGetEventHandle", byref(handle), calls.event(2)),
        calls.code("cuIpcGetEventHandle", byref(handle), event),
        calls.code("cuIpcOpenEventHandle", byref(c_void_p()), handle),
        calls.code("cuIpcOpenEventHandle", byref(c_void_p()), Handle()),
    ]


@question("ipc events: in another process")
def _events_there(calls: Calls) -> Any:
    def owner(calls: Calls, end: socket.socket) -> None:
        calls.start()
        handle, event, stream = Handle(), calls.event(6), calls.stream()
        calls.do("cuIpcGetEventHandle", byref(handle), event)
        calls.do("cuEventRecord", event, stream)
        calls.do("cuStreamSynchronize", stream)
        end.sendall(bytes(handle))

    def opener(calls: Calls, end: socket.socket) -> Any:
        calls.start()
        handle, event = _heard(end), c_void_p()
        codes = [calls.code("cuIpcOpenEventHandle", byref(event), handle)]
        if codes == [0]:
            codes += [calls.code("cuEventQuery", event), calls.code("cuEventSynchronize", event)]
            codes.append(calls.code("cuStreamWaitEvent", calls.stream(), event, c_uint(0)))
            codes.append(calls.code("cuIpcGetEventHandle", byref(Handle()), event))
            codes.append(calls.code("cuEventDestroy_v2", event))
        return codes

    return _two(calls, owner, opener)


@question("virtual memory: sizes, maps, ends")
def _virtual(calls: Calls) -> Any:
    calls.start()
    size = calls.granule()
    handle, at = calls.create(size), calls.reserve(2 * size)
    none = c_uint64(0)
    room = c_size_t(size)
    odd = c_size_t(size + 1)
    return [
        calls.code("cuMemAddressReserve", byref(c_uint64()), odd, c_size_t(0), none, none),
        calls.map(at + 1, size, handle),
        calls.map(at, size, handle),
        calls.map(at, size, handle),
        calls.code("cuMemAddressFree", c_uint64(at), c_size_t(2 * size)),
        calls.code("cuIpcGetMemHandle", byref(Handle()), c_uint64(at)),
        calls.code("cuMemFree_v2", c_uint64(at)),
        calls.code("cuMemUnmap", c_uint64(at), room),
        calls.code("cuMemUnmap", c_uint64(at), room),
        calls.code("cuMemRelease", handle),
        calls.code("cuMemRelease", handle),
        calls.code("cuMemAddressFree", c_uint64(at), c_size_t(2 * size)),
    ]


@question("virtual memory: what a pointer says")
def _virtual_pointer(calls: Calls) -> Any:
    calls.start()
    size = calls.granule()
    at = calls.reserve(2 * size)
    for piece in range(2):
        calls.map(at + piece * size, size, calls.create(size))
    base, length = c_uint64(), c_size_t()
    calls.do("cuMemGetAddressRange_v2", byref(base), byref(length), c_uint64(at + size + 5))
    calls.put(at + size - 5, b"across")  # the border of two allocations
    return {
        "range": [base.value - at, length.value // size],
        "across": calls.get(at + size - 5, 6).decode(),
        **{str(which): calls.attribute(which, at) for which in (2, 8, 9, 10, 13, 14, 16)},
    }


@question("virtual memory: handles for others")
def _virtual_export(calls: Calls) -> Any:
    calls.start()
    size, file, none = calls.granule(), c_int(-1), c_uint64(0)
    shared, private = calls.create(size), calls.create(size, 0)
    windows = AllocationProperties(1, 2, 1, 0)  # another system's handles
    name = "cuMemExportToShareableHandle"
    return [
        calls.code(name, byref(file), shared, c_int(POSIX_FILE), none),
        file.value >= 0,
        calls.code(name, byref(file), private, c_int(POSIX_FILE), none),
        calls.code("cuMemImportFromShareableHandle", byref(none), c_void_p(0), c_int(POSIX_FILE)),
        calls.code("cuMemCreate", byref(none), c_size_t(size), byref(windows), none),
    ]


def _pool(calls: Calls, handle_types: int = POSIX_FILE) -> c_void_p:
    pool = c_void_p()
    calls.do("cuMemPoolCreate", byref(pool), byref(PoolProperties(1, handle_types, 1, 0)))
    return pool


@question("pools: memory in the order of a stream")
def _stream_ordered(calls: Calls) -> Any:
    calls.start()
    stream, pointer = calls.stream(), c_uint64()
    codes = [
        calls.code("cuMemAllocAsync", byref(pointer), c_size_t(0), stream),
        bool(pointer.value),
        calls.code("cuMemAllocAsync", byref(pointer), c_size_t(1 << 50), stream),
        calls.code("cuMemAllocAsync", byref(pointer), c_size_t(4096), stream),
        calls.code("cuIpcGetMemHandle", byref(Handle()), pointer),
        calls.attribute(10, pointer.value),
        calls.attribute(14, pointer.value),
        calls.code("cuMemFreeAsync", pointer, stream),
        calls.code("cuMemFreeAsync", pointer, stream),
        calls.code("cuStreamSynchronize", stream),
        calls.code("cuMemFreeAsync", c_uint64(calls.allocate()), stream),
    ]
    calls.do("cuMemAllocAsync", byref(pointer), c_size_t(4096), stream)
    return [*codes, calls.code("cuMemFree_v2", pointer)]


@question("pools: what is refused")
def _pool_errors(calls: Calls) -> Any:
    calls.start()
    standing, file, none, value = c_void_p(), c_int(), c_uint64(0), c_uint64(7)
    calls.do("cuDeviceGetDefaultMemPool", byref(standing), c_int(0))
    pool, pointer = _pool(calls), c_uint64()
    calls.do("cuMemAllocFromPoolAsync", byref(pointer), c_size_t(4096), pool, c_void_p(0))
    posix = c_int(POSIX_FILE)
    return {
        "destroy the device's": calls.code("cuMemPoolDestroy", standing),
        "export the device's": calls.code(
            "cuMemPoolExportToShareableHandle", byref(file), standing, posix, none
        ),
        "high mark not zero": calls.code("cuMemPoolSetAttribute", pool, c_int(8), byref(value)),
        "no attribute": calls.code("cuMemPoolGetAttribute", pool, c_int(99), byref(value)),
        "pointer before pool": calls.code("cuMemPoolExportPointer", byref(Handle()), pointer),
        "pool": calls.code("cuMemPoolExportToShareableHandle", byref(file), pool, posix, none),
        "pointer after pool": calls.code("cuMemPoolExportPointer", byref(Handle()), pointer),
        "other type": calls.code(
            "cuMemPoolCreate", byref(c_void_p()), byref(PoolProperties(1, 2, 1, 0))
        ),
    }
