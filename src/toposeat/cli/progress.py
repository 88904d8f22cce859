"""A progress bar on stderr while a person waits at a terminal; nothing otherwise.

Work of known steps is shown by `progress_bar`, a search that ends with its budget by `search_bar`.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def progress_bar(what: str) -> Iterator[Callable[[int, int], None]]:
    """A callback (done, total) that draws a bar from its first call on.

    Until then the terminal belongs to the application. The bar leaves no trace when it is done.
    """
    if not sys.stderr.isatty():
        yield lambda _done, _total: None
        return
    from rich.console import Console  # noqa: PLC0415
    from rich.progress import MofNCompleteColumn, Progress, TimeRemainingColumn  # noqa: PLC0415

    columns = (*Progress.get_default_columns()[:2], MofNCompleteColumn(), TimeRemainingColumn())
    bar = Progress(*columns, console=Console(stderr=True), transient=True)
    task = bar.add_task(what, total=None)

    def advance(done: int, total: int) -> None:
        bar.start()  # does nothing when started
        bar.update(task, completed=done, total=total)
        if done >= total:
            bar.stop()  # what comes next has the terminal to itself

    try:
        yield advance
    finally:
        bar.stop()


SILENT_S = 2.0  # of a search, before it is worth a bar
_STEP_S = 0.2


@contextmanager
def search_bar(what: str, most_s: float, *, after_s: float = SILENT_S) -> Iterator[None]:
    """A bar of the seconds of a search that ends after `most_s`, or sooner with a proof.

    It appears after `after_s` seconds, and leaves no trace when the search is done.
    """
    if not sys.stderr.isatty() or most_s <= after_s:
        yield
        return
    done = threading.Event()

    def show_time() -> None:
        begin = time.monotonic()
        if done.wait(after_s):
            return
        with progress_bar(f"{what}, seconds") as advance:
            while not done.wait(_STEP_S):
                advance(min(round(time.monotonic() - begin), round(most_s)), round(most_s))

    clock = threading.Thread(target=show_time, daemon=True)
    clock.start()
    try:
        yield
    finally:
        done.set()
        clock.join()
