"""Machines with parts missing and numbers wrong: a verdict and a text for each, never a crash."""

from dataclasses import replace

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from toposeat.model.quantity import Quantity, Source
from toposeat.model.topology import PathClass, PcieState
from toposeat.report import TextStyle, render_topology_text
from toposeat.topology import findings_of, read_topology, wiring_of

MACHINES = ("k80-16", "dgx-1v", "rtx-4-crossed-bridges", "mi250x-8", "power9-4", "nvswitch:20")
_numbers = st.none() | st.integers(1, 64)


@st.composite
def damaged(draw):
    machine = read_topology(draw(st.sampled_from(MACHINES)))
    chance = st.integers(0, 5)
    routes = []
    for route in machine.routes:
        what = draw(chance) if len(routes) < 40 else 5
        if what == 0:
            continue
        if what == 1:
            rate = Quantity(draw(st.floats(1e6, 1e12)), Source.MEASURED)
            routes.append(replace(route, cap_bytes_per_s=rate, peer_access=False))
        elif what == 2:
            routes.append(replace(route, path_class=draw(st.sampled_from(PathClass))))
        else:
            routes.append(route)
    devices = tuple(
        replace(
            device,
            pcie=PcieState(width=draw(_numbers), max_width=draw(_numbers)),
            numa_node=draw(st.none() | st.integers(0, 3)),
            inactive_lanes=draw(_numbers),
            parent=draw(st.sampled_from(["", "", "board"])),
        )
        for device in machine.devices
    )
    return replace(machine, routes=tuple(routes), devices=devices, nics=machine.nics)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(damaged(), st.integers(40, 120), st.booleans())
def test_always_a_verdict_and_a_text_that_fits(machine, width, unicode):
    assert wiring_of(machine).reason
    assert all(finding.code and finding.detail for finding in findings_of(machine))
    text = render_topology_text(machine, TextStyle(width=width, unicode=unicode))
    assert max(len(line) for line in text.splitlines()) <= width
    assert unicode or text.isascii()
