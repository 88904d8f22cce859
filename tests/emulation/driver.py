"""The driver API for test programs that run on the stand-in, or on a real driver."""

import ctypes
from ctypes import byref, c_int, c_size_t, c_uint, c_uint64, c_void_p

LIBRARY = "libcuda.so.1"


class Handle(ctypes.Structure):
    """CUipcMemHandle."""

    _fields_ = [("bytes", ctypes.c_char * 64)]


class Driver:
    """Calls that return their result codes, and a few that must succeed."""

    def __init__(self):
        self.library = ctypes.CDLL(LIBRARY)

    def code(self, name, *arguments):
        """The result code of a call."""
        call = getattr(self.library, name)
        call.restype = c_int
        return int(call(*arguments))

    def do(self, name, *arguments):
        """A call that must succeed."""
        result = self.code(name, *arguments)
        assert result == 0, f"{name} answered {result}"

    def start(self, device=0):
        """Initialise and make a device's primary context current."""
        self.do("cuInit", c_uint(0))
        context = c_void_p()
        self.do("cuDevicePrimaryCtxRetain", byref(context), c_int(device))
        self.do("cuCtxSetCurrent", context)
        return context

    def devices(self):
        """PCI bus ids by ordinal."""
        count = c_int()
        self.do("cuDeviceGetCount", byref(count))
        found = []
        for ordinal in range(count.value):
            text = ctypes.create_string_buffer(32)
            self.do("cuDeviceGetPCIBusId", text, c_int(32), c_int(ordinal))
            found.append(text.value.decode().lower())
        return found

    def allocate(self, size):
        """Device memory."""
        pointer = c_uint64()
        self.do("cuMemAlloc_v2", byref(pointer), c_size_t(size))
        return pointer.value

    def put(self, pointer, data):
        """Host to device."""
        self.do("cuMemcpyHtoD_v2", c_uint64(pointer), data, c_size_t(len(data)))

    def get(self, pointer, size):
        """Device to host."""
        buffer = ctypes.create_string_buffer(size)
        self.do("cuMemcpyDtoH_v2", buffer, c_uint64(pointer), c_size_t(size))
        return buffer.raw

    def copy(self, to, source, size):
        """Device to device; the result code."""
        return self.code("cuMemcpyDtoD_v2", c_uint64(to), c_uint64(source), c_size_t(size))

    def export(self, pointer):
        """A handle for another process."""
        handle = Handle()
        self.do("cuIpcGetMemHandle", byref(handle), c_uint64(pointer))
        return handle

    def open(self, handle):
        """Result code and pointer."""
        pointer = c_uint64()
        result = self.code("cuIpcOpenMemHandle_v2", byref(pointer), handle, c_uint(1))
        return result, pointer.value
