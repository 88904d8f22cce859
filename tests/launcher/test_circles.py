"""Which of our C files call which: nowhere in a circle, so each can be read after what it needs."""

import re
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
UNREAD = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"', re.DOTALL)
DEFINED = re.compile(r"^(?!static|extern|typedef)[a-z_].*?\b((?:tps|toposeat)_\w+)\([^;{]*\{", re.M)


def circle(folder):
    """The files of a circle of calls, the first of them twice; empty if there is none."""
    texts = {file.name: UNREAD.sub("", file.read_text("utf-8")) for file in folder.glob("*.c")}
    home = {name: file for file, text in texts.items() for name in DEFINED.findall(text)}
    calls = {
        file: {home[word] for word in re.findall(r"\w+", text) if home.get(word, file) != file}
        for file, text in texts.items()
    }
    try:
        TopologicalSorter(calls).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


OURS = ["launcher", "interposer", "reorder", "devcopy", "emulator", "virtual"]


@pytest.mark.parametrize("folder", [*(f"{each}/src" for each in OURS), "virtual/client"])
def test_no_file_needs_one_that_needs_it(folder):
    assert list((ROOT / folder).glob("*.c"))
    assert circle(ROOT / folder) == []


def test_a_circle_is_found(tmp_path):
    (tmp_path / "one.c").write_text("int tps_one(void) { return tps_two(1); }\n")
    (tmp_path / "two.c").write_text("int tps_two(int more,\n            int less) {}\n")
    assert circle(tmp_path) == []
    (tmp_path / "two.c").write_text("int tps_two(int more) { return more ? tps_one() : 0; }\n")
    assert sorted(set(circle(tmp_path))) == ["one.c", "two.c"]
