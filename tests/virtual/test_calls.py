"""What the clients' own suites do not show, as a program says it of both devices."""

import functools
import json

import pytest

from tests.support.lent import NATIVE, Proxy, run

SUBJECTS = ["devices sub_devices", "errors", "events", "images", "kernels", "transfers"]


@functools.cache
def natively(*words):
    """What the program says of the node's own device."""
    done = run(words, NATIVE)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("way", ["unix", "tcp", "strict"])
@pytest.mark.parametrize("subject", SUBJECTS)
def test_a_program_finds_the_same(proxy, client, subject, way):
    words = client(*subject.split())
    native = natively(*words)
    assert native
    strict = {"TOPOSEAT_CL_STRICT": "1"} if way == "strict" else {}
    endpoint = proxy.endpoint("tcp" if way == "tcp" else "unix")
    remote = run(words, proxy.client(endpoint, **strict))
    assert (remote.returncode, remote.stdout) == (0, native), remote.stderr


def test_a_queue_with_nothing_to_finish_is_not_asked(proxy, client, tmp_path):
    words = client("events", "idle")
    done = run(words, proxy.client(TOPOSEAT_CL_REPORT=str(tmp_path)))
    assert (done.returncode, done.stdout) == (0, natively(*words)), done.stderr
    (report,) = tmp_path.glob("cl.*.json")
    (device,) = json.loads(report.read_text())["devices"]
    assert 10 <= device["waits"] < 50


def test_two_devices_of_a_proxy_share_a_context(client):
    two = {"POCL_DEVICES": "pthread pthread"}
    native = run(client("devices", "together"), {**NATIVE, **two})
    assert native.stdout.startswith("2 devices\n")
    with Proxy(**two) as proxy:
        both = proxy.client(proxy.endpoint(index=0), proxy.endpoint(index=1))
        assert run(client("devices", "together"), both).stdout == native.stdout


def test_devices_of_two_proxies_share_none(proxy, client):
    with Proxy(key=proxy.key) as other:
        done = run(client("devices", "across"), proxy.client(proxy.endpoint(), other.endpoint()))
    assert (done.returncode, done.stdout) == (0, "2 devices, context: -33\n")
    assert "prox" in done.stderr, "who meets it must learn why"
