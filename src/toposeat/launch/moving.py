"""Moving the processes that have borrowed a device to another one, while they run."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from toposeat.errors import ToposeatError, UsageError, did_you_mean
from toposeat.installed import native_path
from toposeat.launch.lent_files import (
    KEY_VARIABLE,
    choosing,
    lent_devices,
    lent_folder,
    mark_left,
    mark_moving,
)
from toposeat.model.lent import LentDevice, Moved

_HALF_MOVED = 3  # the proxy ended while it moved its clients: some may be there


def move_borrowers(source: str, target: str, environment: Mapping[str, str] = os.environ) -> Moved:
    """Move all processes that use the device `source` to `target`, both named by their ids.

    Raises:
        UsageError: they cannot be moved there by what is known before.
        ToposeatError: the proxy cannot be asked.
    """
    root = lent_folder(environment)
    with choosing(root):
        devices, key = lent_devices(root)
        old, new = _named(devices, source), _named(devices, target)
        if not old.borrowed_by:
            raise UsageError(
                f"nobody has borrowed {old.id}", hint="toposeat borrow lists who has what"
            )
        if doubt := _why_not(old, new):
            raise doubt
        mark_moving(root, old, new)
    return _move(root, old, new, key, environment)


def move_away(
    own: Sequence[tuple[str, str]], environment: Mapping[str, str] = os.environ
) -> Iterator[Moved]:
    """Move those who use a device of these proxies to free devices of others, as far as can be.

    Args:
        own: host and socket of each proxy that is about to end.
        environment: which user's.

    Raises:
        ToposeatError: a proxy cannot be asked.
    """
    root = lent_folder(environment)
    for old in lent_devices(root)[0]:
        if not old.borrowed_by or (old.host, old.socket) not in own:
            continue
        with choosing(root):
            devices, key = lent_devices(root)
            others = (each for each in devices if (each.host, each.socket) not in own)
            new = next((each for each in others if _why_not(old, each) is None), None)
            if new is not None:
                mark_moving(root, old, new)
        if new is None:
            yield Moved(source=old.id, refused=("no other device of its name is free",))
        else:
            yield _move(root, old, new, key, environment)


def _why_not(old: LentDevice, new: LentDevice) -> UsageError | None:
    """What keeps those who use `old` from `new`, if anything does."""
    if new.borrowed_by or new.id == old.id:
        return UsageError(
            f"{new.id} is borrowed by {new.borrowed_by}",
            hint="name one that is free; toposeat borrow lists them",
        )
    if new.share < old.jobs:
        return UsageError(
            f"{new.id} is lent to {new.share} jobs at a time, and {old.jobs} have {old.id}",
            hint="lend it with --share",
        )
    if new.name != old.name:
        return UsageError(
            f"{new.id} is another device ({new.name}) than {old.id} ({old.name})",
            hint="processes know their device's facts: move them to one of the same name",
        )
    return None


def _named(devices: Sequence[LentDevice], name: str) -> LentDevice:
    found = next((device for device in devices if device.id == name), None)
    if found is None:
        ids = [device.id for device in devices]
        raise UsageError(
            f"no device {name} is lent",
            hint=did_you_mean(name, ids) or "toposeat borrow lists what is lent",
        )
    return found


def _move(
    root: Path, old: LentDevice, new: LentDevice, key: str, environment: Mapping[str, str]
) -> Moved:
    """A process may let it wait for long, so that others choose devices meanwhile."""
    line = [str(native_path("bin/toposeat-clproxy")), "--move", _ends(old), _ends(new)]
    begin = time.monotonic()
    done = subprocess.run(
        line,
        env={**environment, KEY_VARIABLE: key},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        if done.returncode != _HALF_MOVED:  # else who had one device keeps both
            with choosing(root):
                mark_left(root, new, old)
        said = done.stderr.strip().removeprefix("toposeat-clproxy: error: ")
        raise ToposeatError(
            said or f"the proxy of {old.id} could not be asked",
            hint=f"where toposeat borrow lists it still, type this on {old.host}",
        )
    told = json.loads(done.stdout)
    moved = Moved(
        source=old.id,
        target=new.id,
        processes=int(told["moved"]),
        refused=tuple(map(str, told["refused"])),
        seconds=time.monotonic() - begin,
    )
    with choosing(root):
        if not moved.processes:
            mark_left(root, new, old)
        elif not moved.refused:
            mark_left(root, old, new)
    return moved


def _ends(device: LentDevice) -> str:
    """Its end points, the nearest first, and its number behind them."""
    *ends, last = device.endpoints
    return " ".join([*(end.partition("#")[0] for end in ends), last])
