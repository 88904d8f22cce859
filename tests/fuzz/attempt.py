"""One input: read, refused, or a fault; the limits of time and memory around it."""

from __future__ import annotations

import re
import resource
import signal
import time
import traceback
import warnings
import zlib
from dataclasses import dataclass
from pathlib import Path

from tests.fuzz.target import Seed, Target
from toposeat.errors import ToposeatError

SLOW_S = 2.0  # CPU seconds; more is a fault
GROWTH_BYTES = 512 << 20  # of the process's peak, by one input; more is a fault
_CPU_LIMIT_S = 20.0
_WALL_LIMIT_S = 300.0  # against waiting for ever; the machine may be busy, or stopped for others
_MAX_MESSAGE = 8000
_PARTICULARS = re.compile(r"'[^']*'|\"[^\"]*\"|[0-9][0-9a-f:.x,+-]*|\S*/\S*")


class _TooSlowError(BaseException):
    """Past every `except Exception` of a reader."""


@dataclass(frozen=True)
class Outcome:
    """What became of one input; `message` is a number that stands for the cause of a refusal."""

    fault: str = ""
    refused: bool = False
    message: int = 0
    seconds: float = 0.0


def limit_process(memory_bytes: int) -> None:
    """Set the limits of a process that tries inputs."""
    resource.setrlimit(resource.RLIMIT_AS, (memory_bytes, memory_bytes))
    signal.signal(signal.SIGPROF, _stop)
    signal.signal(signal.SIGALRM, _stop)
    warnings.simplefilter("error")  # a library's warning on a user's screen is a fault of ours


def peak_bytes() -> int:
    """The most memory that this process has had."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10


def attempt(target: Target, seed: Seed) -> Outcome:
    """Read one input."""
    # of the thread: an armed ITIMER_PROF makes the clock of the process one of whole ticks
    before, start = peak_bytes(), time.thread_time()
    signal.setitimer(signal.ITIMER_PROF, _CPU_LIMIT_S)
    signal.setitimer(signal.ITIMER_REAL, _WALL_LIMIT_S)
    try:
        message = _refusal(target, seed)
        fault = _bad_message(message)
    except _TooSlowError:
        message, fault = None, "no end"
    except MemoryError:
        message, fault = None, "memory limit"
    except Exception as error:
        message, fault = None, _crash(error)
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.setitimer(signal.ITIMER_REAL, 0)
    seconds = time.thread_time() - start
    if not fault and seconds > SLOW_S:
        fault = f"slow: more than {SLOW_S:g} s"
    if not fault and peak_bytes() - before > GROWTH_BYTES:
        fault = f"memory: grew by more than {GROWTH_BYTES >> 20} MiB"
    refused = message is not None
    number = zlib.crc32(_PARTICULARS.sub("", str(message)).encode()) if refused else 0
    return Outcome(fault, refused, number, seconds)


def _refusal(target: Target, seed: Seed) -> ToposeatError | None:
    try:
        target.read(*seed)
    except ToposeatError as error:
        return error
    return None


def _bad_message(error: ToposeatError | None) -> str:
    """What is wrong with what a user would see."""
    if error is None:
        return ""
    text = str(error)
    if not error.hint or "\n" in text + error.hint or len(text) > _MAX_MESSAGE:
        return f"bad message: {text[:80]!r}, hint {error.hint[:80]!r}"
    return ""


def _crash(error: Exception) -> str:
    frame = traceback.extract_tb(error.__traceback__)[-1]
    return (
        f"{type(error).__name__} at {Path(frame.filename).name}:{frame.lineno}: {str(error)[:80]}"
    )


def _stop(*_: object) -> None:
    raise _TooSlowError
