"""Slurm's topology files: trees and blocks; what is refused, with its place."""

import re

import pytest

from toposeat.errors import InputError, UnavailableError, UsageError
from toposeat.model.network import NetworkKind
from toposeat.topology import hosts_of, is_network, network_of_hosts, read_network


def read(tmp_path, text, name="topology.conf", options=""):
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    return read_network(f"{path}{options}")


def groups(network):
    """Hosts by group, of every level."""
    found = []
    for level in network.levels:
        names = {}
        for host, group in zip(network.host_names, level.group_of_host, strict=True):
            names.setdefault(group, []).append(host)
        found.append(["+".join(each) for each in names.values()])
    return found


def test_tree_with_comments_case_and_continuation(tmp_path):
    network = read(
        tmp_path,
        "# core\nSWITCHNAME=s0 switches=s[1-2]\n"
        "SwitchName=s1 \\\n  Nodes=circe-n[001-002],n[019-020] LinkSpeed=100 # leaf\n"
        "SwitchName=s2 Nodes=n5\n",
    )
    assert network.kind is NetworkKind.TREE
    assert network.host_names == ("circe-n001", "circe-n002", "n019", "n020", "n5")
    assert groups(network)[-1] == ["circe-n001+circe-n002+n019+n020", "n5"]
    assert [link.level for link in network.links] == [1, 1]
    assert all(link.bytes_per_s is None for link in network.links)


def test_trees_that_are_not_joined_get_a_switch_and_a_remark(tmp_path):
    network = read(tmp_path, "SwitchName=a Nodes=n[1-2]\nSwitchName=b Nodes=n[3-4]\n")
    assert len(network.links) == 2
    assert any("not joined" in line for line in network.report)


def test_a_switch_with_two_parents_is_a_graph(tmp_path):
    network = read(
        tmp_path,
        "SwitchName=l1 Nodes=n1\nSwitchName=l2 Nodes=n2\n"
        "SwitchName=c1 Switches=l[1-2]\nSwitchName=c2 Switches=l[1-2]\n",
    )
    assert network.kind is NetworkKind.GRAPH
    assert network.levels == ()
    assert len(network.links) == 4


def test_scontrol_lists_all_nodes_below_on_every_level(tmp_path):
    network = read(
        tmp_path,
        "SwitchName=s0 Level=0 LinkSpeed=1 Nodes=n[1-2]\n"
        "SwitchName=s1 Level=0 LinkSpeed=1 Nodes=n[3-4]\n"
        "SwitchName=s2 Level=1 LinkSpeed=1 Nodes=n[1-4] Switches=s[0-1]\n",
    )
    assert all(len(host.ports) == 1 for host in network.hosts)


def test_blocks_are_gathered_as_their_sizes_say(tmp_path):
    network = read(
        tmp_path,
        "BlockName=b1 Nodes=n[01-04]\nBlockName=b2 Nodes=n[05-08]\nBlockName=b3 Nodes=n[09-12]\n"
        "BlockName=b4 Nodes=n[13-16]\nBlockSizes=4,8\n",
    )
    assert network.kind is NetworkKind.BLOCK
    assert [len(level) for level in groups(network)] == [1, 2, 4]


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        (
            "SwitchName=a Nodes=n[1-\n",
            "topology.conf:1: hostlist 'n[1-': brackets that do",
        ),
        (
            "SwitchName=a Nodes=n1\nSwitchName=a Nodes=n2\n",
            ":2: switch a is already defined in line 1",
        ),
        ("SwitchName=a Switches=b\n", ":1: switch a is above b, which is not defined"),
        ("SwitchName=a Switches=b\nSwitchName=b Switches=a\n", "above itself"),
        ("SwitchName=a Switches=a\n", "above itself"),
        ("SwitchName=a Nodes=n1 Speed=3\n", ":1: unknown key 'Speed'"),
        ("SwitchName=a Nodes=n1 n2\n", ":1: expected KEY=VALUE, found 'n2'"),
        ("SwitchName=a Nodes=n1 Nodes=n2\n", ":1: Nodes twice"),
        ("SwitchName=a Nodes=n[1-2],n1\n", ":1: n1 twice on switch a"),
        ("SwitchName=a\n", "no host is named"),
        ("BlockName=a Nodes=n1\nBlockName=b Nodes=n1\n", ":2: host n1 is in two blocks"),
        ("BlockName=a Nodes=n[1-4]\nBlockSizes=4,6\n", "block size 6 is no multiple"),
        ("BlockName=a Nodes=n[1-4]\nBlockSizes=x\n", "block sizes are numbers from 1"),
        ("SwitchName=a Nodes=n[1-99999999]\n", ":1: hostlist"),
    ],
)
def test_topology_conf_refuses_with_the_line(tmp_path, text, cause):
    with pytest.raises(InputError, match=re.escape(cause)) as error:
        read(tmp_path, text)
    assert error.value.hint
    assert "\n" not in error.value.message


MANUAL = "machines/slurm-topology/slurm-man-topology.yaml"


def test_the_manuals_yaml_has_five_kinds(shared_dir):
    path = shared_dir / MANUAL
    tree = read_network(path)
    assert (tree.name, tree.kind) == ("topo1", NetworkKind.TREE)
    assert any("topo2, topo3, topo3a, topo4, topo5" in line for line in tree.report)
    blocks = read_network(f"{path},topology=topo2")
    assert [len(level) for level in groups(blocks)] == [1, 4]  # 16 is all there is
    for other, kind in (("topo4", "ring"), ("topo5", "torus3d")):
        with pytest.raises(InputError, match=f"'{other}' is a {kind}: not read") as caught:
            read_network(f"{path},topology={other}")
        assert "-t torus3d:" in caught.value.hint
    for flat in ("topo3", "topo3a"):
        with pytest.raises(InputError, match="is flat and names no host"):
            read_network(f"{path},topology={flat}")
    with pytest.raises(InputError, match="no topology 'topo9'"):
        read_network(f"{path},topology=topo9")


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ("- topology: a\n  tree:\n    switches:\n    - switch: s\n      nodes: n[1-\n", "bra"),
        ("- topology: a\n  tree:\n    switches: 3\n", "at `$[0].tree.switches`"),
        ("- topology: a\n  tree: {}\n  flat: true\n", "topology 'a' has 2 kinds"),
        ("- topology: a\n", "has 0 kinds"),
        ("- topology: a\n  tree: [\n", "no valid YAML"),
        ("- topology: a\n  topology: b\n", ":2: 'topology' appears twice"),
        ("- topology: &x a\n  tree: *x\n", ":2: YAML aliases and deep nesting are not read"),
        ("- topology: a\n  tree: " + "[" * 300 + "\n", ":2: YAML aliases and deep nesting"),
        ("- topology: a\n  tree: {}\n---\n- b\n", "2 documents"),
        ("- topology: a\n  block: {block_sizes: [0], blocks: [{block: b, nodes: n1}]}\n", "sizes"),
    ],
)  # fmt: skip
def test_topology_yaml_refuses_with_the_place(tmp_path, text, cause):
    with pytest.raises(InputError, match=re.escape(cause)) as error:
        read(tmp_path, text, "topology.yaml")
    assert error.value.hint


def test_a_running_job_by_scontrol(tmp_path, monkeypatch):
    for name in ("SLURM_JOB_NODELIST", "SLURM_NODELIST", "PBS_NODEFILE", "LSB_DJOB_HOSTFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UnavailableError, match="no job"):
        read_network("slurm-job")
    monkeypatch.setenv("SLURM_JOB_NODELIST", "n[2-3]")
    with pytest.raises(UnavailableError, match="No such file"):
        read_network("slurm-job")
    scontrol = tmp_path / "scontrol"
    scontrol.write_text(
        "#!/bin/sh\necho 'SwitchName=s0 Level=0 Nodes=n[1-2]'\n"
        "echo 'SwitchName=s1 Level=0 Nodes=n[3-4]'\n"
        "echo 'SwitchName=s2 Level=1 Nodes=n[1-4] Switches=s[0-1]'\n"
    )
    scontrol.chmod(0o755)
    network = read_network("slurm-job")
    assert network.host_names == ("n2", "n3")
    assert groups(network)[-1] == ["n2", "n3"]
    scontrol.write_text("#!/bin/sh\necho 'slurm_load_topo error' >&2\nexit 1\n")
    with pytest.raises(UnavailableError, match="slurm_load_topo error"):
        read_network("slurm-job")


def test_hosts_of_a_job(tmp_path):
    nodefile = tmp_path / "nodes"
    nodefile.write_text("n1\nn1\nn2 slots=8\n# no\nn3:4\n")
    assert hosts_of(str(nodefile)) == ("n1", "n2", "n3")
    assert hosts_of("job", {"PBS_NODEFILE": str(nodefile)}) == ("n1", "n2", "n3")
    assert hosts_of("job", {"SLURM_JOB_NODELIST": "n[1-2]"}) == ("n1", "n2")
    with pytest.raises(UnavailableError):
        hosts_of("job", {})
    with pytest.raises(InputError, match="no host is named"):
        hosts_of("  ,")


@pytest.mark.parametrize(
    "options", [",bandwidth=x", ",bandwidth=0", ",latency=1", ",taper=0", ",taper=1,taper=2",
                ",topology=a", ",bandwidth=1:-1"]
)  # fmt: skip
def test_options_that_make_no_sense(tmp_path, options):
    with pytest.raises(UsageError) as error:
        read(tmp_path, "SwitchName=a Nodes=n1\n", options=options)
    assert error.value.hint


def test_what_is_a_network(tmp_path):
    conf = tmp_path / "a,b.conf"
    conf.write_text("SwitchName=a Nodes=n[1-2]\n")
    assert is_network(str(conf))
    assert is_network(f"{conf},bandwidth=25")
    assert is_network("slurm:nowhere")
    assert is_network("slurm-job")
    assert not is_network("dgx-1v")
    assert not is_network(str(tmp_path))
    other = tmp_path / "other"
    other.write_text("GPU0 GPU1\n")
    assert not is_network(str(other))
    with pytest.raises(InputError, match="no network that is known"):
        read_network(f"ib:{other}")


def test_the_network_of_a_job_that_nobody_describes_is_one_switch():
    network = network_of_hosts(None, ["n2", "n1"], in_slurm=False)
    assert network.host_names == ("n2", "n1")
    assert len(network.switches) == 1
    assert network.report == ("assumed: one switch joins all hosts (no source is named with -t)",)


def test_the_network_of_the_hosts_that_slurm_gave(tmp_path, monkeypatch):
    scontrol = tmp_path / "scontrol"
    scontrol.write_text(
        "#!/bin/sh\necho SwitchName=a Nodes=n[1-2]\necho SwitchName=b Nodes=n[3-4]\n"
        "echo SwitchName=top Switches=a,b\n"
    )
    scontrol.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    assert is_network("slurm-job,bandwidth=25:50")
    network = network_of_hosts("slurm-job,bandwidth=25:50", ["n3", "n1"], in_slurm=False)
    assert network.host_names == ("n3", "n1")
    assert network.rates.bandwidths_bytes_per_s == (25e9, 50e9)
    unknown = network_of_hosts(None, ["m1", "m2"], in_slurm=True)
    assert "scontrol shows no switch above m1" in unknown.report[0]
    with pytest.raises(InputError, match="shows no switch above m1"):
        network_of_hosts("slurm-job", ["m1"], in_slurm=True)
