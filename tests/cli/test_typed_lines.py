"""Lines as people type them: each works, or its hint says what to type."""

import shlex
import shutil
from pathlib import Path

import pytest

import toposeat.topology.readers.sysfs_snapshot  # noqa: F401 - else it keeps what is put in place below
from tests.mapping.clusters import cluster
from tests.support.processes import executable
from tests.support.typed_lines import lines
from toposeat.cli.main import main
from toposeat.errors import UnavailableError
from toposeat.model.traffic_file import save_traffic
from toposeat.profile import pattern_traffic
from toposeat.topology import save_topology

SEEDS = Path(__file__).parents[1] / "fuzz" / "seeds"
TEXTS = {
    "topo.txt": "\tGPU0\tGPU1\tGPU2\tGPU3\tCPU Affinity\n"
    "GPU0\t X \tPIX\tSYS\tSYS\t0-7\nGPU1\tPIX\t X \tSYS\tSYS\t0-7\n"
    "GPU2\tSYS\tSYS\t X \tPIX\t8-15\nGPU3\tSYS\tSYS\tPIX\t X \t8-15\n",
    "short.txt": "\tGPU0\tGPU1\tGPU2\tCPU Affinity\nGPU0\t X \tPIX\tSYS\t0-7\n",
    "piz.txt": "\tGPU0\tGPU1\tCPU Affinity\nGPU0\t X \tPIZ\t0-7\nGPU1\tPIX\t X \t0-7\n",
    "empty.txt": "",
    "error.txt": "NVIDIA-SMI has failed\n",
    "smi.txt": "Sat Nov 28 18:00:00 2026\n+-------+\n| NVIDIA-SMI 560.35.03 |\n|-------+\n",
    "gpus.csv": "index, name, pci.bus_id\n"
    + "".join(f"{n}, NVIDIA A40, 00000000:{n}8:00.0\n" for n in range(4)),
    "gpus.json": '[{"index": 0, "name": "NVIDIA H100", "uuid": "GPU-1"}]',
    "hyperfine.json": '{"results":[{"command":"sleep 1","mean":1.0,"times":[1.0]}]}',
    "nvprof.csv": "==12== NVPROF is profiling process 12, command: ./app\n==12== Profiling:\n"
    '"Type","Time(%)","Time","Calls","Name"\n"GPU activities",50.0,1.2,10,"[CUDA memcpy PtoP]"\n',
    "rankfile": "rank 0=n1 slot=0\nrank 1=n1 slot=1\n",
    "hostfile": "n1 slots=8\nn2 slots=8\n",
    "train.py": "import torch\n",
    "schema.json": '{"schema": "toposeat/topology/7", "devices": []}',
    "a.csv": "0,5000000\n0,0\n",
    "b.csv": "0,5000000\n0,0\n",
    "net.conf": "SwitchName=top Switches=l[1-2]\nSwitchName=l1 Nodes=n[1-3]\n"
    "SwitchName=l2 Nodes=n[4-5]\n",
}
BINARY = {
    "run.nsys-rep": b"NVIDIA Nsight\0\1\2\xff\xfe",
    "run.sqlite": b"SQLite format 3\0aaaa",
    "memray.bin": b"memray\0\1\2\3\xff",
    "perf.data": b"PERFILE2\0\0\xff",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """What lies about in a folder: a job's files, and those of other tools."""
    path = tmp_path_factory.mktemp("typed")
    for name, text in TEXTS.items():
        (path / name).write_text(text)
    for name, data in BINARY.items():
        (path / name).write_bytes(data)
    shutil.copy(SEEDS / "hwloc3.xml", path / "lstopo.xml")
    shutil.copy("/bin/true", path / "app")
    (path / "bin").mkdir()
    executable(path / "bin" / "mpirun", "#!/bin/sh\necho 'mpirun (Open MPI) 4.1.4'\n")
    save_traffic(pattern_traffic("ring:8"), path / "app.prof")
    save_topology(cluster(2), path / "two.json")
    for words in (
        "llm:tp=4 -t rtx-4-crossed-bridges -o app.place",
        "ring:8 -t dgx-1v -o eight.place",
    ):
        *line, name = words.split()
        assert main(["map", *line, str(path / name)]) == 0
    shutil.copy(path / "app.prof", path / "own.prof")
    return path


@pytest.fixture(autouse=True)
def without_gpus(folder, monkeypatch):
    """In that folder of a node without GPUs, outside of any job, with nothing set."""

    def none_here():
        raise UnavailableError("no GPU found on this machine (NVML: none)", hint="give one with -t")

    monkeypatch.setattr("toposeat.topology.live.discover.facts_of_this", none_here)
    monkeypatch.setenv("HOME", str(folder))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(folder / "none"))
    monkeypatch.setenv("TOPOSEAT_CACHE_DIR", str(folder / "none"))
    monkeypatch.setenv("PATH", str(folder / "bin"))
    monkeypatch.chdir(folder)


def typed(line, capsys):
    """Exit code, stdout and stderr of a line, and what it writes, which is removed."""
    before = set(Path().iterdir())
    try:
        code = main(shlex.split(line))
    except SystemExit as end:  # --help
        code = end.code
    written = set(Path().iterdir()) - before
    for path in written:
        path.unlink()
    return code, *capsys.readouterr(), written


@pytest.mark.parametrize(("line", "expected"), [row[1:] for row in lines("-")])
def test_line(line, expected, capsys):
    code, out, err, _ = typed("" if line == "NOTHING" else line, capsys)
    kind, words = expected[0], expected[2:]
    if kind == "=":
        assert code == 0 or line.startswith("doctor"), err
        assert words in out + err
        return
    assert code in (1, 2, 127)
    *_, cause, hint = err.replace("\n       ", " ").splitlines()
    assert cause.startswith("error: ")
    assert hint.startswith(f"hint:  {words}")


@pytest.mark.parametrize(("line", "expected"), [row[1:] for row in lines("refused")])
def test_refused(line, expected, capsys):
    code, out, err, written = typed(line, capsys)
    expected_code, words = expected.split(maxsplit=1)
    assert (str(code), out, written) == (expected_code, "", set())
    *before, cause, hint = err.replace("\n       ", " ").splitlines()
    assert cause.startswith("error: ")
    assert hint.startswith("hint:  ")
    assert all(line.startswith("Compare ") for line in before)
    for word in words.split("; "):
        assert word in f"{cause}\n{hint}"
