"""The driver API by ctypes: result codes, and a few calls that must succeed."""

from __future__ import annotations

import ctypes
from ctypes import byref, c_int, c_size_t, c_ubyte, c_uint, c_uint64, c_void_p
from typing import Any

LIBRARY = "libcuda.so.1"
POSIX_FILE = 1
READ_WRITE = 3


class Handle(ctypes.Structure):
    """CUipcMemHandle, CUipcEventHandle, CUmemPoolPtrExportData: 64 bytes."""

    _fields_ = [("bytes", c_ubyte * 64)]


class AllocationProperties(ctypes.Structure):
    """CUmemAllocationProp: pinned memory of a device."""

    _fields_ = [
        ("type", c_int),
        ("handle_types", c_int),
        ("where", c_int),
        ("device", c_int),
        ("meta", c_void_p),
        ("flags", c_ubyte * 8),
    ]


class PoolProperties(ctypes.Structure):
    """CUmemPoolProps: a pool of a device."""

    _fields_ = [
        ("type", c_int),
        ("handle_types", c_int),
        ("where", c_int),
        ("device", c_int),
        ("meta", c_void_p),
        ("rest", c_ubyte * 64),
    ]


class Access(ctypes.Structure):
    """CUmemAccessDesc."""

    _fields_ = [("where", c_int), ("device", c_int), ("flags", c_int)]


class DriverError(Exception):
    """A call that a question builds on failed: that is its answer."""


class Calls:
    """One process's view of the driver. Nothing is called before a question asks for it."""

    def __init__(self) -> None:
        self._library = ctypes.CDLL(LIBRARY)

    def code(self, name: str, *arguments: Any) -> int:
        """The result code of a call; -1 if the driver has no such call."""
        try:
            call = getattr(self._library, name)
        except AttributeError:
            return -1
        call.restype = c_int
        return int(call(*arguments))

    def do(self, name: str, *arguments: Any) -> None:
        """A call that must succeed.

        Raises:
            DriverError: it did not.
        """
        result = self.code(name, *arguments)
        if result != 0:
            raise DriverError(f"{name} answered {result}")

    def devices(self) -> int:
        """How many are visible; initialises."""
        count = c_int()
        self.do("cuInit", c_uint(0))
        self.do("cuDeviceGetCount", byref(count))
        return count.value

    def start(self, device: int = 0) -> c_void_p:
        """Initialise and make a device's primary context current."""
        context = c_void_p()
        self.do("cuInit", c_uint(0))
        self.do("cuDevicePrimaryCtxRetain", byref(context), c_int(device))
        self.do("cuCtxSetCurrent", context)
        return context

    def allocate(self, size: int = 1 << 21) -> int:
        """Device memory."""
        pointer = c_uint64()
        self.do("cuMemAlloc_v2", byref(pointer), c_size_t(size))
        return pointer.value

    def stream(self) -> c_void_p:
        """A stream that does not wait for the null stream."""
        made = c_void_p()
        self.do("cuStreamCreate", byref(made), c_uint(1))
        return made

    def event(self, flags: int) -> c_void_p:
        """An event."""
        made = c_void_p()
        self.do("cuEventCreate", byref(made), c_uint(flags))
        return made

    def export(self, pointer: int) -> Handle:
        """A handle for another process."""
        handle = Handle()
        self.do("cuIpcGetMemHandle", byref(handle), c_uint64(pointer))
        return handle

    def open(self, handle: Handle, flags: int = 1) -> tuple[int, int]:
        """Result code and pointer."""
        pointer = c_uint64()
        result = self.code("cuIpcOpenMemHandle_v2", byref(pointer), handle, c_uint(flags))
        return result, pointer.value

    def close(self, pointer: int) -> int:
        """Result code of closing what was opened."""
        return self.code("cuIpcCloseMemHandle", c_uint64(pointer))

    def get(self, pointer: int, size: int) -> bytes:
        """Device to host."""
        buffer = ctypes.create_string_buffer(size)
        self.do("cuMemcpyDtoH_v2", buffer, c_uint64(pointer), c_size_t(size))
        return buffer.raw

    def put(self, pointer: int, data: bytes) -> None:
        """Host to device."""
        self.do("cuMemcpyHtoD_v2", c_uint64(pointer), data, c_size_t(len(data)))

    def attribute(self, which: int, pointer: int) -> list[int]:
        """Code and value (8 bytes, zero before) of a pointer's attribute."""
        value = c_uint64(0)
        code = self.code("cuPointerGetAttribute", byref(value), c_int(which), c_uint64(pointer))
        return [code, value.value]

    def granule(self, handle_types: int = POSIX_FILE) -> int:
        """The least size of a virtual allocation."""
        size, wanted = c_size_t(), AllocationProperties(1, handle_types, 1, 0)
        self.do("cuMemGetAllocationGranularity", byref(size), byref(wanted), c_int(0))
        return size.value

    def create(self, size: int, handle_types: int = POSIX_FILE) -> c_uint64:
        """A virtual allocation."""
        handle, wanted = c_uint64(), AllocationProperties(1, handle_types, 1, 0)
        self.do("cuMemCreate", byref(handle), c_size_t(size), byref(wanted), c_uint64(0))
        return handle

    def reserve(self, size: int) -> int:
        """Addresses."""
        at = c_uint64()
        none = c_uint64(0)
        self.do("cuMemAddressReserve", byref(at), c_size_t(size), c_size_t(0), none, none)
        return at.value

    def map(self, at: int, size: int, handle: c_uint64) -> int:
        """Result code of mapping, and of allowing access."""
        none = c_size_t(0)
        code = self.code("cuMemMap", c_uint64(at), c_size_t(size), none, handle, c_uint64(0))
        if code == 0:
            access = Access(1, 0, READ_WRITE)
            code = self.code(
                "cuMemSetAccess", c_uint64(at), c_size_t(size), byref(access), c_size_t(1)
            )
        return code
