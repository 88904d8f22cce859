"""A rank that copies to the first OpenCL device and back: `opencl_copy.py BYTES [REPEATS [FILE]]`.

With FILE it says once it has written, and reads when that file is there.

It prints one line of JSON: its rank and host, the device, seconds of the fastest copy each way, and
whether what came back is what went. It needs the system's OpenCL loader alone.
"""

import ctypes
import json
import os
import socket
import sys
import time

ALL_DEVICES, DEVICE_NAME = 0xFFFFFFFF, 0x102B


def checked(code):
    if code != 0:
        raise SystemExit(f"OpenCL error {code}")


def main():
    size, repeats = int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 1
    cl = ctypes.CDLL("libOpenCL.so.1")
    cl.clCreateContext.restype = cl.clCreateCommandQueue.restype = ctypes.c_void_p
    cl.clCreateBuffer.restype = ctypes.c_void_p
    error, count = ctypes.c_int(), ctypes.c_uint()
    platform, device = ctypes.c_void_p(), ctypes.c_void_p()
    checked(cl.clGetPlatformIDs(1, ctypes.byref(platform), ctypes.byref(count)))
    kind = ctypes.c_uint64(ALL_DEVICES)
    checked(cl.clGetDeviceIDs(platform, kind, 1, ctypes.byref(device), None))
    name = ctypes.create_string_buffer(256)
    checked(cl.clGetDeviceInfo(device, DEVICE_NAME, 256, name, None))
    context = cl.clCreateContext(None, 1, ctypes.byref(device), None, None, ctypes.byref(error))
    checked(error.value)
    context = ctypes.c_void_p(context)
    none = ctypes.c_uint64(0)
    queue = ctypes.c_void_p(cl.clCreateCommandQueue(context, device, none, ctypes.byref(error)))
    checked(error.value)
    whole = ctypes.c_size_t(size)
    buffer = cl.clCreateBuffer(context, ctypes.c_uint64(1), whole, None, ctypes.byref(error))
    checked(error.value)
    buffer, begin = ctypes.c_void_p(buffer), ctypes.c_size_t(0)
    source = ctypes.create_string_buffer(os.urandom(4096) * (size // 4096 + 1))
    target = ctypes.create_string_buffer(size)
    seconds = []
    for _ in range(repeats):
        clock = time.perf_counter()
        call = (queue, buffer, 1, begin, whole)
        checked(cl.clEnqueueWriteBuffer(*call, source, 0, None, None))
        checked(cl.clFinish(queue))
        wrote_s = time.perf_counter() - clock
        while len(sys.argv) > 3 and not os.path.exists(sys.argv[3]):  # noqa: PTH110
            if not seconds:
                os.write(1, b"written\n")
                seconds.append((wrote_s, 1e9))
            time.sleep(0.05)
        written = time.perf_counter()
        checked(cl.clEnqueueReadBuffer(*call, target, 0, None, None))
        seconds.append((wrote_s, time.perf_counter() - written))
    told = {
        "rank": int(os.environ.get("TOPOSEAT_RANK", "-1")),
        "host": socket.gethostname(),
        "endpoints": os.environ.get("TOPOSEAT_CL_DEVICES", "").split(),
        "device": name.value.decode(),
        "write_s": min(each[0] for each in seconds),
        "read_s": min(each[1] for each in seconds),
        "same": source.raw[:size] == target.raw,
    }
    os.write(1, (json.dumps(told) + "\n").encode())  # whole, beside those of other ranks


main()
