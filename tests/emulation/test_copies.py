"""Copies between processes: data, peers, handles, crashes, and links that are never too fast."""

import json
import re
from pathlib import Path

import pytest

from tests.emulation.stand_in import output_of, run_program
from toposeat.emulation import machine_text
from toposeat.errors import InputError, UsageError
from toposeat.model.topology import Topology
from toposeat.topology import read_topology

# Every process writes its handle, reads the others', and pulls from the one that `pulls` names.
PULL = """
import socket
pulls = json.loads(os.environ["PULLS"])          # puller -> owner, by device
size = int(os.environ.get("SIZE", 1 << 20))
rounds = int(os.environ.get("ROUNDS", 5))
devices = sorted({int(x) for x in pulls} | set(pulls.values()))
pairs = {d: socket.socketpair() for d in devices}
def child(device):
    end = pairs[device][1]
    driver.start(device)
    mine, other = driver.allocate(size), driver.allocate(size)
    driver.put(mine, bytes([device + 1]) * size)
    end.sendall(bytes(driver.export(mine)))
    rates = []
    if str(device) in pulls:
        handle = Handle.from_buffer_copy(end.recv(64))
        result, theirs = driver.open(handle)
        if result:
            rates = [-result]
        else:
            end.recv(1)                           # all begin together
            for _ in range(rounds):
                begin = time.monotonic()
                driver.do('cuMemcpyDtoD_v2', c_uint64(other), c_uint64(theirs), c_size_t(size))
                rates.append(size / (time.monotonic() - begin))
            assert driver.get(other, size) == bytes([pulls[str(device)] + 1]) * size
            driver.do('cuIpcCloseMemHandle', c_uint64(theirs))
    end.sendall(json.dumps(rates).encode())
    end.recv(1)
    os._exit(0)
for device in devices:
    if os.fork() == 0:
        child(device)
handles = {d: pairs[d][0].recv(64) for d in devices}
for puller, owner in pulls.items():
    pairs[int(puller)][0].sendall(handles[owner])
time.sleep(0.3)
for puller in pulls:
    pairs[int(puller)][0].sendall(b"g")
rates = {d: json.loads(pairs[d][0].recv(65536)) for d in devices}
for d in devices:
    pairs[d][0].sendall(b"x")
for d in devices:
    assert os.wait()[1] == 0
print(json.dumps({p: sorted(rates[int(p)])[len(rates[int(p)]) // 2] for p in pulls}))
"""


def pull(pulls, machine="k80-16", **more):
    """Median bytes per second of every puller when all pull at once."""
    environment = {"PULLS": json.dumps(pulls), **more}
    found = json.loads(output_of(PULL, machine=machine, environment=environment))
    return {int(p): rate for p, rate in found.items()}


def test_one_flow_is_never_faster_than_its_route():
    topology = read_topology("k80-16")
    for puller, owner in ((1, 0), (2, 0), (4, 0), (8, 0)):
        route = topology.route_of_pair[f"gpu{owner}", f"gpu{puller}"]
        cap = route.cap_bytes_per_s
        links = min(topology.link_of_id[x].forward_bytes_per_s.value for x in route.links)
        limit = 0.05 * min(links, cap.value if cap else links)
        assert pull({puller: owner})[puller] <= limit * 1.01


@pytest.mark.alone
def test_flows_share_a_link():
    uplink = 10e9 / 2.47 * 0.05
    # two devices of one board pull from two of the next: both cross the same two uplinks
    rates = pull({0: 2, 1: 3}, ROUNDS="15")
    assert sum(rates.values()) <= uplink * 1.1
    # nothing is shared within boards
    alone = pull({0: 1, 2: 3})
    assert min(alone.values()) > 1.2 * max(rates.values())


def test_devices_without_peer_access(tmp_path):
    topology = read_topology("k80-16")
    text = machine_text(topology, scale=0.05)
    assert len(re.findall(r"^peer ", text, re.MULTILINE)) == 16 * 15
    stripped = re.sub(r"^peer (8 0|0 8)\n", "", text, flags=re.MULTILINE)
    path = tmp_path / "machine"
    path.write_text(stripped)
    environment = {"PULLS": '{"8": 0}', "TOPOSEAT_EMULATED_MACHINE": str(path)}
    assert json.loads(output_of(PULL, environment=environment)) == {"8": -217}
    # the driver stages copies within one process through host memory
    program = """
    can = c_int()
    driver.start(0)
    driver.do('cuDeviceCanAccessPeer', byref(can), c_int(0), c_int(8))
    assert can.value == 0
    a = driver.allocate(1 << 20)
    driver.put(a, b"ab" * (1 << 19))
    context = driver.start(8)
    b = driver.allocate(1 << 20)
    assert driver.copy(b, a, 1 << 20) == 0
    assert driver.get(b, 1 << 20) == b"ab" * (1 << 19)
    first = driver.start(0)
    print(driver.code('cuCtxEnablePeerAccess', context, c_uint(0)))
    """
    staged = {"TOPOSEAT_EMULATED_MACHINE": str(path)}
    assert output_of(program, environment=staged) == "217"


def test_a_hidden_device_cannot_be_opened_but_a_masked_one_can():
    program = """
    import socket
    ours, theirs = socket.socketpair()
    if os.fork() == 0:
        driver.start(0)
        pointer = driver.allocate(4096)
        driver.put(pointer, b"m" * 4096)
        theirs.sendall(bytes(driver.export(pointer)))
        theirs.recv(1)
        os._exit(0)
    os.environ.update(json.loads(os.environ["MINE"]))
    handle = Handle.from_buffer_copy(ours.recv(64))
    driver.start(0)
    result, pointer = driver.open(handle)
    print(result, driver.get(pointer, 4) if result == 0 else "")
    ours.sendall(b"x")
    os.wait()
    """
    masked = {"MINE": '{"CUDA_VISIBLE_DEVICES": "1"}'}
    assert output_of(program, environment=masked) == "0 b'mmmm'"
    hidden = {"MINE": '{"TOPOSEAT_EMULATED_HIDDEN": "0", "CUDA_VISIBLE_DEVICES": "0"}'}
    assert output_of(program, environment=hidden).strip() == "1"


@pytest.mark.alone
def test_nothing_is_left_after_a_kill():
    before = set(Path("/dev/shm").glob("toposeat-emulated-*"))
    program = """
    import socket
    ours, theirs = socket.socketpair()
    child = os.fork()
    if child == 0:
        driver.start(0)
        pointer = driver.allocate(1 << 30)
        theirs.sendall(bytes(driver.export(pointer)))
        time.sleep(60)
    handle = Handle.from_buffer_copy(ours.recv(64))
    driver.start(1)
    result, theirs_here = driver.open(handle)
    assert result == 0
    os.kill(child, signal.SIGKILL)
    os.wait()
    mine = driver.allocate(4096)
    assert driver.copy(mine, theirs_here, 4096) == 0   # what is mapped stays
    assert driver.open(handle)[0] in (0, 1)
    driver.do('cuIpcCloseMemHandle', c_uint64(theirs_here))
    driver.start(0)
    free, total = c_size_t(), c_size_t()
    driver.do('cuMemGetInfo_v2', byref(free), byref(total))
    assert free.value == total.value                    # the dead process holds nothing
    os.kill(os.getpid(), signal.SIGKILL)
    """
    assert run_program(program).returncode == -9
    assert set(Path("/dev/shm").glob("toposeat-emulated-*")) <= before


def test_what_cannot_be_emulated(two_hosts):
    with pytest.raises(InputError, match="2 hosts"):
        machine_text(two_hosts)
    with pytest.raises(UsageError, match="scale"):
        machine_text(read_topology("k80-16"), scale=0)


@pytest.fixture
def two_hosts():
    """Two machines of one device each."""
    from dataclasses import replace

    one = read_topology("k80-16")
    devices = (one.devices[0], replace(one.devices[1], host="other"))
    return Topology(name="two", origin="test", devices=devices)


@pytest.mark.parametrize("name", ["dgx-1v", "dgx-2", "mi250x-8", "tree:2:2:4"])
def test_every_kind_of_machine(name):
    program = "driver.do('cuInit', c_uint(0)); print(len(driver.devices()))"
    assert int(output_of(program, machine=name)) == len(read_topology(name).devices)


BOTH_WAYS = """
import socket
size, rounds = 1 << 20, int(os.environ.get("ROUNDS", 12))
roles = json.loads(os.environ["ROLES"])            # [own device, other device, pushes]
ends = [socket.socketpair() for _ in roles]
def child(number):
    own, other, pushes = roles[number]
    end = ends[number][1]
    driver.start(own)
    mine = driver.allocate(size)
    driver.put(mine, bytes([7]) * size)
    end.sendall(bytes(driver.export(mine)))
    result, theirs = driver.open(Handle.from_buffer_copy(end.recv(64)))
    assert result == 0
    end.recv(1)
    begin = time.monotonic()
    for _ in range(0 if pushes is None else rounds):
        assert driver.copy(*((theirs, mine) if pushes else (mine, theirs)), size) == 0
    done = 0 if pushes is None else rounds * size
    end.sendall(str(done / (time.monotonic() - begin)).encode())
    end.recv(1)
    os._exit(0)
for number in range(len(roles)):
    if os.fork() == 0:
        child(number)
handles = [end[0].recv(64) for end in ends]
for number, (own, other, _) in enumerate(roles):
    owner = next(k for k, role in enumerate(roles) if role[0] == other and k != number)
    ends[number][0].sendall(handles[owner])
time.sleep(0.3)
for end in ends:
    end[0].sendall(b"g")
rates = [float(end[0].recv(100)) for end in ends]
for end in ends:
    end[0].sendall(b"x")
for _ in ends:
    assert os.wait()[1] == 0
print(json.dumps(rates))
"""


def together(roles, text, folder, **more):
    """Bytes/s of all copies at once: a process on `own` each, to, from or not at all `other`."""
    path = folder / "machine"
    path.write_text(text)
    words = {"ROLES": json.dumps(roles), "TOPOSEAT_EMULATED_MACHINE": str(path), **more}
    return sum(json.loads(output_of(BOTH_WAYS, environment=words)))


def test_two_engines_on_a_pair_stay_under_its_limit(tmp_path):
    topology = read_topology("k80-16")
    route = topology.route_of_pair["gpu0", "gpu8"]
    assert route.cap_bytes_per_s is not None
    limit = 0.05 * route.cap_bytes_per_s.value
    text = machine_text(topology, scale=0.05)
    # one half pushed by the owner, the other half pulled: what COOPERATE does
    rate = together([(0, 8, True), (8, 0, False)], text, tmp_path)
    assert rate <= limit * 1.05


def test_a_limit_of_both_directions_is_shared_by_them(tmp_path):
    text = machine_text(read_topology("k80-16"), scale=0.05)
    text = text.replace("peer 0 1\n", "peer 0 1\nboth 0 1 1e8\n")
    rate = together([(0, 1, True), (1, 0, True)], text, tmp_path)
    assert rate <= 1.05e8
