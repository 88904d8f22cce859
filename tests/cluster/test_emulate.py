"""`toposeat emulate` in front of launchers that start ranks on other nodes."""

import json

from tests.support.cluster import LOGIN, toposeat


def _devices_of_nodes(cluster, folder, launcher, environment=None):
    """How many devices each node sees whose discovery a launcher starts."""
    (cluster.share / folder).mkdir()
    discover = f'exec "$0" discover -t this -o {cluster.share}/{folder}/$(hostname).json'
    emulate = [toposeat(), "emulate", "-t", "polaris-4", "--"]
    words = [*emulate, *launcher, "sh", "-c", discover, toposeat()]
    done = cluster.on(LOGIN, words, environment=environment)
    assert done.returncode == 0, done.stderr
    found = [json.loads((cluster.share / folder / f"{n}.json").read_text()) for n in cluster.nodes]
    return [len(each["devices"]) for each in found]


def test_srun(cluster):
    assert _devices_of_nodes(cluster, "srun", ["srun", "-N4", "-n4"]) == [4, 4, 4, 4]


def test_mpirun(cluster, mpi):
    if mpi.family == "openmpi":
        hosts = ["--host", ",".join(f"{each}:1" for each in cluster.nodes)]
    else:
        hosts = ["-hosts", ",".join(cluster.nodes)]
    line = [mpi.mpirun, "-n", "4", *hosts]
    found = _devices_of_nodes(cluster, f"devices-{mpi.name}", line, mpi.env)
    assert found == [4, 4, 4, 4]
