"""Ranks that MPI reorders where the application lets it: libtoposeat_reorder.so in every rank."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from datetime import UTC, datetime

from toposeat.installed import native_path
from toposeat.launch.allocation import all_here, known_hosts
from toposeat.launch.child import run_child
from toposeat.launch.home import Home
from toposeat.launch.line import hand_on, parse_launch_line, wrap_with_exec
from toposeat.model.job_folder import job_folder
from toposeat.model.runs import RunRecord

VARIABLE = "TOPOSEAT_REORDER"
_NO = ("", "0")
_LIBRARY = "lib/libtoposeat_reorder.so"


def reordering(asked: bool, environment: Mapping[str, str] | None = None) -> str:
    """How ranks are reordered: the library's own word for it, empty for not at all.

    As the variable says; where it says nothing, by an option if it was `asked`.
    """
    value = (os.environ if environment is None else environment).get(VARIABLE, "")
    if value in _NO:
        return "1" if asked else ""
    return value


def reorder_words(how: str) -> list[str]:
    """The options of toposeat-exec for `reordering`'s answer."""
    if not how:
        return []
    return ["--preload", str(native_path(_LIBRARY)), "-E", f"{VARIABLE}={how}"]


def run_reordered(
    argv: Sequence[str],
    how: str,
    *,
    dry_run: bool = False,
    environment: Mapping[str, str] | None = None,
) -> RunRecord:
    """Start `argv` without a placement, its ranks reordered as `reordering` said, and wait for it.

    A dry run starts nothing; `launched` of the record holds the exact line.
    """
    variables = dict(os.environ if environment is None else environment)
    line = parse_launch_line(argv)
    words = [str(native_path("bin/toposeat-exec")), *reorder_words(how)]
    started = datetime.now(UTC)
    clock = time.perf_counter()
    with ExitStack() as stack:
        secrets: Mapping[str, str] = {}
        if not dry_run and not all_here(line, variables):
            # The ranks that can be reordered are counted there: no node sees all.
            home = Home(
                stack.enter_context(job_folder("run")),
                ranks=line.ranks,
                hosts=known_hosts(line, variables),
            )
            with suppress(OSError):  # no socket: then none is reordered, and the ranks say so
                stack.enter_context(home)
                words += ["--home", home.words]
                secrets = home.environment
        line, handed_on = hand_on(line, tuple(secrets), variables)
        launched = wrap_with_exec(line, words)
        code = 0
        if not dry_run:
            code = run_child(launched, {**variables, **handed_on, **secrets})
    return RunRecord(
        command=tuple(argv),
        launched=tuple(launched),
        placement="",
        visibility="",
        host=socket.gethostname(),
        started_at=started.strftime("%Y-%m-%dT%H:%M:%SZ"),
        wall_s=time.perf_counter() - clock,
        exit_code=code,
    )
