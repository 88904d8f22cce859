"""What a driver refuses after the call was answered reaches the program, once for its queue."""

import re

import pytest

from tests.support.lent import Proxy, run
from tests.virtual.conftest import PROGRAMS

CALLS = [
    *re.findall(r"CODE\((cl\w+)\)", (PROGRAMS / "faults.c").read_text(encoding="utf-8")),
    "clCreateBuffer",
    "clCreateUserEvent",
]
OUT_OF_HOST_MEMORY = -6


def refusing(faults, call):
    """A proxy whose driver refuses all calls of a name."""
    return Proxy(OPENCL_LAYERS=str(faults), TOPOSEAT_TEST_FAULT=call)


def test_who_hears_of_a_refused_command(client, faults):
    with refusing(faults, "clEnqueueNDRangeKernel") as proxy:
        done = run(client("refusals", "refused_launches"), proxy.client())
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[:-1] == [
        "finish: -6, again 0",
        "flush: 0, read: -6, finish: 0",
        "wait: -14, status: -6, finish: 0",
        "finish: -6, wait: -14, status: -6, finish: 0",
        "callback: -6, finish: 0",
        "what waits: -14, status: -14, its queue: 0, the first one's: -6",
        "two, one waited for: -14, finish: -6",
    ]


@pytest.mark.parametrize("call", ["none", *CALLS])
def test_each_refusal_is_heard(client, faults, call):
    with refusing(faults, call) as proxy:
        done = run(client("refusals", "heard"), proxy.client())
    code = 0 if call == "none" else OUT_OF_HOST_MEMORY
    assert (done.returncode, done.stdout) == (0, f"heard: {code}\n"), done.stderr
