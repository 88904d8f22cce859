"""Several programs in one launch line are one job, with one profile."""

import shutil
from pathlib import Path

import pytest

from tests.support.interposed import compile_c
from tests.support.mpi import FEW_MPI_NAMES, find_mpi
from toposeat.errors import ToposeatError
from toposeat.launch import parse_launch_line
from toposeat.model.traffic import TrafficKind
from toposeat.profile import choose_abi, profile_run
from toposeat.report import render_traffic_text

SENDER = Path(__file__).parent / "programs" / "sender.c"
pytestmark = [pytest.mark.mpi, pytest.mark.parametrize("mpi", FEW_MPI_NAMES, indirect=True)]


@pytest.mark.parametrize("how", ["colons", "file"])
def test_one_profile_of_two_programs(mpi, how, build_dir, tmp_path):
    first = compile_c(mpi, SENDER, build_dir)
    second = tmp_path / "other"
    shutil.copy(first, second)
    lines = [["-n", "2", str(first), "10"], ["-n", "1", str(second), "700"]]
    behind = [*lines[0], ":", *lines[1]]
    if how == "file":
        file = tmp_path / "programs"
        file.write_text("".join(" ".join(words) + "\n" for words in lines))
        behind = ["--app" if mpi.family == "openmpi" else "-configfile", str(file)]
    traffic, code = profile_run([str(mpi.mpirun), *mpi.run_flags, *behind], environment=mpi.env)
    assert code == 0
    sent = traffic.table(kind=TrafficKind.POINT_TO_POINT).dense_bytes(3)
    assert sent.tolist() == [[0, 10, 0], [0, 0, 10], [700, 0, 0]]
    said = f"ranks 0-1 {first.name} : rank 2 other"
    assert traffic.metadata["programs"] == said
    assert said in " ".join(render_traffic_text(traffic).split())


def test_programs_of_two_mpis_are_refused(mpi, build_dir):
    """One library is preloaded into all of them."""
    other_name = next(name for name in FEW_MPI_NAMES if name != mpi.name)
    other = find_mpi(other_name)
    if isinstance(other, str):
        pytest.skip(other)
    programs = [compile_c(each, SENDER, build_dir) for each in (mpi, other)]
    words = [str(mpi.mpirun), "-n", "1", str(programs[0]), ":", "-n", "1", str(programs[1])]
    with pytest.raises(ToposeatError, match="MPIs of several ABIs"):
        choose_abi(parse_launch_line(words), mpi.env)
