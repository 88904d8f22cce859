"""The cluster itself is what the other tests of this folder believe it to be."""

from tests.support.cluster import LOGIN


def test_srun_starts_a_task_on_every_node(cluster):
    done = cluster.on(LOGIN, ["srun", "-N4", "-n4", "hostname"])
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.split()) == list(cluster.nodes)


def test_tmp_is_the_nodes_own_and_the_share_is_not(cluster):
    cluster.on("tb1", ["touch", "/tmp/local/own", cluster.share / "common"])
    done = cluster.on("tb2", ["ls", "/tmp/local/own", cluster.share / "common"])
    assert done.stdout.split() == [str(cluster.share / "common")]


def test_bytes_between_nodes_are_counted(cluster):
    before = cluster.bytes_sent()
    copy = "ssh tb2 'head -c 30000000 /dev/zero' | wc -c"
    assert cluster.on("tb1", ["sh", "-c", copy]).stdout.strip() == "30000000"
    after = cluster.bytes_sent()
    assert 30_000_000 <= after["tb2"] - before["tb2"] < 31_500_000
    assert after["tb3"] - before["tb3"] < 100_000
