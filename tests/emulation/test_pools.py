"""Pools and stream-ordered memory, and events between processes."""

from textwrap import dedent

from tests.emulation.stand_in import output_of

POOLS = """
class Props(ctypes.Structure):
    _fields_ = [("type", c_int), ("handles", c_int), ("where", c_int), ("id", c_int),
                ("meta", c_void_p), ("rest", ctypes.c_ubyte * 64)]
class Access(ctypes.Structure):
    _fields_ = [("where", c_int), ("id", c_int), ("flags", c_int)]
def stream():
    made = c_void_p()
    driver.do('cuStreamCreate', byref(made), c_uint(1))
    return made
def used(pool, which=7):
    value = c_uint64()
    driver.do('cuMemPoolGetAttribute', pool, c_int(which), byref(value))
    return value.value
def take(size, where):
    pointer = c_uint64()
    driver.do('cuMemAllocAsync', byref(pointer), c_size_t(size), where)
    return pointer.value
def gate(where):                  # holds a stream until the returned file is written to
    reader, writer = os.pipe()
    function = ctypes.CFUNCTYPE(None, c_void_p)(lambda _: os.read(reader, 1))
    kept.append(function)
    driver.do('cuLaunchHostFunc', where, function, c_void_p(0))
    return writer
kept = []
def attribute(which, pointer, kind=c_uint64):
    value = kind()
    driver.do('cuPointerGetAttribute', byref(value), c_int(which), c_uint64(pointer))
    return value.value
"""


def test_memory_is_taken_and_freed_in_the_order_of_a_stream():
    program = """
    driver.start(0)
    pool, where = c_void_p(), stream()
    driver.do('cuDeviceGetDefaultMemPool', byref(pool), c_int(0))
    size = 4 << 20
    pointer = take(size, where)
    go = gate(where)
    host = ctypes.create_string_buffer(bytes(range(256)) * (size // 256), size)
    back = ctypes.create_string_buffer(size)
    driver.do('cuMemcpyHtoDAsync_v2', c_uint64(pointer), host, c_size_t(size), where)
    driver.do('cuMemcpyDtoHAsync_v2', back, c_uint64(pointer), c_size_t(size), where)
    driver.do('cuMemFreeAsync', c_uint64(pointer), where)
    assert used(pool) == size                       # its turn has not come
    assert driver.code('cuMemFreeAsync', c_uint64(pointer), where) == 1
    os.write(go, b"g")
    driver.do('cuStreamSynchronize', where)
    assert driver.code('cuMemFree_v2', c_uint64(pointer)) == 1
    assert back.raw == host.raw
    assert used(pool) == 0
    assert used(pool, 8) == size                    # the high-water mark
    assert driver.code('cuMemFreeAsync', c_uint64(pointer), where) == 1
    pointer = take(100, where)
    assert attribute(17, pointer) == pool.value     # MEMPOOL_HANDLE
    assert attribute(10, pointer, ctypes.c_ubyte) == 0   # not for cuIpcGetMemHandle, and so
    codes = [driver.code('cuIpcGetMemHandle', byref(Handle()), c_uint64(pointer))]
    driver.do('cuMemFree_v2', c_uint64(pointer))
    assert used(pool) == 0
    codes.append(driver.code('cuMemAllocAsync', byref(c_uint64()), c_size_t(0), where))
    codes.append(driver.code('cuMemAllocAsync', byref(c_uint64()), c_size_t(1 << 40), where))
    codes.append(driver.code('cuMemAllocAsync', byref(c_uint64()), c_size_t(8), c_void_p(99)))
    codes.append(driver.code('cuMemPoolDestroy', pool))
    print(codes)
    """
    assert output_of(POOLS + dedent(program)) == "[1, 0, 2, 400, 1]"


def test_own_pools():
    program = """
    driver.start(0)
    props, pool, now, where = Props(1, 1, 1, 0), c_void_p(), c_void_p(), stream()
    driver.do('cuMemPoolCreate', byref(pool), byref(props))
    most = c_uint64(2**64 - 1)
    driver.do('cuMemPoolSetAttribute', pool, c_int(4), byref(most))
    assert used(pool, 4) == 2**64 - 1
    driver.do('cuDeviceSetMemPool', c_int(0), pool)
    driver.do('cuDeviceGetMemPool', byref(now), c_int(0))
    assert now.value == pool.value
    a = take(1000, where)
    assert used(pool) == 1000
    flags = c_int(9)
    driver.do('cuMemPoolGetAccess', byref(flags), pool, byref(Access(1, 1)))
    assert flags.value == 0
    driver.do('cuMemPoolSetAccess', pool, byref(Access(1, 1, 3)), c_size_t(1))
    driver.do('cuMemPoolGetAccess', byref(flags), pool, byref(Access(1, 1)))
    assert flags.value == 3
    driver.do('cuMemPoolTrimTo', pool, c_size_t(0))
    codes = [driver.code('cuMemPoolSetAccess', pool, byref(Access(1, 99, 3)), c_size_t(1)),
             driver.code('cuMemPoolSetAccess', pool, byref(Access(1, 0, 0)), c_size_t(1)),
             driver.code('cuDeviceSetMemPool', c_int(1), pool),
             driver.code('cuMemPoolCreate', byref(now), byref(Props(1, 2, 1, 0))),
             driver.code('cuMemPoolCreate', byref(now), byref(Props(1, 1, 1, 16))),
             driver.code('cuMemPoolGetAttribute', pool, c_int(9), byref(most))]
    driver.do('cuMemPoolDestroy', pool)
    driver.put(a, b"still here")                     # until it is freed
    assert driver.get(a, 10) == b"still here"
    driver.do('cuDeviceGetMemPool', byref(now), c_int(0))
    assert now.value != pool.value and used(now) == 1000
    driver.do('cuMemFreeAsync', c_uint64(a), where)
    driver.do('cuStreamSynchronize', where)
    assert used(now) == 0
    print(codes)
    """
    assert output_of(POOLS + dedent(program)) == "[101, 1, 1, 1, 101, 1]"


def test_pools_cross_processes():
    program = """
    import socket
    ours, theirs = socket.socketpair()
    if os.fork() == 0:
        driver.start(1)
        data, files, _, _ = socket.recv_fds(theirs, 64, 1)
        pool, pointer = c_void_p(), c_uint64()
        driver.do('cuMemPoolImportFromShareableHandle', byref(pool), c_void_p(files[0]), c_int(1),
                  c_uint64(0))
        driver.do('cuMemPoolSetAccess', pool, byref(Access(1, 1, 3)), c_size_t(1))
        shared = Handle.from_buffer_copy(data)
        driver.do('cuMemPoolImportPointer', byref(pointer), pool, byref(shared))
        assert driver.code('cuMemAllocFromPoolAsync', byref(c_uint64()), c_size_t(8), pool,
                           c_void_p()) == 1
        assert driver.code('cuIpcCloseMemHandle', pointer) == 1
        driver.put(pointer.value + 3, b"from the child")
        where = stream()
        driver.do('cuMemFreeAsync', pointer, where)
        driver.do('cuStreamSynchronize', where)
        assert driver.code('cuMemFree_v2', pointer) == 1
        driver.do('cuMemPoolDestroy', pool)
        theirs.send(b"x")
        os._exit(0)
    driver.start(0)
    pool, where, file, shared = c_void_p(), stream(), c_int(), Handle()
    driver.do('cuMemPoolCreate', byref(pool), byref(Props(1, 1, 1, 0)))
    pointer = c_uint64()
    driver.do('cuMemAllocFromPoolAsync', byref(pointer), c_size_t(5000), pool, where)
    driver.do('cuStreamSynchronize', where)
    assert driver.code('cuMemPoolExportPointer', byref(shared), pointer) == 1  # pool not exported
    driver.do('cuMemPoolExportToShareableHandle', byref(file), pool, c_int(1), c_uint64(0))
    driver.do('cuMemPoolExportPointer', byref(shared), pointer)
    socket.send_fds(ours, [bytes(shared)], [file.value])
    assert ours.recv(1) == b"x"
    os.wait()
    print(driver.get(pointer.value + 3, 14).decode())
    standing = c_void_p()
    driver.do('cuDeviceGetDefaultMemPool', byref(standing), c_int(0))
    print(driver.code('cuMemPoolExportToShareableHandle', byref(file), standing, c_int(1),
                      c_uint64(0)))
    """
    assert output_of(POOLS + dedent(program)).split("\n") == ["from the child", "1"]


def test_events_cross_processes():
    program = """
    import socket
    ours, theirs = socket.socketpair()
    size = 8 << 20
    if os.fork() == 0:
        driver.start(1)
        event, where, mine = c_void_p(), stream(), driver.allocate(size)
        buffer = theirs.recv(128, socket.MSG_WAITALL)
        driver.do('cuIpcOpenEventHandle', byref(event), Handle.from_buffer_copy(buffer[:64]))
        result, other = driver.open(Handle.from_buffer_copy(buffer[64:]))
        assert result == 0
        assert driver.code('cuEventQuery', event) == 600      # not recorded yet
        theirs.send(b"q")
        driver.do('cuStreamWaitEvent', where, event, c_uint(0))
        driver.do('cuMemcpyDtoDAsync_v2', c_uint64(mine), c_uint64(other), c_size_t(size), where)
        driver.do('cuStreamSynchronize', where)
        assert driver.code('cuEventQuery', event) == 0
        assert driver.get(mine, size) == b"new!" * (size // 4)
        assert driver.code('cuIpcGetEventHandle', byref(Handle()), event) == 400  # not its own
        driver.do('cuEventDestroy_v2', event)
        theirs.send(b"x")
        os._exit(0)
    driver.start(0)
    event, where = c_void_p(), stream()
    codes = [driver.code('cuEventCreate', byref(event), c_uint(4))]   # needs "without timing"
    driver.do('cuEventCreate', byref(event), c_uint(2))
    codes.append(driver.code('cuIpcGetEventHandle', byref(Handle()), event))
    driver.do('cuEventCreate', byref(event), c_uint(6))
    handle = Handle()
    driver.do('cuIpcGetEventHandle', byref(handle), event)
    codes.append(driver.code('cuIpcOpenEventHandle', byref(c_void_p()), handle))   # our own
    codes.append(driver.code('cuIpcOpenEventHandle', byref(c_void_p()), Handle(b"nonsense")))
    pointer = driver.allocate(size)
    driver.put(pointer, b"old!" * (size // 4))
    host = ctypes.create_string_buffer(b"new!" * (size // 4), size)
    go = gate(where)
    driver.do('cuMemcpyHtoDAsync_v2', c_uint64(pointer), host, c_size_t(size), where)
    driver.do('cuEventRecord', event, where)
    ours.sendall(bytes(handle) + bytes(driver.export(pointer)))
    assert ours.recv(1) == b"q"
    os.write(go, b"g")
    assert ours.recv(1) == b"x"
    os.wait()
    print(codes)
    """
    assert output_of(POOLS + dedent(program)) == "[1, 400, 201, 205]"


def test_nobody_waits_for_the_record_of_a_process_that_was_killed():
    program = """
    import socket
    ours, theirs = socket.socketpair()
    child = os.fork()
    if child == 0:
        driver.start(0)
        event, where, handle = c_void_p(), stream(), Handle()
        driver.do('cuEventCreate', byref(event), c_uint(6))
        driver.do('cuIpcGetEventHandle', byref(handle), event)
        gate(where)
        driver.do('cuEventRecord', event, where)
        theirs.sendall(bytes(handle))
        time.sleep(60)
    handle = Handle.from_buffer_copy(ours.recv(64))
    driver.start(1)
    event = c_void_p()
    driver.do('cuIpcOpenEventHandle', byref(event), handle)
    assert driver.code('cuEventQuery', event) == 600
    os.kill(child, signal.SIGKILL)
    os.wait()
    driver.do('cuEventSynchronize', event)
    print("done")
    """
    assert output_of(POOLS + dedent(program)) == "done"
