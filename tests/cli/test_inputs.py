"""Every kind of input through the command line: what it may be, how large, how long it may take."""

import os
import re
import socket
import sys
import threading
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from tests.support.processes import ran
from toposeat.cli.main import main
from toposeat.errors import InputError
from toposeat.model import files
from toposeat.model.traffic_file import save_traffic
from toposeat.profile import pattern_traffic, read_traffic

# One verb for each kind of input, as words in which INPUT is the file.
VERBS = {
    "machine": "discover -t INPUT",
    "network": "discover -t slurm:INPUT",
    "host names": "map ring:8 -t fattree:2:4,hosts=INPUT --node dgx-1v",
    "traffic": "map INPUT -t dgx-1v",
    "placement": "export INPUT --launcher openmpi",
    "result": "report INPUT",
    "measurement": "discover -t dgx-1v -t INPUT",
    "borrowed run": "borrow --dry-run -p INPUT -- true",
}


def refused(argv, path, capsys):
    """The cause, of one line, that the command names."""
    assert main([word.replace("INPUT", str(path)) for word in argv.split()]) in (1, 2)
    out, err = capsys.readouterr()
    assert not out
    first, hint = err.splitlines()[:2]
    assert first.startswith(f"error: {path}: ")
    assert hint.startswith("hint: ")
    return first


def _folder(path):
    path.mkdir()


def _socket(path):
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(str(path))


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("make", [_folder, _socket])
def test_what_is_no_file(verb, make, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)  # names of sockets are short
    make(Path("in"))
    assert make.__name__[1:] in refused(VERBS[verb], Path("in"), capsys)


@pytest.mark.parametrize("verb", VERBS)
def test_devices(verb, capsys):
    assert "a device, not a file" in refused(VERBS[verb], Path("/dev/zero"), capsys)


TOO_LARGE = re.compile("larger than (1|64) MiB")  # 64 of machines and networks, whatever is small


@pytest.mark.parametrize("verb", VERBS)
def test_a_file_too_large(verb, small, tmp_path, capsys):
    path = tmp_path / "large"
    with path.open("wb") as file:
        file.write(b"# x\n")
        file.truncate(1 << 34)
    assert TOO_LARGE.search(refused(VERBS[verb], path, capsys))


@pytest.fixture
def small(monkeypatch):
    monkeypatch.setattr(files, "MAX_INPUT_BYTES", 1 << 20)
    monkeypatch.setattr(files, "MAX_TEXT_BYTES", 1 << 20)


@pytest.fixture
def pipe(tmp_path):
    path = tmp_path / "pipe"
    os.mkfifo(path)
    return path


@pytest.fixture
def endless(pipe):
    """A pipe whose writer never ends by itself."""

    def write():
        try:
            with pipe.open("wb") as out:
                while True:
                    out.write(b"0,1\n" * 1000)
        except BrokenPipeError:
            pass

    writer = threading.Thread(target=write)
    writer.start()
    yield pipe
    os.close(os.open(pipe, os.O_RDONLY | os.O_NONBLOCK))  # lets a writer go that nobody read
    writer.join()


@pytest.mark.parametrize("verb", VERBS)
def test_a_pipe_that_never_ends(verb, small, endless, capsys):
    assert TOO_LARGE.search(refused(VERBS[verb], endless, capsys))


@pytest.mark.parametrize("verb", VERBS)
def test_a_pipe_that_nobody_writes_to(verb, pipe, monkeypatch, capsys):
    monkeypatch.setattr(files, "MAX_SILENCE_S", 0.05)
    assert "a pipe whose writer wrote nothing for 0.05 s" in refused(VERBS[verb], pipe, capsys)


def test_a_pipe_that_is_slow_for_too_long(pipe, monkeypatch):
    monkeypatch.setattr(files, "MAX_PIPE_S", 0.05)
    writer = os.open(pipe, os.O_RDWR)
    try:
        os.write(writer, b"x")
        with pytest.raises(files.InputError, match=r"did not end for 0\.05 s"):
            files.read_input(pipe)
    finally:
        os.close(writer)


@pytest.mark.parametrize("name", ["m.npy", "app.profile", "x.tar", "trace.json.gz"])
def test_a_silent_pipe_hangs_nobody(name, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(files, "MAX_SILENCE_S", 0.05)
    os.mkfifo(tmp_path / name)
    argv = "discover -t INPUT" if name == "x.tar" else "map INPUT -t dgx-1v"
    assert "pipe" in refused(argv, tmp_path / name, capsys)


def _profile(path):
    save_traffic(pattern_traffic("ring:8"), path)


def _npy(path):
    with path.open("wb") as out:
        np.save(out, np.eye(8, k=1, dtype=np.int64))


def _pair_list(path):
    path.write_text("source,target,bytes\n0,7,5\n")


@pytest.mark.parametrize("write", [_profile, _npy, _pair_list])
def test_traffic_of_any_kind_comes_through_a_pipe(write, pipe, tmp_path):
    write(tmp_path / "file")
    with _written(pipe, (tmp_path / "file").read_bytes()):
        through = read_traffic(pipe)
    alone = read_traffic(tmp_path / "file")
    assert (through.ranks, dict(through.tables)) == (alone.ranks, dict(alone.tables))
    assert through.origin == alone.origin.replace("file", "pipe")
    refusal = rf"^{pipe}:2: '0,x,5'"
    with _written(pipe, b"source,target,bytes\n0,x,5\n"), pytest.raises(InputError, match=refusal):
        read_traffic(pipe)


@contextmanager
def _written(pipe, data):
    writer = threading.Thread(target=pipe.write_bytes, args=(data,))
    writer.start()
    yield
    writer.join()


def test_memory_that_ends_is_a_cause(tmp_path):
    """In a process of its own: what does not fit is what its limit leaves."""
    path = tmp_path / "wide.csv"
    path.write_text("# ranks=4000000\nsource,target,bytes\n" + "0,1,5\n" * 2_000_000)
    program = (
        "import resource, sys; from toposeat.cli.main import entry;"
        " import numpy, toposeat.profile.importers.matrices;"
        " used = int(open('/proc/self/statm').read().split()[0]) * 4096;"
        " resource.setrlimit(resource.RLIMIT_AS, (used + (32 << 20),) * 2); entry()"
    )
    done = ran([sys.executable, "-c", program, "map", str(path), "-t", "dgx-1v"])
    assert done.returncode == 1
    assert done.stderr.startswith("error: not enough memory")
    assert "Traceback" not in done.stderr
