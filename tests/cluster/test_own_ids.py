"""Plans with the ids of the catalogue or of other nodes, started from a login node."""

import json
from dataclasses import replace

import pytest

from tests.cluster.test_realise import DEVICES, SCATTERED, plan
from tests.support.cluster import LOGIN, toposeat
from toposeat.model.placement_file import save_placement

MACHINE = "polaris-4"
LINE = ["srun", "-N4", "-n16", "true"]


@pytest.fixture
def environment(cluster, tmp_path):
    """On every node the devices of the machine, but in PCI domain 1 instead of 0."""
    found = cluster.emulated(MACHINE)
    usual = found["TOPOSEAT_EMULATED_MACHINE"]
    own = f"{usual}-{tmp_path.name}"  # the stand-in keeps its state beside the file
    for node in (LOGIN, *cluster.nodes):
        renamed = f"sed '/^device/s/ 0000:/ 0001:/' {usual} > {own}"
        assert cluster.on(node, ["sh", "-c", renamed]).returncode == 0
    return {**found, "TOPOSEAT_EMULATED_MACHINE": own}


def placed(cluster, tmp_path, **metadata):
    path = cluster.share / f"{tmp_path.name}.place"
    save_placement(replace(plan(SCATTERED), metadata=metadata), path)
    return path


def test_nominal_ids_become_those_of_each_node(cluster, environment, tmp_path):
    place = placed(cluster, tmp_path, nominal=MACHINE)
    words = [toposeat(), "run", "--json", "-p", place, "--", *LINE]
    done = cluster.on(LOGIN, words, environment=environment)
    assert done.returncode == 0, done.stderr
    assert "asking the nodes of the job" in done.stderr
    seats = json.loads(done.stdout)["seats"]
    assert [seat["host"] for seat in seats] == [seat.host for seat in plan(SCATTERED).seats]
    assert {seat["verdict"] for seat in seats} == {"not checked"}  # `true` uses no device
    lists = [",".join(map(str, DEVICES[at])) for at in SCATTERED]
    assert [seat["visible_devices"] for seat in seats] == lists


def test_a_plan_of_other_nodes_starts_nothing(cluster, environment, tmp_path):
    place = placed(cluster, tmp_path)
    done = cluster.on(LOGIN, [toposeat(), "run", "-p", place, "--", *LINE], environment=environment)
    assert done.returncode == 1
    assert "Not started: 16 of 16 ranks cannot be seated as placed" in done.stderr
    assert "the placement needs device 0000:" in done.stderr


def test_one_node_of_another_kind_is_named(cluster, environment, tmp_path):
    file = environment["TOPOSEAT_EMULATED_MACHINE"]
    make = f'"$0" emulate -t k40-4 --dry-run > {file}'
    assert cluster.on("tb3", ["sh", "-c", make, toposeat()]).returncode == 0
    place = placed(cluster, tmp_path, nominal=MACHINE)
    done = cluster.on(LOGIN, [toposeat(), "run", "-p", place, "--", *LINE], environment=environment)
    assert done.returncode == 1
    assert "tb3" in done.stderr
    assert "polaris-4 has NVIDIA A100-SXM4-40GB" in done.stderr
