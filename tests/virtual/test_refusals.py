"""What a driver refuses after the call was answered reaches the program, once for its queue."""

from pathlib import Path

import pytest

from tests.support.lent import Proxy, run

TABLE = Path(__file__).parents[2] / "virtual" / "calls.tsv"
MESSAGES = [
    cells[1]
    for cells in (line.split("\t") for line in TABLE.read_text(encoding="utf-8").splitlines())
    if cells[0].isdigit() and cells[3] not in ("-", "release")  # which is never refused
]
AS = {"Finish": "EnqueueMarkerWithWaitList"}  # by what the proxy does it
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


@pytest.mark.parametrize("message", ["none", "no Program", *MESSAGES])
def test_each_refusal_is_heard(client, faults, message):
    scenario = "built" if "Program" in message else "heard"
    with refusing(faults, f"cl{AS.get(message, message)}") as proxy:
        done = run(client("refusals", scenario), proxy.client())
    code = 0 if message.startswith("no") else OUT_OF_HOST_MEMORY
    assert done.returncode == 3 or not done.stderr
    assert f"{done.stdout}{done.stderr}".endswith(f": {code}\n"), done
