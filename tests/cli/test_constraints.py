"""Devices by host, slots by list, hostile numbers and Ctrl-C on the command line of `map`."""

import json
import signal
import subprocess
import sys
import time

import pytest

from tests.cli.test_errors import refused
from tests.mapping.clusters import cluster
from tests.support.processes import LONGEST_S
from toposeat.cli.main import main
from toposeat.mapping import map_traffic
from toposeat.model.map_options import Constraints, MapOptions
from toposeat.model.placement_file import load_placement
from toposeat.profile import read_traffic
from toposeat.topology import read_topology, save_topology, topology_document


@pytest.fixture
def machine(tmp_path):
    """Two hosts, n0 and n1, of eight devices each."""
    path = tmp_path / "two.json"
    save_topology(cluster(2), path)
    return str(path)


def mapped(capsys, *argv):
    assert main(["map", *argv, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def seats(result):
    return [int(each) for each in result["device_of_rank"]]


def test_devices_are_named_by_host(machine, capsys):
    result = mapped(
        capsys,
        *("ring:6", "-t", machine, "--devices", "n1:0-3,n0:6-7", "--pin", "5=n1:2"),
        *("--allow", "0=n0:6,n0:7", "--exclude", "n1:0", "--slots", "n1:1=2;n0:6-7=1"),
    )
    found = seats(result)
    assert found[5] == 8 + 2
    assert found[0] in {6, 7}
    assert sorted(found) == [6, 7, 9, 9, 10, 11]


def test_slots_by_list_are_exact(capsys, tmp_path):
    argv = ["ring:12", "-t", "dgx-1v", "--slots", "0-3=2;4-7=1"]
    found = seats(mapped(capsys, *argv))
    assert [found.count(device) for device in range(8)] == [2] * 4 + [1] * 4
    place = tmp_path / "shared.place"
    assert main(["map", *argv, "-o", str(place)]) == 0
    assert "Visibility mask" in capsys.readouterr().err
    assert main(["run", "-p", str(place), "--dry-run", "--", "mpirun", "-n", "12", "true"]) == 0
    assert "--visibility mask" in capsys.readouterr().out


def write_matrix(path, rows):
    path.write_text("\n".join(",".join(map(str, row)) for row in rows) + "\n")
    return str(path)


@pytest.mark.parametrize("bad", ["nan", "-1", "inf", "1e400", "9" * 400, "0x10"])
def test_bytes_that_are_no_bytes_are_refused(capsys, tmp_path, bad):
    matrix = write_matrix(tmp_path / "m.csv", [[0, 5, 5], [5, 0, bad], [5, 5, 0]])
    refused(capsys, ["map", matrix, "-t", "dgx-1v"], 1, "m.csv:2")


@pytest.mark.parametrize("objective", ["time", "congestion", "cost"])
@pytest.mark.parametrize("rows", [[[0]], [[0] * 4] * 4])
def test_nobody_talks(capsys, tmp_path, rows, objective):
    matrix = write_matrix(tmp_path / "m.csv", rows)
    argv = ["map", matrix, "-t", "dgx-1v", "--objective", objective, "--json"]
    code = main(argv)
    out, err = capsys.readouterr()
    if code == 0:
        assert json.loads(out)["device_of_rank"] == list(range(len(rows)))
    else:  # a matrix of nothing is more often a mistake
        assert code == 1
        assert err.count("\n") == 2


@pytest.mark.parametrize("objective", ["time", "congestion", "cost"])
@pytest.mark.parametrize("speed", [1e-3, 1e3, 1e30])
@pytest.mark.parametrize("bytes_", ["1", "1e15"])
def test_speeds_far_apart_end_in_an_answer_or_a_refusal(capsys, tmp_path, objective, speed, bytes_):
    document = json.loads(json.dumps(topology_document(read_topology("dgx-1v"))))
    for link in document["links"][::2]:
        for name, value in link.items():
            if name.endswith("bytes_per_s") and value is not None:
                _set_speed(link, name, speed)
    source = tmp_path / "far.json"
    source.write_text(json.dumps(document))
    argv = ["map", f"stencil3d:2x2x2,bytes={bytes_}", "-t", str(source), "--objective", objective]
    code = main([*argv, "--budget", "0.1", "--json"])
    out, err = capsys.readouterr()
    if code == 0:
        result = json.loads(out)
        assert sorted(result["device_of_rank"]) == list(range(8))
        assert 0 < result["placed"]["predicted_s"] <= result["default"]["predicted_s"]
    else:
        assert code == 1
        assert err.startswith("error: ")


def _set_speed(link, name, speed):
    if isinstance(link[name], dict):
        link[name]["value"] = speed
    else:
        link[name] = speed


ANNOUNCED = """
import sys
from toposeat.cli.main import main
from toposeat.mapping import mapper

solve = mapper._core.map_ranks

def announced(*args, **options):
    print("searching", file=sys.stderr, flush=True)
    return solve(*args, **options)

mapper._core.map_ranks = announced
raise SystemExit(main())
"""


@pytest.mark.parametrize("objective", ["cost", "congestion", "time"])
def test_ctrl_c_keeps_the_best_so_far(tmp_path, objective):
    machine, place = tmp_path / "eight.json", tmp_path / "app.place"
    save_topology(cluster(8), machine)
    argv = ["map", "random:64,seed=3,degree=9", "-t", str(machine), "--objective", objective]
    with subprocess.Popen(
        [sys.executable, "-c", ANNOUNCED, *argv, "--budget", "120", "-o", str(place)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as job:
        try:
            assert job.stderr.readline() == "searching\n"
            time.sleep(1)  # until the solver is inside and has its own handler
            job.send_signal(signal.SIGINT)
            out, err = job.communicate(timeout=LONGEST_S)
        finally:
            job.kill()
    assert job.returncode == 0, err
    assert "interrupted: the best placement so far" in out
    assert "Traceback" not in err
    assert len(load_placement(place).seats) == 64


def test_a_topology_of_several_hosts_through_python():
    machine, traffic = cluster(2), read_traffic("ring:8,bytes=1e6")
    constraints = Constraints(devices=[15, 14, 13, 12, 0, 1, 2, 3], allowed={0: [0, 1]})
    result = map_traffic(machine, traffic, MapOptions(constraints=constraints))
    assert sorted(result.device_of_rank) == [0, 1, 2, 3, 12, 13, 14, 15]
    assert result.device_of_rank[0] in {0, 1}
    assert result.placed.predicted_s <= result.default.predicted_s
