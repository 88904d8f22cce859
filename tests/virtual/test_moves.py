"""Clients that move to a device of another proxy while they run."""

import json
import os
import subprocess
from contextlib import contextmanager

import pytest

from tests.support.lent import NATIVE, TIMEOUT_S, Proxy, run, wait_until
from tests.virtual.random_moves import try_some
from toposeat.installed import native_path

PROGRAMS = 50 if os.environ.get("TOPOSEAT_TEST_RANDOM") else 15  # in depth, and for every commit


@pytest.fixture
def other(proxy):
    """A second proxy of the same devices, with the first one's key."""
    with Proxy("--address", "127.0.0.1", key=proxy.key) as made:
        yield made


def move(source, into, index=0, **variables):
    """What came of asking the clients of a proxy's first device to move."""
    line = [native_path("bin/toposeat-clproxy")]
    line += ["--move", source.endpoint(index=index), into]
    done = run(line, {**NATIVE, "TOPOSEAT_CL_KEY": source.key, **variables})
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def ends(proxy):
    """Both ends of a proxy, as a move is told of them."""
    return f"unix:{proxy.said['unix']} {proxy.endpoint('tcp')}"


@contextmanager
def running(client, scenario, environment):
    """A client that stays where the test wants to do something."""
    pipe = subprocess.PIPE
    with subprocess.Popen(
        client("moves", scenario), env=environment, stdin=pipe, stdout=pipe, stderr=pipe, text=True
    ) as process:
        try:
            assert process.stdout.readline() == "ready\n"
            yield process
        finally:
            process.kill()


def rest(process):
    """What it says once it may go on."""
    out, err = process.communicate("\n", timeout=TIMEOUT_S)
    assert process.returncode == 0, err
    return str(out)


@pytest.mark.parametrize("over", ["unix", "tcp"])
def test_all_that_a_client_has_comes_along(proxy, other, client, over):
    native = run(client("moves", "moved"), NATIVE)
    assert native.returncode == 0, native.stderr
    environment = proxy.client(proxy.endpoint(over))
    into = ends(other) if over == "unix" else other.endpoint("tcp")
    before = proxy.children()
    with running(client, "moved", environment) as process:
        assert move(proxy, into) == {"moved": 1, "refused": []}
        assert len(other.children()) == 1
        assert "ready\n" + rest(process) == native.stdout
    assert set(proxy.children()) <= set(before)


@pytest.mark.parametrize("over", ["unix", "tcp"])
def test_random_programs_find_the_same_wherever_they_move(random_program, over):
    """A few of those of random_moves.py, which makes ten thousand."""
    tally = try_some(random_program, PROGRAMS, 0 if over == "unix" else PROGRAMS, over=over)
    assert tally.wrong == []
    assert tally.programs == PROGRAMS
    assert tally.moved > 0.8 * PROGRAMS
    assert set(tally.refused) <= {
        "it has mapped memory",
        "an argument of one of its kernels has been released: -38",
    }


def test_random_programs_find_the_same_without_moves(random_program):
    tally = try_some(random_program, 100, 100, moves=False)
    assert (tally.wrong, tally.programs) == ([], 100)


def test_an_argument_that_was_released_is_refused(proxy, other, client):
    native = run(client("moves", "released"), NATIVE).stdout
    with running(client, "released", proxy.client()) as process:
        (why,) = move(proxy, ends(other))["refused"]
        assert why.startswith("an argument of one of its kernels has been released")
        assert "ready\n" + rest(process) == native


def test_a_busy_client_moves_to_and_fro(proxy, other, client):
    with running(client, "busy", proxy.client()) as process:
        for source, into in [(proxy, other), (other, proxy)] * 2:
            assert move(source, ends(into)) == {"moved": 1, "refused": []}
        assert rest(process) == "wrong: 0 0\n"


def test_a_command_that_waits_for_the_user_is_waited_for(proxy, other, client):
    native = run(client("moves", "held"), NATIVE).stdout
    with running(client, "held", proxy.client()) as process:
        line = [native_path("bin/toposeat-clproxy"), "--move", proxy.endpoint(), ends(other)]
        environment = {**NATIVE, "TOPOSEAT_CL_KEY": proxy.key}
        with subprocess.Popen(line, env=environment, stdout=subprocess.PIPE, text=True) as mover:
            with pytest.raises(subprocess.TimeoutExpired):
                mover.wait(1)
            assert "ready\n" + rest(process) == native
            mover.communicate(timeout=TIMEOUT_S)  # moved, or its client ended before


def test_mapped_memory_is_refused_and_nothing_is_lost(proxy, other, client):
    native = run(client("moves", "mapped"), NATIVE).stdout
    with running(client, "mapped", proxy.client()) as process:
        assert move(proxy, ends(other)) == {"moved": 0, "refused": ["it has mapped memory"]}
        wait_until(lambda: not other.children())
        assert "ready\n" + rest(process) == native


def test_another_device_is_refused(proxy, client):
    with (
        Proxy(key=proxy.key, POCL_DEVICES="basic") as basic,
        running(client, "moved", proxy.client()) as process,
    ):
        told = move(proxy, basic.endpoint())
        assert told == {"moved": 0, "refused": ["the other device has another name"]}
        assert move(proxy, basic.endpoint(index=5))["refused"] == ["there is no such device"]
        rest(process)


def test_a_proxy_that_is_not_there_is_refused(proxy, client, tmp_path):
    with running(client, "mapped", proxy.client()) as process:
        told = move(proxy, f"unix:{tmp_path}/none#0")
        assert told["refused"] == ["the proxy of the other device does not answer"]
        rest(process)


def test_who_has_another_device_stays(proxy, other, client):
    with running(client, "mapped", proxy.client()) as process:
        assert move(proxy, ends(other), index=7) == {"moved": 0, "refused": []}
        rest(process)


def test_only_who_has_the_key_moves_clients(proxy, other):
    line = [native_path("bin/toposeat-clproxy")]
    line += ["--move", proxy.endpoint(), ends(other)]
    done = run(line, {**NATIVE, "TOPOSEAT_CL_KEY": "0" * 64})
    assert (done.returncode, done.stdout) == (1, "")
    assert "the key is another one" in done.stderr
