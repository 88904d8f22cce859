"""Every other place that works where others can write: it is named here, with the reason, or fails.

What opens or makes something in such a folder asks `model/trust.py` or `launcher/src/trust.c`.
"""

import ast
import io
import re
import tokenize
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
NATIVE = ("launcher", "interposer", "reorder", "emulator", "devcopy", "microbench")

# Places, and calls that make something whose name can be guessed. Python's tempfile and mkdtemp
# make names that nobody guesses, for this user only.
WORDS = re.compile(
    r"/tmp\b|/dev/shm|\bTMPDIR\b|\bgettempdir\b|\bmktemp\b|\bO_CREAT\b|\bO_TMPFILE\b|\bshm_open\b"
    r"|\bshared_memory\b|\bmkfifo\b|\bmknod\b|\bSO_PEERCRED\b|\bAF_UNIX\b|\bfopen\([^)]*\"[wa]"
)

# The words that a file has, and why that is safe.
ALLOWED = {
    "launcher/src/trust.c": ({"O_CREAT", "SO_PEERCRED"}, "the module itself"),
    "src/toposeat/model/trust.py": ({"O_CREAT", "SO_PEERCRED"}, "the module itself"),
    "launcher/src/carry.c": (
        {"/dev/shm", "/tmp", "TMPDIR"},
        "asked whether each is a safe place; what is made there is an own folder",
    ),
    "src/toposeat/model/job_folder.py": (
        {"/dev/shm", "gettempdir"},
        "made by mkdtemp; what others may have made there is asked whether it is an own folder",
    ),
    "src/toposeat/launch/python_hook/recorder.py": ({"O_CREAT"}, "with O_EXCL: made new"),
    "devcopy/worker/links.c": ({"AF_UNIX"}, "in the own folder that `toposeat measure` made"),
    "devcopy/worker/main.c": ({"AF_UNIX"}, "in the own folder that `toposeat measure` made"),
    "launcher/src/home.c": ({"AF_UNIX"}, "home's socket: the peer is asked whose it is"),
    "launcher/src/meeting_point.c": ({"AF_UNIX"}, "no path: each peer is asked whose it is"),
    "reorder/src/presence.c": ({"SO_PEERCRED"}, "asks which process that is, not whose"),
    "src/toposeat/launch/home.py": (
        {"AF_UNIX"},
        "in an own folder; peers are asked whose they are",
    ),
    "src/toposeat/launch/lent_files.py": ({"AF_UNIX"}, "only whether somebody listens"),
    "src/toposeat/launch/home_wire.py": ({"AF_UNIX"}, "the peer is asked whose it is"),
    "src/toposeat/topology/measure/workers.py": ({"AF_UNIX"}, "in an own folder"),
    "launcher/src/probe_mpi.c": ({"/dev/shm"}, "only compared with a name that the kernel tells"),
    "src/toposeat/cli/doctor.py": ({"/dev/shm"}, "only its free space is asked"),
    "src/toposeat/profile/recording/recorders.py": ({"/dev/shm"}, "a word in a hint"),
}


def code_of_python(text):
    """A module without comments and docstrings."""
    lines = text.splitlines()
    for node in ast.walk(ast.parse(text)):
        body = getattr(node, "body", None)
        if isinstance(body, list) and body and isinstance(body[0], ast.Expr):
            value = body[0].value
            if isinstance(value, ast.Constant) and isinstance(value.value, str):
                assert value.end_lineno is not None
                lines[value.lineno - 1 : value.end_lineno] = [""] * (
                    value.end_lineno - value.lineno + 1
                )
    kept = "\n".join(lines)
    for token in tokenize.generate_tokens(io.StringIO(kept).readline):
        if token.type == tokenize.COMMENT:
            at = token.start[0] - 1
            lines[at] = lines[at][: token.start[1]]
    return "\n".join(lines)


def code_of_c(text):
    """A source without comments."""
    return re.sub(r'("(?:\\.|[^"\\\n])*")|/\*.*?\*/|//[^\n]*', r"\1", text, flags=re.DOTALL)


def sources():
    found = list((ROOT / "src").rglob("*.py"))
    for folder in NATIVE:
        for suffix in ("c", "h", "cpp", "hpp"):
            found += (ROOT / folder).rglob(f"*.{suffix}")
    return [path for path in found if "tests" not in path.relative_to(ROOT).parts]


def words_of(path):
    text = path.read_text(encoding="utf-8")
    if not WORDS.search(text):  # most have none, and to find the comments of all takes seconds
        return set()
    code = code_of_python(text) if path.suffix == ".py" else code_of_c(text)
    return set(WORDS.findall(code))


def test_every_place_where_others_can_write_goes_through_trust():
    found = {str(path.relative_to(ROOT)): words_of(path) for path in sources()}
    assert len(found) > 400
    allowed = {name: words for name, (words, _) in ALLOWED.items()}
    assert {name: words for name, words in found.items() if words} == allowed


def test_comments_and_docstrings_are_no_code():
    python = '"""In /tmp."""\nx = 1  # /tmp\ny = "/tmp/x"\n'
    assert WORDS.findall(code_of_python(python)) == ["/tmp"]
    assert WORDS.findall(code_of_c('/* /tmp */ f("/tmp//x"); // O_CREAT\n')) == ["/tmp"]
    assert WORDS.findall('fopen(path, "we")') == ['fopen(path, "w']
