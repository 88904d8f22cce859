"""The processes that copy, on the stand-in: both directions, host memory, two on one GPU."""

import os
from pathlib import Path

import pytest

from toposeat.emulation import emulated_node, machine_text
from toposeat.topology import read_topology
from toposeat.topology.measure import MeasureError, Workers
from toposeat.topology.measure.pairs import exchange, transfer

pytestmark = pytest.mark.skipif(
    Path("/proc/driver/nvidia/version").exists(),
    reason="this node has a real NVIDIA driver: the stand-in refuses to load beside it",
)
_BYTES = 300_000


@pytest.fixture(scope="module", autouse=True)
def node():
    with (
        pytest.MonkeyPatch.context() as patch,
        emulated_node(machine_text(read_topology("k80-16"), scale=0.2)) as found,
    ):
        for name, value in found.environment(os.environ).items():
            patch.setenv(name, value)
        yield


@pytest.fixture(scope="module")
def pair(node):
    with Workers(devices=[0, 1]) as workers:
        workers.ask(dict.fromkeys(range(2), f"size {_BYTES}"))
        yield workers


@pytest.mark.parametrize("protocol", ["get", "put", "cooperate", "staged"])
def test_both_directions_at_once(pair, protocol):
    there, back = exchange(pair, (0, 1), protocol, _BYTES, 4)
    assert (there.source, there.target, back.source, back.target) == (0, 1, 1, 0)
    for each in (there, back):  # the workers have compared every byte
        assert each.protocol == protocol
        assert len(each.seconds) == 4
    pair.ask({0: "size 310000", 1: "size 310000"})  # nothing of it is open any more


@pytest.mark.parametrize(
    ("end", "wanted", "used"),
    [
        ("source", "put", "put"),  # the host's side attaches to the other's GPU
        ("target", "get", "get"),
        ("source", "get", "staged"),  # only device memory can be opened
        ("target", "put", "staged"),
        ("target", "cooperate", "staged"),
        ("source", "staged", "staged"),
    ],
)
def test_host_memory_on_one_side(pair, end, wanted, used):
    (done,) = transfer(pair, [(0, 1)], wanted, _BYTES, 2, host_end=end)
    assert done.protocol == used


def test_two_processes_on_one_gpu():
    with pytest.raises(MeasureError, match="same GPU"), Workers(devices=[3, 3]):
        pass
    with Workers(devices=[3, 3], may_share=True) as workers:
        workers.ask(dict.fromkeys(range(2), f"size {_BYTES}"))
        for protocol in ("get", "put", "cooperate", "staged"):
            (done,) = transfer(workers, [(0, 1)], protocol, _BYTES, 3)
            assert done.protocol == protocol


@pytest.mark.parametrize(
    "line",
    [
        "exchange 0 1 1 1000 3",  # with itself
        "exchange 1 2 1 1000 3",
        "exchange 1 1 9 1000 3",
        "exchange 1 1 1 99999999 3",
        "exchange 1 1 1 1000 0",
        "send 1 1000",
        "receive 1 1 99999999 1 0",
        "size x",
        "dance",
    ],
)
def test_orders_without_sense_are_refused(pair, line):
    with pytest.raises(MeasureError, match=line.split(maxsplit=1)[0]):
        pair.ask({0: line})
