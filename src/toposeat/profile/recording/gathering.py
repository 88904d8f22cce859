"""Bringing the records of all nodes into one folder.

A node that sees the folder of the run writes there. On any other node the interposer keeps records
in a folder of its own, and the last process that leaves sends them home over the network as one
file, a bundle (`launcher/src/carry.h`). What ranks that were killed left is fetched afterwards, by
one process per node that the job's own launcher starts.
"""

from __future__ import annotations

import os
import re
import secrets
import struct
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO

from toposeat.errors import InputError
from toposeat.installed import native_path
from toposeat.launch import LauncherKind, LaunchLine, all_here, hand_on
from toposeat.launch.allocation import known_hosts
from toposeat.launch.home import Home
from toposeat.launch.home_job import Expected
from toposeat.launch.home_wire import KEY_VARIABLE
from toposeat.launch.per_node import per_node_line
from toposeat.model.job_folder import TORCH_SUFFIX
from toposeat.profile.records.segment import CAUSE_SUFFIX, HOST_SUFFIX, SUFFIX

BUNDLE_SUFFIX = ".tpsnode"

_ENTRY = struct.Struct(">64sQQ")
_EXTENT = struct.Struct(">QQ")
_NAME = re.compile(
    rf"rank-\d{{1,9}}-\d{{1,9}}"
    rf"((-t\d{{1,3}})?{re.escape(SUFFIX)}|{re.escape(TORCH_SUFFIX)}|{re.escape(HOST_SUFFIX)}"
    rf"|{re.escape(CAUSE_SUFFIX)}\d{{1,4}})",
    re.ASCII,
)
_MAX_SIZE = 1 << 40  # files are sparse: the record of one of 2^21 ranks has 600 MiB
_COPIED = 1 << 20


def unpack_bundles(folder: Path, senders: dict[str, str]) -> None:
    """Replace every bundle in `folder`, one of our own, by the files in it.

    A later bundle of a node replaces what an earlier one of it brought, and nothing else: `senders`
    says who has brought which file. Bundles are named `SENDER-...`.
    """
    bundles = sorted(folder.glob(f"*{BUNDLE_SUFFIX}"), key=lambda path: path.stat().st_mtime_ns)
    for bundle in bundles:
        try:
            with bundle.open("rb") as source:
                while head := source.read(_ENTRY.size):
                    _unpack_file(source, head, bundle, senders)
        except OSError as error:
            raise InputError(
                f"the records in it cannot be written: {error.strerror or error}",
                hint="make room there, or name a folder elsewhere: --keep-records DIR",
                path=bundle,
            ) from error
        bundle.unlink()


def _unpack_file(source: IO[bytes], head: bytes, bundle: Path, senders: dict[str, str]) -> None:
    if len(head) != _ENTRY.size:
        raise _damaged(bundle, "it is cut off")
    padded, size, extents = _ENTRY.unpack(head)
    name = padded.rstrip(b"\0").decode("ascii", "replace")
    if not _NAME.fullmatch(name) or size > _MAX_SIZE:
        raise _damaged(bundle, f"it holds a file {name!r} of {size} bytes")
    with _target(bundle, name, senders) as target:
        if target.name != os.devnull:
            target.truncate(size)
        for _ in range(extents):
            _unpack_extent(source, target, size, bundle)


def _target(bundle: Path, name: str, senders: dict[str, str]) -> IO[bytes]:
    """Where a file goes: nowhere, if somebody else has brought one of this name."""
    path, sender = bundle.parent / name, bundle.name.partition("-")[0]
    if senders.get(name) == sender:
        return path.open("wb")
    try:
        new = path.open("xb")
    except FileExistsError:
        return Path(os.devnull).open("wb")
    senders[name] = sender
    return new


def _unpack_extent(source: IO[bytes], target: IO[bytes], size: int, bundle: Path) -> None:
    head = source.read(_EXTENT.size)
    if len(head) != _EXTENT.size:
        raise _damaged(bundle, "it is cut off")
    offset, length = _EXTENT.unpack(head)
    if offset + length > size:
        raise _damaged(bundle, "a part is beyond the end of its file")
    target.seek(offset)
    while length > 0:
        data = source.read(min(length, _COPIED))
        if not data:
            raise _damaged(bundle, "it is cut off")
        target.write(data)
        length -= len(data)


def _damaged(bundle: Path, why: str) -> InputError:
    return InputError(f"damaged bundle of records: {why}", hint="profile again", path=bundle)


RUN_VARIABLE = "TOPOSEAT_PROFILE_RUN"
HOME_VARIABLE = "TOPOSEAT_PROFILE_HOME"
ALLOCATION_ENDED = "the job's allocation has ended with it"
_COLLECTING_S = 120.0
_BUNDLE_NAME = re.compile(r"node-[A-Za-z0-9_.-]{0,64}-[0-9]{1,9}-[0-9]{1,19}\.tpsnode", re.ASCII)
_MAX_BYTES = 1 << 36  # of a job
_MAX_RANK_BYTES = 1 << 28
_MANY_RANKS = 1 << 16


@dataclass(frozen=True, kw_only=True, slots=True)
class Gathering:
    """The records of one run: where they arrive, and by which words ranks find the way."""

    folder: Path
    run: str
    home: str  # empty: nothing comes over the network
    here: bool = True  # all ranks are on this node, and see the folder
    environment: Mapping[str, str] = field(default_factory=dict)  # for the ranks; secret
    opened: Home | None = None
    _senders: dict[str, str] = field(default_factory=dict)  # by file name

    def line(
        self, line: LaunchLine, environment: Mapping[str, str]
    ) -> tuple[LaunchLine, dict[str, str]]:
        """The job's line with which ranks find the way, and what else to set; see `hand_on`."""
        return hand_on(line, tuple(self.environment), environment)

    @property
    def exec_words(self) -> list[str]:
        """Options of toposeat-exec."""
        words = ["--records", f"{self.run}:{self.folder}", "-E", f"{RUN_VARIABLE}={self.run}"]
        if self.home:
            words += ["-E", f"{HOME_VARIABLE}={self.home}"]
        return words

    def unpack(self) -> None:
        """Unpack what has arrived."""
        unpack_bundles(self.folder, self._senders)

    def collect(self, line: LaunchLine, environment: Mapping[str, str]) -> str:
        """Fetch what is still on the nodes of a job that has ended; why not, or ""."""
        if not self.home:
            return "this host could open no port for records to arrive at"
        command = [str(native_path("bin/toposeat-exec")), "--collect", f"{self.run}:{self.home}"]
        variables = {**environment, **self.environment}
        found = per_node_line(line, command, variables, handed_on=tuple(self.environment))
        if found is None:
            no_way = f"{line.kind} has no known way to start one process per node"
            return ALLOCATION_ENDED if line.kind is LauncherKind.SRUN else no_way
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
        own = (line for line in said if line.startswith("toposeat-exec: "))  # srun speaks, too
        cause = next(own, said[0] if said else f"exit code {done.returncode}")
        return f"they cannot be collected: {cause}"


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
        if all_here(line, environment):
            yield Gathering(folder=folder, run=run, home="")
            return
        expected = Expected(
            name=_BUNDLE_NAME,
            max_bytes=_MAX_BYTES,
            max_all_bytes=min(_MAX_BYTES, (line.ranks or _MANY_RANKS) * _MAX_RANK_BYTES),
            by_sender=True,
        )
        home = Home(folder, hosts=known_hosts(line, environment), expected=expected)
        own = Gathering(folder=folder, run=run, home="", here=False)
        with suppress(OSError):  # else they come where the folder is seen
            stack.enter_context(home)
            own = replace(own, home=home.words, environment=home.environment, opened=home)
        yield own


def planned_gathering(folder: Path, line: LaunchLine, environment: Mapping[str, str]) -> Gathering:
    """As `gathering` would be, for showing: XXXXXXXX stands for a name not made yet."""
    if all_here(line, environment):
        return Gathering(folder=folder, run="XXXXXXXX", home="")
    return Gathering(
        folder=folder,
        run="XXXXXXXX",
        home="XXXXXXXX",
        here=False,
        environment={KEY_VARIABLE: "XXXXXXXX"},
    )
