"""Which MPI an `mpirun` belongs to."""

import pytest

from tests.support.processes import executable
from toposeat.errors import UsageError
from toposeat.launch import LauncherKind, identify_launcher

pytestmark = pytest.mark.each_abi


def test_installed_launchers_are_told_apart(mpi, monkeypatch):
    for name, value in mpi.env.items():
        monkeypatch.setenv(name, value)
    assert identify_launcher(str(mpi.mpirun)).value == mpi.family


def script(folder, name, answer):
    path = executable(folder / name, f"#!/bin/sh\ncat <<'END'\n{answer}\nEND\n")
    return str(path)


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        ("mpirun (Open MPI) 5.0.11", LauncherKind.OPENMPI),
        ("mpirun.openmpi (OpenRTE) 4.1.4", LauncherKind.OPENMPI),
        ("prterun (PRRTE) 4.0.0", LauncherKind.OPENMPI),
        ("HYDRA build details:\n    Version: 4.0.2", LauncherKind.MPICH),
        (
            "Intel(R) MPI Library for Linux* OS, Version 2021.18 Build 20260101\nCopyright",
            LauncherKind.INTEL,
        ),
    ],
)
def test_the_answer_to_version_decides(tmp_path, answer, kind):
    assert identify_launcher(script(tmp_path, "mpirun", answer)) is kind


def test_a_link_to_a_known_launcher_needs_no_question(tmp_path):
    script(tmp_path, "orterun", "nothing of use")
    (tmp_path / "mpiexec").symlink_to(tmp_path / "orterun")
    assert identify_launcher(str(tmp_path / "mpiexec")) is LauncherKind.OPENMPI


def test_a_launcher_nobody_knows_is_refused(tmp_path):
    with pytest.raises(UsageError, match=r"answers 'Acme MPI 1\.0'"):
        identify_launcher(script(tmp_path, "mpirun", "Acme MPI 1.0\nmore"))
    for name in ("aprun", "jsrun", "ibrun", "mpirun_rsh"):
        with pytest.raises(UsageError, match=f"cannot read launch lines of {name}") as refused:
            identify_launcher(f"/opt/{name}")
        assert f"{name} OPTIONS toposeat-exec -m PLACEMENT ./app" in refused.value.hint


def test_a_script_that_cannot_be_started_is_said(tmp_path):
    executable(tmp_path / "mpirun", "#!/no/such/interpreter\n")
    with pytest.raises(UsageError, match="cannot find out which MPI"):
        identify_launcher(str(tmp_path / "mpirun"))


def test_other_programs_are_no_launchers():
    assert identify_launcher("./app") is LauncherKind.NONE
    assert identify_launcher("python3") is LauncherKind.NONE
