"""The home of a job: who may speak, what is kept, and when ranks are told to start."""

import hmac
import re
import socket
import struct
import sys
import threading
import time
from contextlib import ExitStack

import pytest

from tests.support.processes import LONGEST_S, ran
from toposeat.errors import ToposeatError
from toposeat.launch.home import Home
from toposeat.launch.home_job import Decision, Expected, Verdicts
from toposeat.launch.home_wire import send_home
from toposeat.launch.verification import refusal_error, refusal_lines

HELLO, WELCOME, SEATS, PLACEMENT, SEATED, UNSEATED, GO, STOP, BUNDLE, KEPT = range(1, 11)
CHALLENGE, PROOF, PRESENT = 11, 12, 13
UNKNOWN = 0xFFFFFFFF
VERSION = 2
COLUMNS = "rank\thost\tlocal_rank\tpci\tuuid\tindex\tcpus\tmemnode\tnic\n"
LINES = [
    f"{i}\t{host}\t{i % 2}\t-\t-\t0\t-\t-\t-\n" for i, host in enumerate(("n1", "n1", "n2", "n2"))
]
SEATS_OF_FOUR = (
    "# toposeat/placement/1\n# vendor: nvidia\n# devices n1: 0=-=-\n# devices n2: 0=-=-\n"
    "# made: by hand\n" + COLUMNS + "".join(LINES)
)
ANY_NAME = Expected(name=re.compile(r"[a-z0-9][a-z0-9.-]*"), max_bytes=1 << 22)
REPORT = b"# toposeat/report/1\nrank\t0\nseated\tyes\n"
NO_DEVICE = b"# toposeat/report/1\nseated\tno\nrefusal\tno such device\nrefusal\tand more\n"


def frame(kind, number=0, data=b""):
    return struct.pack(">IIQ", kind, number, len(data)) + data


class Peer:
    """One connection to a home, made of nothing but its words and the job's key."""

    def __init__(self, home):
        self.key = home.environment["TOPOSEAT_HOME_KEY"].encode()
        port, _, addresses = home.words.split(":", 2)
        self.socket = socket.create_connection(
            (addresses.split(",")[0], int(port)), timeout=LONGEST_S
        )

    def send(self, kind, number=0, data=b""):
        self.socket.sendall(frame(kind, number, data))

    def receive(self):
        kind, number, length = struct.unpack(">IIQ", self._exactly(16))
        return kind, number, self._exactly(length)

    def proof(self, who, *nonces):
        return hmac.new(self.key, who + b"".join(nonces), "sha256").digest()

    def challenge(self, nonce=b"n" * 32):
        """Begin the greeting; what home has drawn, after its proof was looked at."""
        self.send(HELLO, VERSION, nonce)
        kind, number, told = self.receive()
        assert (kind, number, len(told)) == (CHALLENGE, VERSION, 64)
        assert told[32:] == self.proof(b"home", nonce, told[:32])
        return told[:32]

    def hello(self, names=None):
        """Greet, and ask for the seats of a node, if it has names."""
        self.send(PROOF, 0, self.proof(b"node", b"n" * 32, self.challenge()))
        assert self.receive() == (WELCOME, VERSION, b"")
        if names is not None:
            self.send(SEATS, 0, names)
            assert self.receive()[0] == PLACEMENT
        return self

    def is_closed(self):
        try:
            return self.socket.recv(1) == b""
        except ConnectionError:
            return True

    def _exactly(self, length):
        data = b""
        while len(data) < length:
            part = self.socket.recv(length - len(data))
            assert part, "the connection was closed"
            data += part
        return data


@pytest.fixture
def connect():
    """Connections that are closed when the test ends."""
    with ExitStack() as stack:

        def one(home):
            peer = Peer(home)
            stack.callback(peer.socket.close)
            return peer

        yield one


@pytest.fixture
def endless(monkeypatch):
    """Nobody is dropped for being late: what closes a connection is what was said."""
    for patience in ("_GREETING_S", "_STALLED_S", "PATIENCE_S"):
        monkeypatch.setattr(f"toposeat.launch.home.{patience}", 1e6)


def home_of(folder, **options):
    given = {"placement": SEATS_OF_FOUR.encode(), "expected": ANY_NAME, **options}
    return Home(folder, **given)


@pytest.mark.parametrize(
    "first",
    [
        frame(HELLO, VERSION, b"0" * 31),
        frame(HELLO, 1, b"0" * 32),
        struct.pack(">IIQ", HELLO, VERSION, 1 << 60),
        frame(PROOF, 0, b"0" * 32),
        frame(SEATS),
        frame(BUNDLE, 4, b"name and bytes"),
        b"GET / HTTP/1.1\r\nHost: a\r\n\r\n",
    ],
)
def test_who_says_something_else_first_is_shown_the_door(connect, tmp_path, endless, first):
    with home_of(tmp_path) as home:
        peer = connect(home)
        peer.socket.sendall(first)
        assert peer.is_closed()
        assert connect(home).hello()
    assert list(tmp_path.iterdir()) == []


def test_who_does_not_hold_the_key_is_shown_the_door(connect, tmp_path, endless):
    with home_of(tmp_path) as home:
        known = connect(home)
        nonce = known.challenge()
        replayed = known.proof(b"node", b"n" * 32, nonce)
        mirrored = known.proof(b"home", b"n" * 32, nonce)
        known.send(PROOF, 0, replayed)
        assert known.receive()[0] == WELCOME
        for told in (replayed, mirrored, b"0" * 32):
            peer = connect(home)
            peer.challenge()  # home draws anew: what another has said proves nothing
            peer.send(PROOF, 0, told)
            assert peer.is_closed()


def test_the_key_is_in_no_word_that_others_can_read(tmp_path):
    with home_of(tmp_path) as home:
        (key,) = home.environment.values()
        assert len(key) == 64
        assert key not in home.words


@pytest.mark.parametrize(
    "second",
    [
        struct.pack(">IIQ", SEATED, 0, 1 << 40),
        struct.pack(">IIQ", BUNDLE, 0, 10),
        struct.pack(">IIQ", BUNDLE, 500, 1000),
        struct.pack(">IIQ", BUNDLE, 4, 1 << 60),
        struct.pack(">IIQ", 77, 0, 0),
        frame(SEATS, 0, b"x" * 1025),
        frame(PRESENT, 0, b"four ranks"),
    ],
)
def test_amounts_without_measure_close_the_connection(connect, tmp_path, endless, second):
    with home_of(tmp_path, ranks=1) as home:
        peer = connect(home).hello(b"n1") if second[3] != SEATS else connect(home).hello()
        peer.socket.sendall(second)
        assert peer.is_closed()
        assert home.decision is Decision.OPEN


def test_a_node_gets_its_own_lines_once(connect, tmp_path):
    with home_of(tmp_path, ranks=4) as home:
        peer = connect(home).hello()
        peer.send(SEATS, 0, b"N2.cluster\nn2")
        kind, number, text = peer.receive()
        assert (kind, number) == (PLACEMENT, 1)
        assert text.decode() == (
            "# toposeat/placement/1\n# part: 4\n# vendor: nvidia\n"
            f"{COLUMNS}# devices n2: 0=-=-\n{LINES[2]}{LINES[3]}"
        )
        peer.send(SEATS, 0, b"n1")
        assert peer.is_closed()
        for names, ranks in ((b"n2\nN1.cluster", "0123"), (b"n9", "")):
            other = connect(home).hello()
            other.send(SEATS, 0, names)
            lines = other.receive()[2].decode().splitlines()
            assert "".join(line[0] for line in lines if line[0].isdigit()) == ranks
    anywhere = SEATS_OF_FOUR.replace("n1", "*").replace("n2", "*")
    with home_of(tmp_path, ranks=4, placement=anywhere.encode()) as home:
        peer = connect(home).hello()
        peer.send(SEATS, 0, b"n9")
        lines = peer.receive()[2].decode().splitlines()
        assert [line for line in lines if line[0].isdigit()] == [
            line.strip("\n").replace("n1", "*").replace("n2", "*") for line in LINES
        ]
    with Home(tmp_path) as home:
        peer = connect(home).hello()
        peer.send(SEATS, 0, b"n1")
        assert peer.receive() == (PLACEMENT, 0, b"")


def test_a_node_says_that_ranks_are_seated_which_are_placed_there(connect, tmp_path):
    with home_of(tmp_path, ranks=4) as home:
        liar = connect(home).hello(b"n1")
        liar.send(SEATED, 2, REPORT)
        assert liar.is_closed()
        stray = connect(home).hello()  # never asked for seats
        stray.send(SEATED, 0, REPORT)
        assert stray.is_closed()
        assert not home.verdicts.reports


def test_what_a_rank_said_first_stays(connect, tmp_path):
    told = []
    with home_of(tmp_path, ranks=4, on_stop=told.append) as home:
        peer = connect(home).hello(b"n1")
        peer.send(SEATED, 0, REPORT)
        peer.send(UNSEATED, 0, NO_DEVICE)
        assert peer.receive()[0] == STOP
    assert home.verdicts.reports == {0: REPORT.decode()}
    assert home.verdicts.nameless == (NO_DEVICE.decode(),)


def test_a_peer_that_never_reads_costs_no_memory(connect, tmp_path):
    """Home takes no further word from it: the questions stay in the sockets, and then outside."""
    with home_of(tmp_path) as home:
        peer = connect(home).hello()
        peer.socket.settimeout(0.2)
        questions = frame(BUNDLE, 1, b"X") * 1024  # an answer to each
        (connection,) = home._connections.values()
        sent, refused = 0, 0
        while refused < 5 or not connection.to_send:
            try:
                sent += peer.socket.send(questions)
                refused = 0
            except TimeoutError:
                refused += 1
        assert len(connection.to_send) == 1
        assert len(connection.received) < 1 << 18


_CROWD = """
import resource, socket, sys
_, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
idle = []
for i in range(2000):
    try:
        idle.append(socket.create_connection((sys.argv[1], int(sys.argv[2])), 1))
    except OSError:
        pass
    if i == 300:
        print("crowded", flush=True)
sys.stdin.read()
"""
_CROWDED = """
import re, resource, subprocess, sys
from pathlib import Path
_, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
crowd = subprocess.Popen(
    ["sh", "-c", 'read a port; exec "$0" -c "$1" "$a" "$port"', sys.executable, sys.argv[2]],
    stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256))
from toposeat.launch.home import Home
from toposeat.launch.home_job import Expected
from toposeat.launch.home_wire import send_home
expected = Expected(name=re.compile("n[0-9]"))
with Home(Path(sys.argv[1]), expected=expected) as home:
    port, _, addresses = home.words.split(":", 2)
    crowd.stdin.write(f"{addresses.split(',')[0]} {port}\\n")
    crowd.stdin.flush()
    assert crowd.stdout.readline() == "crowded\\n"
    kept = sum(send_home(home.words, f"n{i}", b"x", environment=home.environment) for i in range(5))
    print("kept", kept, "of 5")
    open("/etc/hostname").close()
    print("a file can be opened")
    crowd.communicate()
"""


def test_ranks_are_heard_beside_a_crowd_of_idle_strangers(tmp_path):
    """With few descriptors, in a process of its own; the crowd in another."""
    done = ran([sys.executable, "-c", _CROWDED, str(tmp_path), _CROWD])
    assert done.stdout.splitlines() == ["kept 5 of 5", "a file can be opened"], done.stderr


def test_on_one_node_it_listens_at_no_port(tmp_path):
    with Home(tmp_path, here=True, expected=ANY_NAME) as home:
        assert home.words == f"0:8:{tmp_path}/.home"
        assert send_home(home.words, "n1", b"x", environment=home.environment)
        assert not send_home(home.words, "n2", b"x", environment={})
    assert [path.name for path in tmp_path.iterdir()] == ["n1"]


def test_a_bundle_arrives_whole_or_not_at_all(connect, tmp_path):
    content = bytes(range(256)) * 4096
    with home_of(tmp_path) as home:
        whole, torn = connect(home).hello(), connect(home).hello()
        whole.send(BUNDLE, 8, b"rank.rec" + content)
        assert whole.receive() == (KEPT, 1, b"")
        torn.socket.sendall(frame(BUNDLE, 8, b"torn.rec" + content)[:5000])
        torn.socket.close()
    assert [path.name for path in tmp_path.iterdir()] == ["rank.rec"]
    assert (tmp_path / "rank.rec").read_bytes() == content


def test_what_home_does_not_take_is_told(tmp_path):
    with home_of(tmp_path, expected=Expected(name=ANY_NAME.name, max_bytes=10)) as home:
        key = home.environment
        assert not send_home(home.words, "n1", b"x" * 11, environment=key)
        assert not send_home(home.words, "../n1", b"x", environment=key)
        assert not send_home(home.words, "n1", b"x", environment=dict.fromkeys(key, "wrong"))
    assert list(tmp_path.iterdir()) == []


def test_an_address_that_is_not_home_is_passed_over(tmp_path):
    """Nothing listens at the first address."""
    with home_of(tmp_path) as home:
        port, patience, addresses = home.words.split(":", 2)
        words = f"{port}:{patience}:127.255.255.254,{addresses}"
        assert send_home(words, "n1", b"x" * 100_000, environment=home.environment)
    assert (tmp_path / "n1").read_bytes() == b"x" * 100_000


def test_nothing_is_replaced(connect, tmp_path):
    (tmp_path / "own").write_bytes(b"own")
    with home_of(tmp_path) as home:
        peer = connect(home).hello()
        answers = []
        for name in (b"own", b"new", b"new"):
            peer.send(BUNDLE, 3, name + b"other")
            answers.append(peer.receive()[1])
    assert answers == [0, 1, 0]
    assert (tmp_path / "own").read_bytes() == b"own"


def test_files_of_ranks_are_those_of_the_job(connect, tmp_path):
    expected = Expected(name=re.compile(r"rank-(?P<rank>[0-9]+)"), ranks=2, max_files=2)
    with home_of(tmp_path, expected=expected) as home:
        peer = connect(home).hello()
        answers = []
        for name in (b"rank-0", b"rank-2", b"rank-1", b"rank-01"):
            peer.send(BUNDLE, len(name), name + b"x")
            answers.append(peer.receive()[1])
    assert answers == [1, 0, 1, 0]


@pytest.mark.parametrize(
    "name", [b"../evil", b"/etc/evil", b".hidden/", b"a/b", b"a\0b", b"A", b"\xff\xfe", b"a b"]
)
def test_names_that_lead_elsewhere_are_not_kept(connect, tmp_path, name):
    folder = tmp_path / "folder"
    folder.mkdir()
    with home_of(folder) as home:
        peer = connect(home).hello()
        peer.send(BUNDLE, len(name), name + b"content")
        assert peer.receive() == (KEPT, 0, b"")
    assert list(folder.iterdir()) == []
    assert list(tmp_path.iterdir()) == [folder]


def test_all_bundles_together_are_bounded(connect, tmp_path):
    expected = Expected(name=re.compile("[abc]"), max_all_bytes=1000)
    with home_of(tmp_path, expected=expected) as home:
        peer = connect(home).hello()
        answers = []
        for name in (b"a", b"b", b"c"):
            peer.send(BUNDLE, 1, name + b"x" * 400)
            answers.append(peer.receive()[1])
    assert answers == [1, 1, 0]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b"]


def test_nobody_starts_before_the_last_rank_was_heard(connect, tmp_path):
    with home_of(tmp_path, ranks=3) as home:
        first, second = connect(home).hello(b"n1"), connect(home).hello(b"n2")
        first.send(SEATED, 0, REPORT)
        first.send(SEATED, 1, REPORT)
        first.socket.settimeout(0.2)
        with pytest.raises(TimeoutError):
            first.receive()
        second.send(SEATED, 2, REPORT)
        first.socket.settimeout(LONGEST_S)
        assert first.receive()[0] == second.receive()[0] == GO
        assert home.decision is Decision.GO
        # a rank that is started anew, as torchrun does
        second.send(SEATED, 2, REPORT)
        assert second.receive()[0] == GO
    assert set(home.verdicts.reports) == {0, 1, 2}


def test_one_rank_that_cannot_be_seated_stops_all_and_is_named(connect, tmp_path):
    told = []
    with home_of(tmp_path, ranks=4, on_stop=told.append) as home:
        first, second = connect(home).hello(b"n1"), connect(home).hello(b"n2")
        first.send(SEATED, 0, REPORT)
        second.send(UNSEATED, 3, NO_DEVICE)
        first.send(UNSEATED, 1, NO_DEVICE)
        assert first.receive()[0] == second.receive()[0] == STOP
        assert len(told) == 1
        late = connect(home).hello(b"n2")
        late.send(SEATED, 2, REPORT)
        assert late.receive()[0] == STOP
    assert home.decision is Decision.STOP
    assert refusal_lines(told[0], 4) == [
        "Not started: 2 of 4 ranks cannot be seated as placed",
        "  ranks 1,3: no such device",
    ]
    error = refusal_error(told[0], 4)
    assert isinstance(error, ToposeatError)
    assert error.message == "no rank was started: 2 of 4 ranks cannot be seated as placed"


def test_a_rank_on_another_node_is_told_where_it_is_placed():
    text = "# toposeat/report/1\nseated\tno\nrefusal\truns on host n2 and is placed on another\n"
    verdicts = Verdicts(reports={3: text}, unseated=frozenset({3}), nameless=())
    assert refusal_lines(verdicts, 4, {3: "n1"})[1:] == [
        "  rank 3: runs on host n2 and is placed on host n1"
    ]


def test_many_causes_are_ten_lines_at_most():
    texts = {i: f"# toposeat/report/1\nseated\tno\nrefusal\tcause {i}\n" for i in range(40)}
    lines = refusal_lines(
        Verdicts(reports=texts, unseated=frozenset(texts), nameless=("damaged",)), 40
    )
    assert len(lines) == 10
    assert lines[-1].endswith("causes more")


@pytest.mark.parametrize("strict", [False, True])
def test_ranks_that_never_come_are_waited_for_with_patience(connect, tmp_path, monkeypatch, strict):
    monkeypatch.setattr("toposeat.launch.home_job.PATIENCE_S", 0.3)
    monkeypatch.setattr("toposeat.launch.home_job._STRICT_PATIENCE_S", 0.3)
    with home_of(tmp_path, ranks=2, strict=strict) as home:
        peer = connect(home).hello(b"n1")
        peer.send(SEATED, 1, REPORT)
        assert peer.receive()[0] == (STOP if strict else GO)
    if strict:
        assert refusal_lines(home.verdicts, 2)[1:] == ["  rank 0: was not heard"]


def test_who_says_nothing_or_half_a_greeting_is_dropped(connect, tmp_path, monkeypatch):
    monkeypatch.setattr("toposeat.launch.home._GREETING_S", 0.1)
    with home_of(tmp_path) as home:
        silent, halting = connect(home), connect(home)
        halting.socket.sendall(frame(HELLO, VERSION, b"n" * 32)[:20])
        assert silent.is_closed()
        assert halting.is_closed()


def test_it_ends_at_once_whatever_is_connected(connect, tmp_path, monkeypatch, endless):
    monkeypatch.setattr("toposeat.launch.home_job.PATIENCE_S", 1e6)
    with home_of(tmp_path, ranks=2) as home:
        peers = [connect(home), connect(home).hello(b"n1"), connect(home).hello()]
        peers[1].send(SEATED, 0, REPORT)
        peers[2].socket.sendall(struct.pack(">IIQ", BUNDLE, 3, 1 << 20) + b"abcd")
        ending = threading.Thread(target=home.close, daemon=True)
        ending.start()
        ending.join(LONGEST_S)
        assert not ending.is_alive()  # nobody was waited for
    assert all(peer.is_closed() for peer in peers)
    assert not list(tmp_path.glob(".*"))


def test_ranks_are_reordered_once_all_are_heard(connect, tmp_path):
    with Home(tmp_path, hosts=["127.0.0.1"]) as home:
        first, second, stray = (connect(home).hello() for _ in range(3))
        for rank in (0, 1):
            first.send(PRESENT, rank, b"3 job 7")
        first.send(SEATS)
        assert first.receive()[0] == PLACEMENT  # so that these were heard first
        stray.send(PRESENT, 2, b"3 job 8")
        assert stray.receive() == (STOP, 0, b"")
        second.send(PRESENT, 2, b"3 job 7")
        assert (first.receive(), second.receive()) == ((GO, 0, b""), (GO, 0, b""))
        stray.send(PRESENT, 2, b"3 job 7")
        assert stray.receive() == (STOP, 0, b"")


@pytest.mark.parametrize("rank", [0, 3, UNKNOWN])
def test_a_rank_too_many_reorders_none(connect, tmp_path, rank):
    with Home(tmp_path, hosts=["127.0.0.1"]) as home:
        first, second = (connect(home).hello() for _ in range(2))
        first.send(PRESENT, 0, b"3 ")
        second.send(PRESENT, rank, b"3 ")
        answers = [first.receive(), second.receive()]
        assert sorted(answers) == [(STOP, 0, b""), (STOP, UNKNOWN, b"")]  # one of them says it


def test_a_rank_that_is_not_heard_reorders_none(connect, tmp_path, monkeypatch):
    with Home(tmp_path, hosts=["127.0.0.1"]) as home:
        peer = connect(home).hello()
        for rank in (2, 0):
            peer.send(PRESENT, rank, b"4 ")
        peer.send(BUNDLE, 1, b"X")
        assert peer.receive()[0] == KEPT  # so it has heard both ranks, and ten seconds pass
        monkeypatch.setattr(time, "monotonic", lambda clock=time.monotonic: clock() + 10)
        assert peer.receive() == (STOP, 2, b"")
