"""Lines to copy, as bash reads them back."""

import os
import shutil
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toposeat.model.shell_words import shell_line, shell_word

BASH = shutil.which("bash")


@pytest.mark.skipif(BASH is None, reason="no bash")
@given(st.lists(st.binary(min_size=1).filter(lambda word: b"\0" not in word), min_size=1))
def test_bash_reads_every_name_back(names):
    line = shell_line(os.fsdecode(name) for name in names)
    assert line.isprintable()
    said = subprocess.run(
        [str(BASH), "-c", f"printf '%s\\0' {line}"], capture_output=True, check=True
    )
    assert said.stdout == b"".join(name + b"\0" for name in names)


def test_plain_words_stay_as_they_are():
    assert shell_line(["mpirun", "-n", 8, "./app"]) == "mpirun -n 8 ./app"
    assert shell_word("größe 8.csv") == "'größe 8.csv'"
    assert shell_word("b\udcff'\n.csv") == r"$'b\377\'\012.csv'"
