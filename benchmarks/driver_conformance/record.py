"""Asking: each question in a process of its own, so that a crash or a hang is an answer as well."""

from __future__ import annotations

import json
import os
import select
import signal
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from benchmarks.driver_conformance.calls import Calls, DriverError

Question = Callable[[Calls], Any]
_LIMIT_S = 30.0


def question(name: str, *, gpus: int = 1, environment: Mapping[str, str] | None = None) -> Any:
    """Put a function among the questions.

    Args:
        name: of the question; its part before the colon says the subject.
        gpus: how many it needs; with fewer the answer is that it was not asked.
        environment: set before the driver is loaded.
    """

    def keep(asked: Question) -> Question:
        QUESTIONS[name] = (asked, gpus, dict(environment or {}))
        return asked

    return keep


QUESTIONS: dict[str, tuple[Question, int, dict[str, str]]] = {}
NOT_ASKED = "not asked: too few GPUs"


def ask_all(only: str = "") -> dict[str, Any]:
    """Answers by question, in the order of the questions."""
    gpus = _isolated(lambda calls: calls.devices(), {})
    count = gpus if isinstance(gpus, int) else 0
    return {
        name: NOT_ASKED if needed > count else _isolated(asked, environment)
        for name, (asked, needed, environment) in QUESTIONS.items()
        if only in name
    }


def _isolated(asked: Question, environment: Mapping[str, str]) -> Any:
    """The answer of a child process, as JSON has it."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        os.environ.update(environment)
        os.setpgid(0, 0)  # what it starts ends with it
        os.write(writer, json.dumps(_answer(asked)).encode())
        os._exit(0)
    os.close(writer)
    text, ended = _read(reader, time.monotonic() + _LIMIT_S)
    os.close(reader)
    if not ended:
        with suppress(ProcessLookupError):
            os.killpg(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    if not ended:
        return f"no answer in {_LIMIT_S:.0f} s"
    if os.WIFSIGNALED(status):
        return f"ended by signal {os.WTERMSIG(status)}"
    return json.loads(text)


def _answer(asked: Question) -> Any:
    try:
        return asked(Calls())
    except DriverError as error:
        return str(error)
    except Exception as error:  # any failure is an answer
        return f"{type(error).__name__}: {error}"[:200]


def _read(file: int, deadline: float) -> tuple[bytes, bool]:
    """All that comes, and whether the end came in time."""
    text = b""
    while select.select([file], [], [], max(0.0, deadline - time.monotonic()))[0]:
        piece = os.read(file, 65536)
        if not piece:
            return text, True
        text += piece
    return text, False
