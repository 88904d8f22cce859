"""Processes on both sides that end, fork, are killed, or never were there."""

import json
import os
import signal
import socket
import subprocess
import threading
from pathlib import Path

import pytest

from tests.support.lent import NATIVE, TIMEOUT_S, Proxy, client_of, greet, run, wait_until
from toposeat.installed import native_path


def devices(environment):
    return run(["clinfo", "--raw"], environment).stdout.count("  CL_DEVICE_NAME ")


def test_work_that_is_pending_does_not_hold_the_end(proxy, client):
    before = proxy.children()
    done = run(client("processes", "leave"), proxy.client())
    assert (done.returncode, done.stdout) == (0, "leaves\n"), done.stderr
    wait_until(lambda: {*proxy.children()} <= {*before})


def test_a_child_of_fork_has_errors_and_its_parent_goes_on(proxy, client):
    done = run(client("processes", "split"), proxy.client())
    assert done.returncode == 0, done.stderr
    child, parent = done.stdout.splitlines()
    assert child == "child: 7"
    assert parent.startswith("parent: ")


@pytest.mark.parametrize("whom", ["child", "all"])
@pytest.mark.parametrize("over", ["unix", "tcp"])
def test_a_client_outlives_its_proxy(client, whom, over):
    with Proxy("--address", "127.0.0.1") as proxy:
        with subprocess.Popen(
            client("processes", "bereaved"),
            env=proxy.client(proxy.endpoint(over)),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as process:
            assert process.stdout.readline() == "works\n"
            for pid in [*proxy.children(), *([proxy.process.pid] if whom == "all" else [])]:
                os.kill(pid, signal.SIGKILL)
            out, err = process.communicate(timeout=TIMEOUT_S)
        assert (process.returncode, out) == (0, "ended: 1\nread: 1, finish: 1\n"), err
        assert len(err.splitlines()) <= 2, "it is said once"
        if whom == "child":
            assert devices(proxy.client(proxy.endpoint(over))) == 1


def test_a_killed_client_leaves_no_process(proxy, client):
    before = proxy.children()
    with subprocess.Popen(
        client("processes", "bereaved"), env=proxy.client(), stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout.readline() == "works\n"
        assert len(proxy.children()) == len(before) + 1
        process.kill()
    wait_until(lambda: {*proxy.children()} <= {*before})


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_proxy_that_is_ended_leaves_nothing(client, number):
    with Proxy() as proxy:
        folder = Path(proxy.said["unix"]).parent
        assert (folder.stat().st_mode & 0o777, folder.stat().st_uid) == (0o700, os.getuid())
        process = subprocess.Popen(
            client("processes", "bereaved"), env=proxy.client(), stdout=subprocess.PIPE, text=True
        )
        assert process.stdout.readline() == "works\n"
        serving = proxy.children()
        proxy.process.send_signal(number)
        proxy.process.wait(TIMEOUT_S)
        process.communicate(timeout=TIMEOUT_S)
        assert not folder.exists()
        wait_until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in serving))


def test_a_crowd_of_strangers_fills_no_log(capfd):
    with Proxy() as proxy:
        for _ in range(250):
            with proxy.connect() as peer:
                assert greet(peer, bytes(32), client=True) == b""
        wait_until(lambda: not proxy.children())
        assert devices(proxy.client()) == 1
    assert 100 <= capfd.readouterr().err.count("a client is refused") <= 102


def test_an_idle_proxy_ends():
    with Proxy("--idle", "1") as proxy:
        assert devices(proxy.client()) == 1
        assert proxy.process.wait(TIMEOUT_S) == 0
        assert not Path(proxy.said["unix"]).exists()


def test_a_key_by_stdin_and_an_end_with_it():
    key = "5a" * 32
    with subprocess.Popen(
        [native_path("bin/toposeat-clproxy")],
        env=NATIVE,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        process.stdin.write(f"{key}\n")
        process.stdin.flush()
        said = json.loads(process.stdout.readline())
        assert devices(client_of(key, f"unix:{said['unix']}#0")) == 1
        process.stdin.close()
        process.wait(TIMEOUT_S)
    assert not Path(said["unix"]).exists()


def test_nobody_sees_the_key(proxy):
    pids = [proxy.process.pid, *proxy.children()]
    for pid in pids:
        for name in ("environ", "cmdline"):
            # What the kernel keeps of the first environment is the process's own to wipe.
            assert proxy.key.encode() not in Path(f"/proc/{pid}/{name}").read_bytes()


def test_a_node_without_opencl_says_so(tmp_path):
    done = run(
        [native_path("bin/toposeat-clproxy")],
        {**NATIVE, "OCL_ICD_VENDORS": str(tmp_path), "TOPOSEAT_CL_KEY": "0" * 64},
    )
    said = json.loads(done.stdout)
    assert done.returncode == 1
    assert "no OpenCL" in said["error"]
    assert said["hint"]


# ---- errors that a person meets: one line, what to do, and no device


def refused(environment):
    """What a client is told, which goes on without a device."""
    done = run(["clinfo", "--raw"], environment)
    assert "CL_DEVICE_NAME " not in done.stdout
    told = [line for line in done.stderr.splitlines() if "toposeat" in line or "hint:" in line]
    assert 1 <= len(told) <= 2, done.stderr
    assert "hint:" in done.stderr
    return done.stderr


@pytest.mark.parametrize("over", ["unix", "tcp"])
def test_a_wrong_key_is_said(proxy, over):
    wrong = {**proxy.client(proxy.endpoint(over)), "TOPOSEAT_CL_KEY": "0" * 64}
    assert "key" in refused(wrong)
    assert proxy.key not in refused(wrong)


@pytest.mark.parametrize(
    ("key", "word"),
    [(None, "TOPOSEAT_CL_KEY"), ("", "TOPOSEAT_CL_KEY"), ("xyz", "TOPOSEAT_CL_KEY")],
)
def test_a_key_that_is_none_is_said(proxy, key, word):
    environment = proxy.client()
    if key is None:
        del environment["TOPOSEAT_CL_KEY"]
    else:
        environment["TOPOSEAT_CL_KEY"] = key
    assert word in refused(environment)


def test_nobody_listens(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    for endpoint in (f"unix:{tmp_path}/none#0", f"tcp:127.0.0.1:{port}#0"):
        refused(client_of("0" * 64, endpoint))


@pytest.mark.parametrize(
    "text", ["unix:", "nowhere", "tcp:127.0.0.1#0", "tcp:127.0.0.1:99999999#0"]
)
def test_devices_that_cannot_be_read_are_said(text):
    refused(client_of("0" * 64, text))


def test_an_index_that_is_not_there_is_said(proxy):
    refused(proxy.client(proxy.endpoint(index=7)))


def test_one_proxy_that_is_gone_does_not_take_the_others_along(proxy, tmp_path):
    assert devices(proxy.client(f"unix:{tmp_path}/none#0", proxy.endpoint())) == 1


def test_without_a_borrowed_device_the_library_is_silent():
    environment = client_of("0" * 64)
    del environment["TOPOSEAT_CL_DEVICES"]
    done = run(["clinfo", "-l"], environment)
    assert "toposeat" not in done.stdout + done.stderr


def test_who_is_hung_up_on_tries_again(proxy, tmp_path):
    """As where a crowd is at the door: the oldest has to go."""
    tries = []

    def relay(source, target):
        while piece := source.recv(1 << 16):
            target.sendall(piece)
        target.shutdown(socket.SHUT_WR)

    def serve(server):
        for _ in range(3):
            with server.accept()[0]:
                tries.append("hung up on")
        with server.accept()[0] as peer, proxy.connect() as real:
            back = threading.Thread(target=relay, args=(real, peer))
            back.start()
            relay(peer, real)
            back.join()

    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "proxy"))
        server.listen()
        server.settimeout(TIMEOUT_S)
        thread = threading.Thread(target=serve, args=(server,))
        thread.start()
        assert devices(proxy.client(f"unix:{tmp_path}/proxy#0")) == 1
        thread.join()
    assert len(tries) == 3


@pytest.mark.parametrize("who", ["client", "proxy"])
def test_another_version_is_said(proxy, tmp_path, who):
    other = b"toposeat-cl 0 le64\0"
    if who == "client":
        with proxy.connect() as peer:
            greet(peer, bytes.fromhex(proxy.key), client=True, version=other)
            assert peer.recv(1) == b""
        return
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "proxy"))
        server.listen()
        server.settimeout(TIMEOUT_S)

        def serve():
            with server.accept()[0] as peer:
                greet(peer, bytes.fromhex(proxy.key), client=False, version=other)

        thread = threading.Thread(target=serve)
        thread.start()
        assert "version" in refused(proxy.client(f"unix:{tmp_path}/proxy#0"))
        thread.join()
