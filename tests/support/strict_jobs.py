"""Jobs whose ranks may not be where they are planned, and what `run --strict` must say of each."""

import shlex
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

from tests.support.tables import rows

NOT_AS_PLANNED = 98
FEW = (
    *("honest", "a script with a list", "a finished sh", "one killed below a shell", "static"),
    *("a child without the probe", "with a helper that is not heard", "device 0"),
)


class Fooled(NamedTuple):
    """The program of each rank, the exit code of the job, and words that name the cause.

    `code` is None where it is the launcher's own, other than 0 and `NOT_AS_PLANNED`.
    """

    words: list[str]
    code: int | None
    cause: str


_NAMED = {
    "RANK": [sys.executable, "-S", str(Path(__file__).with_name("fooled.py"))],
    "PYTHON": [sys.executable],
}


def _words(program):
    return [each for word in shlex.split(program) for each in _NAMED.get(word, [word])]


JOBS = {
    name: Fooled(_words(program), None if code == "own" else int(code), cause.strip("-"))
    for name, code, cause, program in rows(Path(__file__).with_name("strict_jobs.txt"), "jobs")
}


def check(job, code, told, verdict):
    """What a job under `run --strict` ended with, told and recorded must be what its author says.

    Raises:
        AssertionError: it is not.
    """
    said = " ".join(told.split())
    assert job.cause in said, said
    if job.code is None:
        assert code not in (0, NOT_AS_PLANNED), said
        return
    assert code == job.code, said
    assert verdict in ({"as placed"} if code == 0 else {"mismatch", "not checked"})


def static_program(folder):
    """A program that loads no library."""
    source, program = folder / "static.c", folder / "static"
    source.write_text("int main(void) { return 0; }\n")
    subprocess.run(["cc", "-static", "-o", program, source], check=True)
    return str(program)
