"""The platform file and options that SimGrid is given; `test_referee` runs it."""

import dataclasses

import pytest
from benchmarks.referee.simgrid import (
    compile_for_smpi,
    run_on_smpi,
    smpi_options,
    smpi_platform,
    why_no_smpi,
)

from tests.evaluation.machines import two_switches
from tests.model.test_route import staged_pair
from toposeat.errors import ApplicationError, InputError, ToposeatError, UnavailableError

needs_simgrid = pytest.mark.skipif(why_no_smpi() is not None, reason=str(why_no_smpi()))


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
