"""Clients and proxies killed at random moments: who hangs, stays, or leaves half a file.

python -m tests.virtual.kills [COUNT]
"""

import json
import os
import random
import secrets
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from tests.support.lent import Proxy
from tests.virtual.conftest import client_in

LIMIT_S = 300  # a busy machine included
SCENARIOS = (
    "events threads", "kernels kernels", "processes bereaved", "processes leave",
    "transfers beside", "transfers maps", "transfers order", "transfers rectangles",
)  # fmt: skip
_MARK = "TOPOSEAT_TEST_MARK"


@dataclass
class Tally:
    """What came of it."""

    killed: dict[str, int] = field(default_factory=dict)
    hung: list[str] = field(default_factory=list)
    left: list[str] = field(default_factory=list)
    half: list[str] = field(default_factory=list)
    reports: int = 0


def kill_some(client, count, seed=1):
    """`count` kills of a client, of the process that serves it, or of its proxy."""
    source, tally, mark = random.Random(seed), Tally(), secrets.token_hex(8)
    with tempfile.TemporaryDirectory() as folder:
        more = {_MARK: mark, "POCL_CACHE_DIR": str(Path(folder, "pocl"))}
        reports = Path(folder, "reports")
        reports.mkdir()
        proxy = Proxy("--address", "127.0.0.1", **more)
        for turn in range(count):
            victim = source.choice(("client", "client", "server", "server", "proxy"))
            over, scenario = source.choice(("unix", "tcp")), source.choice(SCENARIOS)
            name = f"{turn}: {scenario} over {over}, {victim} killed"
            environment = proxy.client(
                proxy.endpoint(over), TOPOSEAT_CL_REPORT=str(reports), **more
            )
            with subprocess.Popen(
                client(*scenario.split()),
                env=environment,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            ) as process:
                if source.random() < 0.8:  # most of them at work
                    while process.poll() is None and not proxy.children():
                        time.sleep(0.001)
                time.sleep(source.expovariate(1 / 0.2))
                _kill(victim, process, proxy)
                end = time.monotonic() + LIMIT_S
                while process.poll() is None and time.monotonic() < end:
                    if scenario == "processes bereaved":  # it ends with its proxy, once it has one
                        _kill("server", process, proxy)
                    time.sleep(0.01)
                if process.poll() is None:
                    tally.hung.append(name)
                    process.kill()
            tally.killed[victim] = tally.killed.get(victim, 0) + 1
            if victim == "proxy":
                proxy.process.communicate()
                tally.left += _stay(name, mark, set())
                proxy = Proxy("--address", "127.0.0.1", **more)
            else:
                tally.left += _stay(name, mark, {proxy.process.pid})
        with proxy:
            pass
        tally.left += _stay("at the end", mark, set())
        for path in reports.iterdir():
            tally.reports += 1
            if path.name.startswith("cl.") and path.suffix == ".json":
                try:
                    json.loads(path.read_text())
                except ValueError:
                    tally.half.append(path.name)
    return tally


def _kill(victim, process, proxy):
    pids = {"client": [process.pid], "proxy": [proxy.process.pid]}.get(victim)
    if process.poll() is None or victim != "client":
        for pid in proxy.children() if pids is None else pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def _stay(name, mark, allowed):
    """Processes with the mark that are still there after a while."""
    end = time.monotonic() + LIMIT_S
    while found := _marked(mark) - allowed:
        if time.monotonic() > end:
            for pid in found:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            return [f"{name}: {len(found)} processes"]
        time.sleep(0.02)
    return []


def _marked(mark):
    found = set()
    for path in Path("/proc").glob("[0-9]*/environ"):
        with suppress(OSError):
            if f"{_MARK}={mark}".encode() in path.read_bytes():
                found.add(int(path.parent.name))
    return found


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as programs:
        print(kill_some(client_in(Path(programs)), int((*sys.argv[1:], 1000)[0])))
