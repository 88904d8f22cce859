"""Real applications: what the interposer counts is what Open MPI's monitoring counts, cell by cell.

Both watch the same run, so that a run which depends on time (load balancing) is still comparable.
"""

import numpy as np
import pytest

from tests.support.applications import APPLICATIONS
from tests.support.mpi import find_mpi
from toposeat.model.traffic import MemorySpace, TrafficKind
from toposeat.profile import profile_run, read_traffic

# The messages of Open MPI 4.1's linear all-to-all are E rows, as if the user had sent them: on the
# monitoring's side only. With the pairwise algorithm they are I rows.
PAIRWISE_ALLTOALL = {
    "OMPI_MCA_coll_tuned_use_dynamic_rules": "1",
    "OMPI_MCA_coll_tuned_alltoall_algorithm": "2",
    "OMPI_MCA_coll_tuned_alltoallv_algorithm": "2",
}
BY_NAME = {each.name: each for each in APPLICATIONS}


@pytest.fixture(scope="module")
def debian_openmpi():
    """The MPI that Debian's applications are linked to."""
    found = find_mpi("debian-openmpi")
    if isinstance(found, str):
        pytest.skip(found)
    return found


def watched(application, ranks, mpi, folder, *options):
    """Point-to-point bytes by the interposer and by the monitoring, and the whole profile."""
    reason = application.missing()
    if reason:
        pytest.skip(reason)
    application.prepare(folder, 1)
    environment = {
        **mpi.env,
        **PAIRWISE_ALLTOALL,
        "OMP_NUM_THREADS": "1",
        "OMPI_MCA_pml_monitoring_enable": "2",
        "OMPI_MCA_pml_monitoring_enable_output": "3",
        "OMPI_MCA_pml_monitoring_filename": str(folder / "seen"),
    }
    line = [str(mpi.mpirun), *mpi.run_flags, "--wdir", str(folder), "-n", str(ranks)]
    traffic, code = profile_run([*line, *application.command, *options], environment=environment)
    assert code == 0
    point_to_point = traffic.table(kind=TrafficKind.POINT_TO_POINT)
    monitored = read_traffic(folder / "seen.0.prof").table(kind=TrafficKind.POINT_TO_POINT)
    return point_to_point.dense_bytes(ranks), monitored.dense_bytes(ranks), traffic


@pytest.mark.parametrize(
    ("name", "ranks", "options"),
    [
        ("LAMMPS LJ", 8, ()),
        ("LAMMPS PPPM", 16, ()),
        ("GROMACS PME", 8, ("-npme", "2")),
        ("Quantum ESPRESSO", 4, ()),
        ("HPCC", 4, ()),
    ],
)
def test_point_to_point_equals_monitoring_cell_by_cell(
    name, ranks, options, debian_openmpi, tmp_path
):
    ours, monitored, traffic = watched(BY_NAME[name], ranks, debian_openmpi, tmp_path, *options)
    assert np.array_equal(ours, monitored)
    assert traffic.table(space=MemorySpace.DEVICE).bytes.sum() == 0
    if name == "Quantum ESPRESSO":  # Fortran; on four ranks almost all of it is collective
        assert traffic.table(kind=TrafficKind.COLLECTIVE).bytes.sum() > 0
    else:
        assert np.count_nonzero(ours) > ranks
