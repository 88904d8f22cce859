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
    """A bar while a search runs that ends after `most_s` seconds, or sooner with a proof.

    It appears after `after_s` seconds, and leaves no trace when the search is done.
    """
    if not sys.stderr.isatty() or most_s <= after_s:
        yield
        return
    done = threading.Event()
    clock = threading.Thread(target=_show_time, args=(what, most_s, after_s, done), daemon=True)
    clock.start()
    try:
        yield
    finally:
        done.set()
        clock.join()


def _show_time(what: str, most_s: float, after_s: float, done: threading.Event) -> None:
    """Draw the seconds that are left, until `done`."""
    begin = time.monotonic()
    if done.wait(after_s):
        return
    from rich.console import Console  # noqa: PLC0415
    from rich.progress import Progress, TextColumn  # noqa: PLC0415

    left = TextColumn("at most {task.fields[left]:.0f} s more")
    columns = (*Progress.get_default_columns()[:2], left)
    console = Console(stderr=True)
    with Progress(*columns, console=console, transient=True, auto_refresh=False) as bar:
        task = bar.add_task(what, total=most_s, left=most_s)
        while True:
            elapsed = min(time.monotonic() - begin, most_s)
            bar.update(task, completed=elapsed, left=most_s - elapsed, refresh=True)
            if done.wait(_STEP_S):
                return
