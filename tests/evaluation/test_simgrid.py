"""The platform file and options that SimGrid is given; `test_referee` runs it."""

import dataclasses
from xml.etree import ElementTree

import pytest
from benchmarks.referee.simgrid import (
    compile_for_smpi,
    run_on_smpi,
    smpi_options,
    smpi_platform,
    why_no_smpi,
)

from tests.evaluation.machines import link, two_switches
from tests.model.test_route import staged_pair
from toposeat.errors import ApplicationError, InputError, ToposeatError, UnavailableError

needs_simgrid = pytest.mark.skipif(why_no_smpi() is not None, reason=str(why_no_smpi()))


def platform(text):
    root = ElementTree.fromstring(text)
    links = {each.attrib["id"]: dict(each.attrib) for each in root.iter("link")}
    routes = {
        (each.attrib["src"], each.attrib["dst"]): [use.attrib["id"] for use in each]
        for each in root.iter("route")
    }
    return links, routes


def test_every_ordered_pair_has_a_route_with_its_cap_and_latency():
    machine = two_switches(uplink=50, combined=70, far_cap=30, latency=0.5)
    links, routes = platform(smpi_platform(machine))
    assert len(routes) == 16
    far = routes["d0", "d3"]
    assert far == ["p3", "l0.forward", "l4.forward", "l4.combined", "l3.backward"]
    assert routes["d3", "d0"][2:4] == ["l4.backward", "l4.combined"]
    assert links["p3"]["sharing_policy"] == "FATPIPE"
    assert (links["p3"]["bandwidth"], links["p3"]["latency"]) == ("30.0Bps", "1.0s")
    assert links["l4.combined"]["bandwidth"] == "70.0Bps"
    shared = [each for each in links.values() if each["sharing_policy"] == "SHARED"]
    assert {each["latency"] for each in shared} == {"0.0s"}


def test_staged_routes_use_both_directions_and_a_pair_shares_its_limit():
    links, routes = platform(smpi_platform(staged_pair(), message_bytes=1024))
    assert routes["d0", "d1"] == [
        "p1",
        "l0.forward",
        "l2.forward",
        "l2.backward",
        "l1.backward",
        "b0",
    ]
    assert routes["d1", "d0"] == ["p2", "l1.forward", "l0.backward", "b0"]
    assert links["b0"]["bandwidth"] == "11000000000.0Bps"
    assert links["p1"]["latency"] == "1.9e-05s"
    assert links["p1"]["bandwidth"] == "1000000000.0Bps"  # of the curve at that size
    best, _ = platform(smpi_platform(staged_pair()))
    assert best["p1"]["bandwidth"] == "9000000000.0Bps"


def test_what_never_limits_is_left_out():
    machine = two_switches(uplink=50, latency=0.0)
    wide = (*machine.links[:-1], link("up", ("s", "t"), 1e20))
    links, routes = platform(smpi_platform(dataclasses.replace(machine, links=wide)))
    assert "l4.forward" not in links
    assert routes["d0", "d2"] == ["p2", "l0.forward", "l2.backward"]
    assert links["p2"]["latency"] != "0.0s"  # SimGrid would weight such a route unlike the others


def test_options_have_the_names_of_the_version():
    old, new = smpi_options((3, 32)), smpi_options((4, 0))
    assert "--cfg=network/optim:Full" in old
    assert "--cfg=network/optim:Full" in new
    assert "--cfg=smpi/bw-factor:0:1" in old
    assert not any("smpi/bw-factor" in option or "surf/" in option for option in new)


def test_a_missing_simgrid_is_named(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert why_no_smpi() == "SimGrid's smpicc and smpirun not found"
    with pytest.raises(UnavailableError, match="smpicc and smpirun not found") as caught:
        run_on_smpi(staged_pair(), [0, 1], tmp_path / "program")
    assert "libsimgrid-dev" in caught.value.hint


@needs_simgrid
def test_a_program_of_ones_own(tmp_path):
    source = tmp_path / "hello.c"
    source.write_text(
        "#include <mpi.h>\n#include <stdio.h>\n"
        "int main(int c, char **v) { int r, n; MPI_Init(&c, &v); MPI_Comm_rank(MPI_COMM_WORLD, &r);"
        ' MPI_Comm_size(MPI_COMM_WORLD, &n); if (r == 0) printf("%s of %d\\n", v[1], n);'
        " MPI_Finalize(); return r == 0 && c > 2 ? 3 : 0; }\n"
    )
    compile_for_smpi([source], tmp_path / "hello")
    machine = two_switches(uplink=50, latency=1e-5, unit=1e8)
    assert run_on_smpi(machine, [3, 1, 1], tmp_path / "hello", ["word"]) == "word of 3\n"
    with pytest.raises(ApplicationError, match="the simulation failed") as caught:
        run_on_smpi(machine, [0], tmp_path / "hello", ["word", "more"])
    assert caught.value.exit_code != 0
    source.write_text("no C")
    with pytest.raises(ToposeatError, match=r"smpicc does not compile hello\.c"):
        compile_for_smpi([source], tmp_path / "hello")


def test_a_machine_without_a_route_is_refused():
    with pytest.raises(InputError, match="no route"):
        smpi_platform(dataclasses.replace(staged_pair(), routes=()))
