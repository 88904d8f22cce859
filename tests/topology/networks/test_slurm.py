"""Slurm: recorded files, options, running jobs; texts of it: `cases/network_slurm.txt`."""

import pytest

from toposeat.errors import InputError, UnavailableError, UsageError
from toposeat.model.network import NetworkKind
from toposeat.topology import hosts_of, is_network, network_of_hosts, read_network


def groups(network):
    """Hosts by group, of every level."""
    found = []
    for level in network.levels:
        names = {}
        for host, group in zip(network.host_names, level.group_of_host, strict=True):
            names.setdefault(group, []).append(host)
        found.append(["+".join(each) for each in names.values()])
    return found


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
    path = tmp_path / "topology.conf"
    path.write_text("SwitchName=a Nodes=n1\n")
    with pytest.raises(UsageError) as error:
        read_network(f"{path}{options}")
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
