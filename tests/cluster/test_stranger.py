"""A job on several nodes beside strangers on them: nothing is forged, nothing stops."""

import json
import subprocess
from pathlib import Path

import pytest

from tests.cluster.test_records import launch, profile, ring  # noqa: F401 - a fixture
from tests.support.cluster import LOGIN

STRANGER = Path(__file__).parent.parent / "neighbour" / "stranger.py"
AS_OTHER = ("setpriv", "--reuid=1002", "--regid=1002", "--clear-groups")


@pytest.mark.parametrize("mpi", ["wheel-mpich"], indirect=True)
def test_records_come_home_beside_strangers(
    cluster,
    mpi,
    ring,  # noqa: F811
):
    script = [*AS_OTHER, "/usr/bin/python3", "-c", STRANGER.read_text(), "0"]
    strangers = [cluster.start(each, script, stdin=subprocess.PIPE) for each in (LOGIN, "tb3")]
    assert [each.stdout.readline() for each in strangers] == ["begun\n"] * 2
    done = profile(cluster, mpi, LOGIN, [*launch(cluster, mpi, "srun"), ring])
    told = [json.loads(each.communicate()[0].splitlines()[-1]) for each in strangers]
    assert done.code == 0, done.said
    assert done.hosts() == sorted([*cluster.nodes] * 2)
    assert told[0]["ports"], "the stranger found no port to attack"
    for each in told:
        achieved = (each["secrets"], each["greeted"], each["written"], each["told"])
        assert achieved == ([], 0, 0, 0)
