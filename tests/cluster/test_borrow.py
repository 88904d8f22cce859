"""Devices lent on some nodes of a cluster, and a job on the others that borrows them."""

import ctypes.util
import json
import os
import sys
from pathlib import Path

import pytest

from tests.support.cluster import LOGIN, toposeat

COPY = Path(__file__).resolve().parents[1] / "support" / "opencl_copy.py"
SIZE = 1 << 20


def environment(cluster):
    """Two devices on each node, and a cache that all nodes see."""
    own = {"POCL_DEVICES": "pthread pthread", "TOPOSEAT_CACHE_DIR": str(cluster.share / "cache")}
    return {**os.environ, **own}


def lend(cluster, *words):
    """A `lend` that runs on the login node."""
    if ctypes.util.find_library("pocl") is None:
        pytest.skip("no PoCL (Debian: pocl-opencl-icd)")
    line = [toposeat(), "lend", "--json", "--", *words]
    return cluster.start(LOGIN, line, environment=environment(cluster))


@pytest.fixture
def lent(cluster):
    """The ids of four devices, two on a node of each leaf."""
    lender = lend(cluster, "srun", "-N2", "-n2", "-w", "tb1,tb3")
    told = [json.loads(lender.stdout.readline())["devices"] for _ in range(2)]
    yield sorted(device["id"] for own in told for device in own)
    stop(cluster, "toposeat lend")
    _, error = lender.communicate(timeout=60)
    assert lender.returncode == 0, error


def stop(cluster, command):
    """Ask what runs on the login node to end: signals do not pass the bed's own command."""
    cluster.on(LOGIN, ["pkill", "-TERM", "-f", command])


def borrow(cluster, *words):
    """What `borrow --json` says, and what its ranks printed."""
    done = cluster.on(
        LOGIN, [toposeat(), "borrow", "--json", *words], environment=environment(cluster)
    )
    assert done.returncode == 0, done.stderr
    documents = [json.loads(line) for line in done.stdout.splitlines()]
    result = next(each for each in documents if "schema" in each)
    return result, [each for each in documents if "write_s" in each]


def crossed(cluster):
    """Bytes that left the leaves so far."""
    links = json.loads(cluster.on(LOGIN, ["ip", "-s", "-j", "link"]).stdout)
    return sum(each["stats64"]["tx"]["bytes"] for each in links if each["ifname"].startswith("up"))


JOB = (
    "srun",
    "-N2",
    "-n8",
    "--ntasks-per-node=4",
    "-w",
    "tb2,tb4",
    sys.executable,
    COPY,
    str(SIZE),
)


def test_every_rank_borrows_below_its_own_leaf(cluster, lent):
    assert lent == ["tb1/0", "tb1/1", "tb3/0", "tb3/1"]
    network = cluster.share / "topology.conf"
    before = crossed(cluster)
    result, ranks = borrow(cluster, "-t", network, "--", *JOB)
    left_leaves = crossed(cluster) - before
    near = {"tb2": "tb1", "tb4": "tb3"}
    hosts = [seat["host"] for seat in result["seats"]]
    assert hosts == ["tb2"] * 4 + ["tb4"] * 4
    for seat in result["seats"]:
        (device,) = seat["devices"]
        assert device["host"] == near[seat["host"]]
        assert (seat["verdict"], seat["differences"]) == ("as placed", [])
        assert device["measured"]["round_trip_s"] > 0
        assert device["use"]["bytes_to"] >= SIZE
    used = [seat["devices"][0]["id"] for seat in result["seats"]]
    assert sorted(used) == sorted(lent * 2)  # no device has more than its share
    assert sorted(rank["rank"] for rank in ranks) == list(range(8))
    assert all(rank["same"] for rank in ranks)
    assert left_leaves < SIZE  # of 16 that were copied


def test_the_far_devices_are_borrowed_where_the_near_ones_are_taken(cluster, lent):
    del lent
    network = cluster.share / "topology.conf"
    holder = cluster.start(
        LOGIN,
        [
            *(toposeat(), "borrow", "--devices", "2", "-t", network, "--"),
            *("srun", "-N1", "-n1", "-w", "tb2", "sh", "-c", "echo started; exec sleep 100"),
        ],
        environment=environment(cluster),
    )
    assert holder.stdout is not None
    assert holder.stdout.readline() == "started\n"
    words = ("--dry-run", "-t", network, "--", "srun", "-N1", "-n1", "-w", "tb2", "true")
    result, _ = borrow(cluster, *words)
    stop(cluster, "toposeat borrow")
    holder.communicate(timeout=60)
    assert [device["host"] for device in result["seats"][0]["devices"]] == ["tb3"]
    result, _ = borrow(cluster, *words)
    assert [device["host"] for device in result["seats"][0]["devices"]] == ["tb1"]


def test_ssh_lends_a_node_and_its_key_stands_in_no_line(cluster):
    lender = lend(cluster, "ssh", "tb4")
    (device,) = json.loads(lender.stdout.readline())["devices"]
    assert device["host"] == "tb4"
    assert device["address"].startswith("10.88.0.14:")
    (file,) = (cluster.share / "cache" / "lent").glob(".toposeat-lend-*/lent.json")
    key = json.loads(file.read_text())["key"]
    lines = cluster.on(LOGIN, ["ps", "-A", "-ww", "-o", "args"]).stdout  # of the nodes, too
    assert "toposeat-clproxy" in lines
    assert key not in lines
    words = ("srun", "-N1", "-n1", "-w", "tb2", sys.executable, COPY, str(SIZE))
    result, (rank,) = borrow(cluster, "--", *words)
    assert (rank["host"], rank["same"]) == ("tb2", True)
    assert result["seats"][0]["verdict"] == "as placed"
    stop(cluster, "toposeat lend")
    _, error = lender.communicate(timeout=60)
    assert lender.returncode == 0, error
    for _ in range(100):
        if "toposeat-clproxy" not in cluster.on("tb4", ["ps", "-A", "-ww", "-o", "args"]).stdout:
            break
    assert "toposeat-clproxy" not in cluster.on("tb4", ["ps", "-A", "-ww", "-o", "args"]).stdout


def test_what_is_lent_ends_with_its_launcher(cluster, lent):
    assert len(lent) == 4
    cluster.on(LOGIN, ["scancel", "--user=root"])
    for _ in range(100):
        done = cluster.on(LOGIN, [toposeat(), "borrow"], environment=environment(cluster))
        if done.stdout == "Nothing is lent\n":
            break
    assert done.stdout == "Nothing is lent\n"


@pytest.mark.parametrize("how", ["asked", "drained"])
def test_a_process_moves_with_what_it_has_written(cluster, how):
    lines = [("srun", "-N1", "-n1", "-w", node) for node in ("tb1", "tb3")]
    lenders = [lend(cluster, *line) for line in lines]
    told = [json.loads(lender.stdout.readline())["devices"] for lender in lenders]
    assert [len(devices) for devices in told] == [2, 2]
    go_on = cluster.share / f"go-on-{how}"
    job = ("srun", "-N1", "-n1", "-w", "tb2", sys.executable, COPY, str(SIZE), "1", go_on)
    borrower = cluster.start(
        LOGIN,
        [toposeat(), "borrow", "--json", "-t", cluster.share / "topology.conf", "--", *job],
        environment=environment(cluster),
    )
    assert borrower.stdout.readline() == "written\n"
    if how == "asked":
        line = [toposeat(), "lend", "--json", "--move", "tb1/0=tb3/0"]
        done = cluster.on(LOGIN, line, environment=environment(cluster))
        assert done.returncode == 0, done.stderr
        moved = json.loads(done.stdout)
        assert (moved["processes"], moved["refused"]) == (1, [])
        listed = cluster.on(
            LOGIN, [toposeat(), "borrow", "--json"], environment=environment(cluster)
        )
        devices = json.loads(listed.stdout)["devices"]
        assert [each["id"] for each in devices if each["borrowed_by"]] == ["tb3/0"]
    else:
        stop(cluster, " ".join(["toposeat lend --json --", *lines[0]]))
        _, error = lenders[0].communicate(timeout=60)
        assert lenders[0].returncode == 0, error
        assert "1 process from tb1/0 to tb3/0" in error
    go_on.touch()
    out, error = borrower.communicate(timeout=60)
    assert borrower.returncode == 0, error
    rank, result = map(json.loads, out.splitlines())
    assert rank["same"]
    (seat,) = result["seats"]
    assert (seat["verdict"], seat["differences"]) == ("as placed", ["moved to tb3/0"])
    stop(cluster, "toposeat lend")
    for lender in lenders:
        lender.communicate(timeout=60)
