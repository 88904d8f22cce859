"""The stand-in driver: devices, memory, errors as the real one gives them, and its refusals."""

import json
import os
import sys

import pytest

from tests.emulation.stand_in import output_of, run_program
from tests.support.processes import ran
from toposeat.emulation import emulated_node, machine_text
from toposeat.installed import native_path
from toposeat.topology import read_topology

K80 = [d.pci_bus_id for d in read_topology("k80-16").devices]


def visible(**environment):
    program = "driver.do('cuInit', c_uint(0)); print(json.dumps(driver.devices()))"
    done = run_program(program, environment=environment)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)  # type: ignore[no-any-return]


def test_devices_are_those_of_the_topology():
    assert visible() == K80


@pytest.mark.parametrize(
    ("listed", "expected"),
    [
        ("3,0,2", [3, 0, 2]),
        ("1", [1]),
        ("2,-1,3", [2]),  # the first invalid entry ends the list
        (" 5 , 4", [5, 4]),
    ],
)
def test_visible_devices(listed, expected):
    assert visible(CUDA_VISIBLE_DEVICES=listed) == [K80[i] for i in expected]


def test_visible_devices_by_uuid_prefix():
    program = """
    driver.do('cuInit', c_uint(0))
    uuid = (ctypes.c_char * 16)()
    driver.do('cuDeviceGetUuid', uuid, c_int(5))
    print(bytes(uuid).hex())
    """
    digits = output_of(program)
    prefix = f"GPU-{digits[:8]}"
    assert visible(CUDA_VISIBLE_DEVICES=prefix) == [K80[5]]
    whole = f"GPU-{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"
    assert visible(CUDA_VISIBLE_DEVICES=f"{whole},0") == [K80[5], K80[0]]


def test_a_cgroup_hides_devices_from_every_library():
    assert visible(TOPOSEAT_EMULATED_HIDDEN="0,1,15") == K80[2:15]
    program = """
    import pynvml
    pynvml.nvmlInit()
    print(pynvml.nvmlDeviceGetCount())
    """
    hidden = {"TOPOSEAT_EMULATED_HIDDEN": "0,1,15", "CUDA_VISIBLE_DEVICES": "0"}
    assert output_of(program, environment=hidden) == "13"  # NVML ignores the variable


@pytest.mark.parametrize(("machine", "version"), [("dgx-1p", 1), ("dgx-1v", 2), ("k80-16", None)])
def test_management_library_tells_of_nvlinks_by_call_and_by_field(machine, version):
    program = """
    import pynvml
    pynvml.nvmlInit()
    gpu = pynvml.nvmlDeviceGetHandleByIndex(0)
    fields = pynvml.NVML_FI_DEV_NVLINK_GET_STATE, pynvml.NVML_FI_DEV_NVLINK_GET_VERSION
    found = []
    for link in range(18):
        told = pynvml.nvmlDeviceGetFieldValues(gpu, [(field, link) for field in fields])
        try:
            state = pynvml.nvmlDeviceGetNvLinkState(gpu, link)
            version = pynvml.nvmlDeviceGetNvLinkVersion(gpu, link)
        except pynvml.NVMLError_NotSupported:
            assert [each.nvmlReturn for each in told] == [pynvml.NVML_ERROR_NOT_SUPPORTED] * 2
            continue
        assert [each.value.uiVal for each in told] == [state, version]
        found.append(version)
    print(json.dumps(found))
    """
    found = json.loads(output_of(program, machine=machine))
    links = [x for x in read_topology(machine).links if x.kind == "nvlink" and "gpu0" in x.ends]
    assert found == [version] * sum(x.count for x in links)


def test_error_codes():
    """Others are as the recorded driver gives them: test_conformance.py."""
    program = """
    driver.start()
    a, b = driver.allocate(1000), driver.allocate(1000)
    assert driver.copy(b, a, 1001) == 1
    assert driver.code('cuMemAlloc_v2', byref(c_uint64()), c_size_t(1 << 40)) == 2
    assert driver.open(driver.export(b))[0] == 201  # a process cannot open its own memory
    assert driver.open(Handle(b"nonsense"))[0] == 1
    assert driver.code('cuStreamSynchronize', c_void_p(12345)) == 400
    name = ctypes.c_char_p()
    driver.do('cuGetErrorName', c_int(217), byref(name))
    print(name.value.decode())
    """
    assert output_of(program) == "CUDA_ERROR_PEER_ACCESS_UNSUPPORTED"


def test_calls_are_found_by_name():
    program = """
    found = c_void_p()
    status = c_int()
    version, flags = c_int(12000), c_uint64(0)
    for name in (b"cuMemAlloc", b"cuIpcOpenMemHandle", b"cuInit", b"cuMemPoolCreate"):
        driver.do('cuGetProcAddress_v2', name, byref(found), version, flags, byref(status))
        assert found.value and status.value == 0, name
    assert driver.code('cuGetProcAddress', b"cuNoSuchCall", byref(found), version, flags) == 500
    print(driver.code('cuMemAdvise'))
    """
    assert output_of(program) == "801"


def test_asynchronous_work_keeps_its_order_and_its_time():
    program = """
    driver.start()
    size = 1 << 20
    a, b = driver.allocate(size), driver.allocate(size)
    host = ctypes.create_string_buffer(bytes(range(256)) * (size // 256), size)
    stream, event, begin = c_void_p(), c_void_p(), c_void_p()
    driver.do('cuStreamCreate', byref(stream), c_uint(1))
    driver.do('cuEventCreate', byref(begin), c_uint(0))
    driver.do('cuEventCreate', byref(event), c_uint(0))
    driver.do('cuEventRecord', begin, stream)
    driver.do('cuMemcpyHtoDAsync_v2', c_uint64(a), host, c_size_t(size), stream)
    driver.do('cuMemcpyDtoDAsync_v2', c_uint64(b), c_uint64(a), c_size_t(size), stream)
    back = ctypes.create_string_buffer(size)
    driver.do('cuMemcpyDtoHAsync_v2', back, c_uint64(b), c_size_t(size), stream)
    driver.do('cuEventRecord', event, stream)
    assert driver.code('cuEventQuery', event) == 600  # NOT_READY: 2 MiB over a slow link
    assert driver.code('cuStreamQuery', stream) == 600
    driver.do('cuEventSynchronize', event)
    assert driver.code('cuStreamQuery', stream) == 0
    assert back.raw == host.raw
    took = ctypes.c_float()
    driver.do('cuEventElapsedTime', byref(took), begin, event)
    print(took.value)
    """
    # 1 MiB up and 1 MiB down the uplink of a scaled K80 board, whose capacity both ways is stated.
    milliseconds = float(output_of(program, scale=0.002))
    board_uplink = 10e9 / 2.47 * 0.002
    assert milliseconds >= 2 * 2**20 / board_uplink * 1e3 * 0.99


def test_host_functions_run_between_copies():
    program = """
    driver.start()
    a = driver.allocate(64)
    stream = c_void_p()
    driver.do('cuStreamCreate', byref(stream), c_uint(0))
    seen = []
    function = ctypes.CFUNCTYPE(None, c_void_p)(lambda data: seen.append(data))
    driver.do('cuMemsetD8Async', c_uint64(a), ctypes.c_ubyte(7), c_size_t(64), stream)
    driver.do('cuLaunchHostFunc', stream, function, c_void_p(42))
    driver.do('cuStreamSynchronize', stream)
    print(seen, driver.get(a, 64) == bytes([7]) * 64)
    """
    assert output_of(program) == "[42] True"


def test_virtual_memory_crosses_processes():
    program = """
    class Prop(ctypes.Structure):
        _fields_ = [("type", c_int), ("handles", c_int), ("where", c_int), ("id", c_int),
                    ("meta", c_void_p), ("flags", ctypes.c_ubyte * 8)]
    class Access(ctypes.Structure):
        _fields_ = [("where", c_int), ("id", c_int), ("flags", c_int)]
    import socket
    def view(handle, size):
        pointer, none, size = c_uint64(), c_uint64(0), c_size_t(size)
        driver.do('cuMemAddressReserve', byref(pointer), size, c_size_t(0), none, none)
        driver.do('cuMemMap', pointer, size, c_size_t(0), handle, none)
        driver.do('cuMemSetAccess', pointer, size, byref(Access(1, 0, 3)), c_size_t(1))
        return pointer.value
    size = 2 << 20
    ours, theirs = socket.socketpair()
    if os.fork() == 0:
        driver.start(0)
        _, files, _, _ = socket.recv_fds(theirs, 1, 1)
        handle = c_uint64()
        driver.do('cuMemImportFromShareableHandle', byref(handle), c_void_p(files[0]), c_int(1))
        pointer = view(handle, size)
        driver.put(pointer + 100, b"from the child")
        theirs.send(b"x")
        driver.do('cuMemUnmap', c_uint64(pointer), c_size_t(size))
        driver.do('cuMemAddressFree', c_uint64(pointer), c_size_t(size))
        driver.do('cuMemRelease', handle)
        os._exit(0)
    driver.start(0)
    prop = Prop(1, 1, 1, 0)
    step = c_size_t()
    driver.do('cuMemGetAllocationGranularity', byref(step), byref(prop), c_int(0))
    assert step.value == size
    handle = c_uint64()
    driver.do('cuMemCreate', byref(handle), c_size_t(size), byref(prop), c_uint64(0))
    file = c_int()
    driver.do('cuMemExportToShareableHandle', byref(file), handle, c_int(1), c_uint64(0))
    pointer = view(handle, size)
    socket.send_fds(ours, [b"f"], [file.value])
    ours.recv(1)
    os.wait()
    assert driver.code('cuIpcGetMemHandle', byref(Handle()), c_uint64(pointer)) == 1
    print(driver.get(pointer + 100, 14).decode())
    """
    assert output_of(program) == "from the child"


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda text: "\n".join(text.split("\n")[:50]) + "\n", "truncated"),
        (lambda text: text.replace("channel 0 ", "channel 99999 "), "range"),
        (lambda text: text.replace("machine 1", "machine 9", 1), "version 1"),
        (lambda text: text.replace("device 3 ", "gadget 3 "), "unknown word"),
        (lambda text: text.replace("peer 0 1\n", "peer 0\n"), "too short"),
        (lambda text: text.replace("channel 2 ", "channel 2 -"), "range"),
        (lambda text: text.replace("peer 0 1\n", "both 0 99 1e9\n"), "range"),
        (lambda text: "\n".join(x for x in text.split("\n") if "direct 1 2" not in x), "no route"),
    ],
)
def test_damaged_machine_files(tmp_path, damage, said):
    with emulated_node(machine_text(read_topology("k80-16"))) as node:
        text = node.machine.read_text()
        path = tmp_path / "machine"
        path.write_text(damage(text))  # type: ignore[operator]
        environment = {**node.environment(os.environ), "TOPOSEAT_EMULATED_MACHINE": str(path)}
        program = "import ctypes; print(ctypes.CDLL('libcuda.so.1').cuInit(0))"
        done = ran([sys.executable, "-c", program], env=environment)
    assert done.stdout == "100\n"
    assert said in done.stderr
    assert done.stderr.count("\n") == 1


def test_it_never_loads_without_being_asked():

    library = native_path("emulator/libcuda.so.1")
    environment = {k: v for k, v in os.environ.items() if not k.startswith("TOPOSEAT_EMULAT")}
    done = ran(
        [sys.executable, "-c", f"import ctypes; print(ctypes.CDLL({str(library)!r}).cuInit(0))"],
        env=environment,
    )
    assert done.stdout == "100\n"
    assert "is not the path of a machine file" in done.stderr
