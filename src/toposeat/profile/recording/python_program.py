"""Which MPI a Python program will use: the one that its interpreter's mpi4py is linked to.

The interpreter itself is asked where the module `mpi4py.MPI` is, without importing that module:
its search path, environments and mpi4py's own choice among modules for several MPIs are the same as
in the ranks, if these get the same environment.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from toposeat.model.files import beginning

_TIMEOUT_S = 30.0
_INTERPRETER = re.compile(r"^(python|pypy)\d*(\.\d+)*t?$")
_KEPT_FLAGS = "EIPSs"  # change where modules are found
_FLAGS_WITH_VALUE = "WX"
_MARK = "toposeat: mpi4py.MPI is "
_PROBE = f"""
import sys
if not (sys.flags.isolated or getattr(sys.flags, "safe_path", False)):
    sys.path[0] = sys.argv[1]
from importlib.util import find_spec
found = find_spec("mpi4py.MPI")
print()
print({_MARK!r} + (found and found.origin or ""))
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class PythonProgram:
    """An interpreter and what decides where it looks for modules."""

    interpreter: str
    flags: tuple[str, ...]
    folder: str  # first entry of its search path


def as_python_program(
    program: Path, arguments: Sequence[str], env: Mapping[str, str]
) -> PythonProgram | None:
    """`program arguments` as a Python program; None if it is something else.

    Args:
        program: an interpreter, or a script that starts with the line `#!...python`.
        arguments: of the program.
        env: for PATH.
    """
    if _INTERPRETER.match(program.name):
        flags, script = _interpreter_arguments(arguments)
        return PythonProgram(
            interpreter=str(program), flags=flags, folder=_folder_of(script) if script else ""
        )
    words = _shebang(program)
    found = shutil.which(words[0], path=env.get("PATH")) if words else None
    if found is None or not _INTERPRETER.match(Path(found).name):
        return None
    flags, _ = _interpreter_arguments(words[1:])
    return PythonProgram(interpreter=found, flags=flags, folder=_folder_of(str(program)))


def _interpreter_arguments(words: Sequence[str]) -> tuple[tuple[str, ...], str | None]:
    """The flags that matter, and the script; None for -c, -m and standard input."""
    flags: list[str] = []
    pending = list(words)
    while pending:
        word = pending.pop(0)
        if word == "-":
            break
        if not word.startswith("-"):
            return tuple(flags), word
        if word == "--check-hash-based-pycs":
            del pending[:1]
        letters = "" if word.startswith("--") else word[1:]
        for index, letter in enumerate(letters):
            if letter in "cm":
                return tuple(flags), None
            if letter in _FLAGS_WITH_VALUE:
                del pending[: index == len(letters) - 1]
                break
            if letter in _KEPT_FLAGS:
                flags.append(f"-{letter}")
    return tuple(flags), None


def _folder_of(script: str) -> str:
    path = Path(script).resolve()
    return str(path if path.is_dir() else path.parent)


def _shebang(script: Path) -> list[str]:
    """The words of a script's first line, without `env` and its options."""
    first = beginning(script, 4096).partition(b"\n")[0]
    if not first.startswith(b"#!"):
        return []
    words = first[2:].decode(errors="replace").split()
    if words and Path(words[0]).name == "env":
        words = [word for word in words[1:] if word != "-S" and "=" not in word]
    return words


def find_mpi4py_module(python: PythonProgram, env: Mapping[str, str]) -> Path | str:
    """The file of `mpi4py.MPI` that the program would import, or the reason why there is none."""
    line = [python.interpreter, *python.flags, "-c", _PROBE, python.folder]
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
        try:
            process = subprocess.Popen(
                line,
                env=dict(env),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=errors,
                start_new_session=True,
            )
        except OSError as error:
            return f"{python.interpreter} does not start ({error.strerror})"
        if not _ends_in_time(process):
            return f"{python.interpreter} did not say within {_TIMEOUT_S:g} s where its mpi4py is"
        found = [text for text in _lines(output) if text.startswith(_MARK)]
        if process.returncode == 0 and found and found[-1] != _MARK.rstrip():
            return Path(found[-1].removeprefix(_MARK))
        return _reason([text for text in _lines(errors) if text])


def _ends_in_time(process: subprocess.Popen[bytes]) -> bool:
    try:
        process.wait(_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        return False
    finally:
        if process.returncode is None:
            os.killpg(process.pid, signal.SIGKILL)  # with what a wrapper of Python has started
            process.wait()
    return True


def _lines(stream: IO[bytes]) -> list[str]:
    """The lines of a file's last 64 KiB."""
    size = stream.seek(0, os.SEEK_END)
    stream.seek(max(0, size - (1 << 16)))
    return [text.strip() for text in stream.read().decode(errors="replace").splitlines()]


def _reason(errors: list[str]) -> str:
    if any("No module named 'mpi4py'" in text for text in errors):
        return "it has no mpi4py"
    if any("cannot load MPI library" in text for text in errors):
        return "its mpi4py finds no MPI library"
    return f"its mpi4py cannot be found: {errors[-1][:200]}" if errors else "it has no mpi4py.MPI"
