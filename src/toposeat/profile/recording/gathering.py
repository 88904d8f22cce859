"""Bringing the records of all nodes into one folder.

A node that sees the folder of the run writes there. On any other node the interposer keeps records
in a folder of the node's own, and the last process that leaves sends them home over the network
(`launcher/src/carry.h`). What ranks that were killed left is fetched afterwards, by one process per
node that the job's own launcher starts.
"""

from __future__ import annotations

import secrets
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from toposeat.errors import InputError
from toposeat.installed import native_path
from toposeat.launch.allocation import allocation_of
from toposeat.launch.home import Home
from toposeat.launch.launch_line import LaunchLine
from toposeat.launch.launchers import LauncherKind
from toposeat.launch.per_node import per_node_line
from toposeat.profile.recording.bundle import unpack_bundles

RUN_VARIABLE = "TOPOSEAT_PROFILE_RUN"
HOME_VARIABLE = "TOPOSEAT_PROFILE_HOME"
_COLLECTING_S = 120.0
ON_THIS_HOST = (LauncherKind.NONE, LauncherKind.TORCHRUN)  # where these start processes


@dataclass(frozen=True, kw_only=True, slots=True)
class Gathering:
    """The records of one run: where they arrive, and by which words ranks find the way."""

    folder: Path
    run: str
    home: str  # empty: nothing can come over the network

    @property
    def exec_words(self) -> list[str]:
        """Options of toposeat-exec."""
        words = ["--records", f"{self.run}:{self.folder}", "-E", f"{RUN_VARIABLE}={self.run}"]
        if self.home:
            words += ["-E", f"{HOME_VARIABLE}={self.home}"]
        return words

    def unpack(self) -> None:
        """Unpack what has arrived.

        Raises:
            InputError: it is damaged.
        """
        unpack_bundles(self.folder)

    def collect(self, line: LaunchLine, environment: Mapping[str, str]) -> str:
        """Fetch what is still on the nodes of a job that has ended.

        Returns:
            Why that was not possible; empty if it was.
        """
        if not self.home:
            return "this host can open no port for records to arrive at"
        command = [str(native_path("bin/toposeat-exec")), "--collect", f"{self.run}:{self.home}"]
        found = per_node_line(line, command, environment)
        if found is None:
            if line.kind is LauncherKind.SRUN:
                return "the job's allocation has ended with it"
            return f"{line.kind.value} has no known way to start one process per node"
        try:
            done = subprocess.run(
                found.argv,
                env=dict(found.environment),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=_COLLECTING_S,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            return f"they cannot be collected: {error}"
        if done.returncode == 0:
            return ""
        said = done.stderr.decode(errors="replace").strip().splitlines()
        return f"they cannot be collected: {said[0] if said else f'exit code {done.returncode}'}"


@contextmanager
def gathering(
    folder: Path, line: LaunchLine, environment: Mapping[str, str]
) -> Iterator[Gathering]:
    """Make `folder` the one where the records of a run arrive, as long as the block."""
    run = secrets.token_hex(8)
    mark = folder / f".run-{run}"
    mark.touch(mode=0o600)
    with ExitStack() as stack:
        stack.callback(mark.unlink, missing_ok=True)
        words = ""
        if line.kind not in ON_THIS_HOST:
            try:
                hosts = _hosts(line, environment)
                words = stack.enter_context(Home(folder, hosts=hosts)).words
            except OSError:  # then they come where the folder is seen
                words = ""
        yield Gathering(folder=folder, run=run, home=words)


def _hosts(line: LaunchLine, environment: Mapping[str, str]) -> tuple[str, ...]:
    """Where the ranks will run, as far as known: it decides which address is home's first."""
    try:
        allocation = allocation_of(line, environment)
    except InputError:  # the launcher will say what it thinks of it
        return ()
    return () if allocation is None else allocation.hosts
