"""Bundles of records: what is in them arrives, and what they may not do."""

import random
import secrets
import shutil
import socket
import struct
import subprocess
from pathlib import Path

import pytest

from tests.support.node_folders import name_of_run
from toposeat.errors import InputError
from toposeat.installed import native_path
from toposeat.launch.home_wire import KEY_VARIABLE, proof
from toposeat.model.job_folder import MEMORY_FOLDER
from toposeat.profile.recording.gathering import unpack_bundles

_SECONDS = 300.0  # after which a test has failed, whoever it waits for


def packed(name, size, extents):
    """One file as `launcher/src/carry.h` describes it."""
    parts = [struct.pack(">64sQQ", name.encode(), size, len(extents))]
    parts += [struct.pack(">QQ", offset, len(data)) + data for offset, data in extents]
    return b"".join(parts)


def test_files_and_holes(tmp_path):
    record = packed("rank-3-77.tpsrec", 1 << 30, [(0, b"head"), ((1 << 30) - 4, b"tail")])
    (tmp_path / "node-a.tpsnode").write_bytes(record + packed("rank-3-77.host", 2, [(0, b"n1")]))
    (tmp_path / "node-b.tpsnode").write_bytes(packed("rank-4-5-t12.tpsrec", 0, []))
    unpack_bundles(tmp_path, {})
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {"rank-3-77.tpsrec", "rank-3-77.host", "rank-4-5-t12.tpsrec"}
    made = tmp_path / "rank-3-77.tpsrec"
    assert made.stat().st_size == 1 << 30
    assert made.stat().st_blocks * 512 < 1 << 20
    with made.open("rb") as file:
        assert file.read(6) == b"head\0\0"
        file.seek(-6, 2)
        assert file.read() == b"\0\0tail"
    assert (tmp_path / "rank-3-77.host").read_text() == "n1"


def test_a_node_replaces_what_it_has_brought_and_nothing_else(tmp_path):
    def bring(bundle, text, *names):
        files = (packed(name, len(text), [(0, text)]) for name in names)
        (tmp_path / bundle).write_bytes(b"".join(files))
        unpack_bundles(tmp_path, senders)

    senders = {}
    (tmp_path / "rank-0-1.tpsrec").write_bytes(b"of this node")
    bring("0-node-a-1-1.tpsnode", b"first", "rank-1-2.tpsrec", "rank-0-1.tpsrec")
    bring("1-node-b-1-1.tpsnode", b"forged", "rank-1-2.tpsrec", "rank-0-1.tpsrec", "rank-2-3.host")
    bring("0-node-a-1-2.tpsnode", b"whole", "rank-1-2.tpsrec")
    found = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert found == {
        "rank-0-1.tpsrec": b"of this node",
        "rank-1-2.tpsrec": b"whole",
        "rank-2-3.host": b"forged",
    }


@pytest.mark.parametrize(
    ("content", "cause"),
    [
        (packed("../rank-0-1.tpsrec", 0, []), "holds a file '../rank-0-1.tpsrec'"),
        (packed("rank-0-1.sh", 0, []), "holds a file 'rank-0-1.sh'"),
        (packed("", 0, []), "holds a file ''"),
        (packed("rank-0-1.tpsrec", (1 << 40) + 1, []), "of 1099511627777 bytes"),
        (packed("rank-0-1.tpsrec", 3, [(0, b"four")]), "beyond the end"),
        (packed("rank-0-1.tpsrec", 8, [(1 << 63, b"four")]), "beyond the end"),
        (packed("rank-0-1.tpsrec", 4, [(0, b"four")])[:-1], "cut off"),
        (packed("rank-0-1.tpsrec", 4, [(0, b"four")])[:90], "cut off"),
        (b"x", "cut off"),
    ],
)
def test_what_a_bundle_may_not_do(tmp_path, content, cause):
    folder = tmp_path / "records"
    folder.mkdir()
    (folder / "node.tpsnode").write_bytes(content)
    with pytest.raises(InputError, match=cause):
        unpack_bundles(folder, {})
    assert [path.name for path in tmp_path.iterdir()] == ["records"]


RUN = "5eed"
KEY = {KEY_VARIABLE: secrets.token_hex(32)}


@pytest.fixture
def left():
    """A folder of this node in which a rank of another run has left something."""
    boot = Path("/proc/sys/kernel/random/boot_id").read_text()[:8]
    folder = MEMORY_FOLDER / f"toposeat-records-{boot}-{name_of_run(RUN, KEY)}"
    folder.mkdir(mode=0o700)
    (folder / "rank-0-1.host").write_text("n1")
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


def test_a_home_that_is_busy_greets_late(left, tmp_path):
    """Whoever did not greet in time, or closed the door, is asked again, with more patience."""
    with socket.create_server(("127.0.0.1", 0)) as busy:
        busy.settimeout(_SECONDS)
        words = f"{RUN}:{busy.getsockname()[1]}:8:127.0.0.1"
        line = [native_path("bin/toposeat-exec"), "--collect", words]
        key = KEY[KEY_VARIABLE]
        with subprocess.Popen(line, env=KEY) as collecting:
            silent, _ = busy.accept()
            dropped, _ = busy.accept()
            dropped.close()
            greeting, _ = busy.accept()
            greeting.settimeout(_SECONDS)
            nonces = _exactly(greeting, 16 + 32)[16:], secrets.token_bytes(32)
            challenge = nonces[1] + proof(key, b"home", *nonces)
            greeting.sendall(struct.pack(">IIQ", 11, 2, len(challenge)) + challenge)
            assert _exactly(greeting, 16 + 32)[16:] == proof(key, b"node", *nonces)
            greeting.sendall(struct.pack(">IIQ", 2, 2, 0))
            kind, name_length, length = struct.unpack(">IIQ", _exactly(greeting, 16))
            bundle = _exactly(greeting, length)[name_length:]
            greeting.sendall(struct.pack(">IIQ", 10, 1, 0))
            assert collecting.wait(_SECONDS) == 0
        silent.close()
        greeting.close()
    assert kind == 9
    assert not left.exists()
    (tmp_path / "node.tpsnode").write_bytes(bundle)
    unpack_bundles(tmp_path, {})
    assert (tmp_path / "rank-0-1.host").read_text() == "n1"


def _exactly(peer, length):
    data = b""
    while len(data) < length:
        part = peer.recv(length - len(data))
        assert part, "the connection was closed"
        data += part
    return data


def test_damaged_bundles_are_read_or_refused(tmp_path):
    good = packed("rank-0-1.tpsrec", 4096, [(0, b"four"), (100, b"more")])
    draw = random.Random(3)
    for _ in range(500):
        damaged = bytearray(good)
        for _ in range(draw.randint(1, 3)):
            damaged[draw.randrange(len(damaged))] = draw.choice([0, 1, 255, draw.randrange(256)])
        (tmp_path / "node.tpsnode").write_bytes(damaged)
        try:
            unpack_bundles(tmp_path, {})
        except InputError:
            continue
        assert all(path.name.startswith(("rank-", "node")) for path in tmp_path.iterdir())
