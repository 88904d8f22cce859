"""Node ranks of our rendezvous, and what torch loads it by."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import tomllib
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.cluster import toposeat
from tests.support.processes import ran
from tests.support.pytorch import python_with_torch, why_no_torch
from toposeat.launch import rendezvous
from toposeat.launch.rendezvous.toposeat_rendezvous import Node, create, in_order

FOLDER = Path(rendezvous.__file__).parent
SCRIPT = """
import os, sys
sys.stdout.write("rank {RANK} {WORLD_SIZE}\\n".format_map(os.environ))
"""
TRAIN = (
    """
import torch
import torch.distributed as dist
dist.init_process_group("gloo")
dist.all_reduce(torch.ones(1000))
dist.destroy_process_group()
"""
    + SCRIPT
)
PLAN = ("tb10", "tb3", "tb1", "tb2")


def nodes(
    *hosts: str, groups: dict[str, str] | None = None, slurm: dict[str, str] | None = None
) -> dict[str, Node]:
    """Keys that sort in another way than hosts do, as addresses may."""
    return {
        host[::-1]: (
            host,
            tuple((groups or {}).get(host, "")),
            tuple((slurm or {}).get(host, "").split()),
        )
        for host in sorted(hosts)
    }


def ordered(found: dict[str, Node]) -> list[str]:
    return [found[key][0] for key in in_order(found, PLAN)]


@given(st.sets(st.sampled_from(PLAN), min_size=1))
def test_those_who_are_left_keep_the_order_of_the_plan(left: set[str]) -> None:
    assert ordered(nodes(*left)) == [host for host in PLAN if host in left]


@given(st.sets(st.sampled_from((*PLAN, "tb4", "tb7", "x1", "x2")), min_size=1))
def test_newcomers_never_part_the_order_of_the_plan(there: set[str]) -> None:
    found = ordered(nodes(*there))
    assert sorted(found) == sorted(there)
    assert [host for host in found if host in PLAN] == [host for host in PLAN if host in there]


def test_a_newcomer_comes_behind_the_nearest_by_the_networks_groups() -> None:
    groups = {"tb10": "01", "tb3": "02", "tb1": "11", "tb2": "11", "tb4": "11", "tb9": "02"}
    assert ordered(nodes(*PLAN, "tb4", "tb9", groups=groups)) == [
        *("tb10", "tb3", "tb9"),
        *("tb1", "tb2", "tb4"),
    ]


def test_else_by_the_switches_of_slurm_and_else_by_the_numbers_in_names() -> None:
    slurm = {"tb10": "top a", "tb3": "top b", "tb1": "top c", "tb2": "top c", "tb4": "top a"}
    assert ordered(nodes(*PLAN, "tb4", slurm=slurm)) == ["tb10", "tb4", "tb3", "tb1", "tb2"]
    assert ordered(nodes(*PLAN, "tb4", "tb12")) == ["tb10", "tb12", "tb3", "tb4", "tb1", "tb2"]


def test_hosts_are_the_same_with_and_without_a_domain() -> None:
    assert ordered(nodes("TB3.example.org", "tb1", "tb10.example.org")) == [
        *("tb10.example.org", "TB3.example.org", "tb1")
    ]


def test_without_any_host_of_the_plan_names_decide() -> None:
    assert ordered(nodes("n10", "n9", "n2")) == ["n2", "n9", "n10"]


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"order": 3}', '{"order": ["a"], "groups": []}'])
def test_without_a_plan_it_says_so_in_one_line(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOPOSEAT_NODES", text)
    with pytest.raises(SystemExit, match=r"holds no order of nodes: start torchrun by 'toposeat"):
        create(SimpleNamespace(run_id="1"))


def test_a_torch_without_this_inside_is_refused_in_one_line(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """No torch at all, and one whose handler has other parts."""
    monkeypatch.setenv("TOPOSEAT_NODES", json.dumps({"order": ["a"], "groups": {}}))
    name = "torch.distributed.elastic.rendezvous"
    monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(SystemExit, match=r"another rendezvous inside \(.*\): use --rdzv-backend="):
        create(SimpleNamespace(run_id="1"))
    other = SimpleNamespace(
        c10d_rendezvous_backend=SimpleNamespace(create_backend=lambda _: (None, None)),
        dynamic_rendezvous=SimpleNamespace(create_handler=lambda *_: SimpleNamespace()),
    )
    monkeypatch.setitem(sys.modules, name, other)
    with pytest.raises(SystemExit, match="_op_executor"):
        create(SimpleNamespace(run_id="1"))


def test_the_folder_is_a_distribution_with_the_entry_point() -> None:
    """In a Python without toposeat."""
    ask = (
        "from importlib.metadata import entry_points\n"
        "(found,) = entry_points(group='torchrun.handlers', name='toposeat')\n"
        "print(found.dist.name, callable(found.load()()))"
    )
    done = ran([sys.executable, "-S", "-c", ask], env={"PYTHONPATH": str(FOLDER)}, check=True)
    assert done.stdout.split() == ["toposeat-rendezvous", "True"]


def test_packages_hold_the_distribution() -> None:
    """scikit-build-core leaves out every `*.dist-info` that is not named."""
    root = Path(__file__).parents[3]
    named = tomllib.loads((root / "pyproject.toml").read_text())["tool"]["scikit-build"]["sdist"]
    found = [folder for each in named["include"] for folder in root.glob(each)]
    (own,) = FOLDER.glob("*.dist-info")
    assert own.resolve() in [folder.resolve() for folder in found]


@pytest.mark.skipif(bool(why_no_torch()), reason=why_no_torch() or "none")
def test_torchrun_starts_by_it(tmp_path: Path) -> None:
    """And ends in one line where it has no plan."""
    script = tmp_path / "say.py"
    script.write_text(SCRIPT)
    plan = json.dumps({"order": [os.uname().nodename], "groups": {}})
    line = [python_with_torch(), "-m", "torch.distributed.run", "--nnodes=1", "--nproc-per-node=2"]
    line += ["--rdzv-backend=toposeat", "--rdzv-endpoint=localhost:0", "--rdzv-id=1", str(script)]
    environment = {**os.environ, "PYTHONPATH": str(FOLDER), "TOPOSEAT_NODES": plan}
    done = ran(line, env=environment)
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == ["rank 0 2", "rank 1 2"]
    without = ran(line, env={**environment, "TOPOSEAT_NODES": ""})
    assert without.returncode == 1
    assert without.stderr.splitlines()[-1].startswith("toposeat: error: --rdzv-backend=toposeat: ")


@pytest.mark.skipif(bool(why_no_torch()), reason=why_no_torch() or "none")
def test_the_same_line_is_recorded_mapped_and_run_on_one_node(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(TRAIN)
    line = f"{python_with_torch()} -m torch.distributed.run --nnodes=1 --nproc-per-node=2"
    line += " --rdzv-backend=toposeat --rdzv-endpoint=localhost:0 --rdzv-id=1 train.py"
    steps = (
        f"{toposeat()} profile -o p.prof -- {line}",
        f"{toposeat()} map p.prof -t this -o p.place",
        f"{toposeat()} run -p p.place -- {line}",
    )
    done = ran(
        [toposeat(), "emulate", "-t", "polaris-4", "--", "sh", "-ec", "\n".join(steps)],
        cwd=tmp_path,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()[-2:]) == ["rank 0 2", "rank 1 2"]


@pytest.mark.skipif(bool(why_no_torch()), reason=why_no_torch() or "none")
def test_pods_are_ordered_by_their_nodes(tmp_path: Path) -> None:
    """Two agents on this host, which say the nodes of their pods; their names sort otherwise."""
    script = tmp_path / "say.py"
    script.write_text(
        "import os, sys\n"
        "sys.stdout.write('{TOPOSEAT_NODE} {GROUP_RANK}\\n'.format_map(os.environ))\n"
    )
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = free.getsockname()[1]
    line = [python_with_torch(), "-m", "torch.distributed.run", "--nnodes=2", "--nproc-per-node=1"]
    line += ["--rdzv-backend=toposeat", f"--rdzv-endpoint=localhost:{port}", "--rdzv-id=1"]
    plan = json.dumps({"order": ["n2", "n1"], "groups": {}})
    environment = {**os.environ, "PYTHONPATH": str(FOLDER), "TOPOSEAT_NODES": plan}
    agents = [
        subprocess.Popen(
            [*line, str(script)],
            env={**environment, "TOPOSEAT_NODE": node},
            stdout=subprocess.PIPE,
            text=True,
        )
        for node in ("n1", "n2")
    ]
    said = [agent.communicate()[0].strip() for agent in agents]
    assert said == ["n1 1", "n2 0"]
