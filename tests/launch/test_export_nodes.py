"""The order of nodes, as each launcher that numbers ranks node by node documents its rule."""

import os
import re
import shlex

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.launch.test_export import BY_NODE, MIXED, file_of, placement
from tests.support.processes import executable, ran
from toposeat.errors import UsageError
from toposeat.launch import export_placement

# n10 sorts before n2 as text, and n2 before n10 by number: neither is the order of the plan.
HOSTS = ["n3", "n10", "n2"]
PLACE = placement([h for h in HOSTS for _ in "12"], [1, 0, 2, 3, 3, 2], [None] * 6)
DEVICES = {"n3": "1,0", "n10": "2,3", "n2": "3,2"}
STUB = """#!/bin/sh
echo "devices=$CUDA_VISIBLE_DEVICES order=$CUDA_DEVICE_ORDER"
printf '%s\\n' "$@"
"""


def started(export, folder, *program):
    """What the launcher is given on each host: its environment, then its arguments."""
    stubs = folder / "bin"
    stubs.mkdir()
    for name in ("torchrun", "python3"):
        executable(stubs / name, STUB)
    executable(stubs / "hostname", "#!/bin/sh\necho $FAKE_HOST.example.org\n")
    for file in export.files:
        (folder / file.name).parent.mkdir(exist_ok=True)
        (folder / file.name).write_text(file.text)
    found = {}
    for host in HOSTS:
        env = {"PATH": f"{stubs}:{os.environ['PATH']}", "FAKE_HOST": host}
        words = [*export.command[:2], *(program or export.command[2:])]
        done = ran(words, cwd=folder, env=env, check=True)
        found[host] = done.stdout.splitlines()
    return found


def option(words, name):
    """The value of `--name=value` or `--name value`."""
    for at, word in enumerate(words):
        if word == name:
            return words[at + 1]
        if word.startswith(name + "="):
            return word.partition("=")[2]
    raise AssertionError(f"no {name} in {words}")


def test_static_rendezvous_numbers_nodes_by_node_rank(tmp_path):
    found = started(export_placement(PLACE, "torchrun"), tmp_path, "train.py", "--lr", "1 e-3")
    for node, host in enumerate(HOSTS):
        words = found[host]
        assert words[0] == f"devices={DEVICES[host]} order=PCI_BUS_ID"
        assert int(option(words, "--node-rank")) == node
        assert option(words, "--rdzv-backend") == "static"
        assert option(words, "--master-addr") == "n3"
        assert option(words, "--nnodes") == "3"
        assert words[-3:] == ["train.py", "--lr", "1 e-3"]


def natural(text):
    """Numbers by value: how pytorch#191285 would have nodes sorted."""
    parts = re.findall(r"\d+|\D+", text)
    return [(0, int(p), "") if p.isdigit() else (1, 0, p) for p in parts]


def test_c10d_sorts_nodes_by_local_address(tmp_path):
    """`sorted(participants)`, by address as text; that of node 0 becomes MASTER_ADDR."""
    found = started(export_placement(PLACE, "torchrun-c10d"), tmp_path)
    address = {host: option(words, "--local-addr") for host, words in found.items()}
    assert sorted(HOSTS, key=address.__getitem__) == HOSTS
    assert sorted(HOSTS, key=lambda host: natural(address[host])) == HOSTS
    assert address["n3"] == "n3"
    for words in found.values():
        assert option(words, "--rdzv-endpoint") == "n3:29500"
        assert not any(word.startswith("--node-rank") for word in words)


@given(count=st.integers(2, 130), seed=st.randoms())
@settings(max_examples=20)
def test_addresses_of_c10d_sort_for_any_number_of_nodes(count, seed):
    """The line of the script, evaluated here for every node."""
    hosts = [f"node{i}" for i in range(count)]
    seed.shuffle(hosts)
    text = file_of(
        export_placement(placement(hosts, [0] * count, [None] * count), "torchrun-c10d"),
        "torchrun-c10d.sh",
    )
    width = int(re.search(r"%0(\d+)d", text)[1])
    keys = [hosts[0], *(f"{hosts[0]}~{node:0{width}d}" for node in range(1, count))]
    assert keys == sorted(keys) == sorted(keys, key=natural)


@pytest.mark.parametrize("launcher", BY_NODE)
def test_ranks_that_are_not_in_blocks_are_refused(launcher):
    with pytest.raises(UsageError, match=f"{launcher} gives every node") as error:
        export_placement(MIXED, launcher)
    assert error.value.hint


def test_a_host_that_is_not_in_the_plan_starts_nothing(tmp_path):
    export = export_placement(PLACE, "torchrun")
    (tmp_path / "torchrun.sh").write_text(file_of(export, "torchrun.sh"))
    done = ran(shlex.split(export.line), cwd=tmp_path)
    assert done.returncode == 1
    assert "is not in the placement" in done.stderr
