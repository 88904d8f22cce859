"""Tables that UCX 1.22 printed (UCX_PROTO_INFO=y, Open MPI 5, stand-in GPUs), read as rules."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toposeat.launch import device_rule
from toposeat.model.route import CopyProtocol

GET, PUT, STAGED = CopyProtocol.GET, CopyProtocol.PUT, CopyProtocol.STAGED
RECORDED = (Path(__file__).parent / "ucx_protocols.txt").read_text()


def recorded(name):
    return RECORDED.split(f"# {name}\n", 1)[1].split("\n# ", 1)[0]


@pytest.mark.parametrize(
    ("name", "pieces"),
    [
        ("default", ((0, STAGED), (11293, PUT), (38974, STAGED))),
        ("put", ((0, PUT),)),
        ("get", ((0, GET),)),
        ("noipc", ((0, STAGED),)),
        ("put64", ((0, STAGED), (65536, PUT))),
    ],
)
def test_what_was_recorded(name, pieces):
    rule = device_rule(recorded(name))
    assert rule.pieces == pieces
    # Lines of the program between the tables, and other processes' lines, change nothing.
    mixed = "\n".join(f"{line}\nstep | 3 | done |" for line in recorded(name).splitlines())
    assert device_rule(mixed) == rule


def test_host_messages_other_nodes_and_nothing():
    assert device_rule("") is None
    assert device_rule(recorded("put").replace("cuda/GPU", "host ")) is None
    assert device_rule(recorded("put").replace("intra-node", "inter-node")) is None


@given(st.text(alphabet="[]:|.0123456789KMGinf ucp_tag_send*cuda()\n", max_size=400))
def test_any_text_is_survived(text):
    device_rule(text)
    device_rule(recorded("put") + text)
