"""Which visibility mode suits an application, as its profile shows it.

The mode is kept in the placement's metadata, and is what `run` uses unless the user asks for
another.
"""

from __future__ import annotations

from dataclasses import replace

from toposeat.errors import UsageError
from toposeat.model.placement import Placement
from toposeat.model.rank_info import DeviceChoice

VISIBILITIES = ("permute", "mask", "rotate", "cpu-only")
MODE_KEY = "visibility"
REASON_KEY = "visibility_reason"
DEFAULT_MODE = "permute"

_SHARED = "several ranks share a device, which no order of one list can express"
_OF_CHOICE = {
    DeviceChoice.LOCAL_RANK: ("permute", "the application takes the device of its local rank"),
    DeviceChoice.DEVICE_0: ("mask", "the application always takes device 0"),
    DeviceChoice.OWN: (
        "cpu-only",
        "the application picks devices by a rule of its own, so they are left to it",
    ),
}


def with_visibility(placement: Placement, choice: DeviceChoice) -> Placement:
    """The placement with the mode that suits the application; unchanged where that is not known.

    A rule of its own is respected: no order of the list can be known to suit it, so that ranks keep
    the devices that they pick.
    """
    mode, reason = _OF_CHOICE.get(choice, ("", ""))
    if placement.shares_devices and mode in ("", "permute"):
        mode, reason = "mask", _SHARED
    if not mode:
        return placement
    metadata = {**placement.metadata, MODE_KEY: mode, REASON_KEY: reason}
    return replace(placement, metadata=metadata)


def visibility_of(placement: Placement, asked: str | None) -> tuple[str, str]:
    """The mode to run with, and a sentence where it is neither asked for nor the usual one."""
    found = placement.metadata.get(MODE_KEY, DEFAULT_MODE)
    if asked is not None or found == DEFAULT_MODE:
        return asked or found, ""
    reason = placement.metadata.get(REASON_KEY, "the placement says so")
    return found, f"Visibility {found}: {reason} (another with --visibility)"


def check_visibility(placement: Placement, mode: str) -> None:
    """Refuse a mode that does not exist, or cannot show these devices."""
    if mode not in VISIBILITIES:
        raise UsageError(
            f"visibility {mode!r} does not exist", hint="one of " + ", ".join(VISIBILITIES)
        )
    if placement.shares_devices and mode in ("permute", "rotate"):
        raise UsageError(
            "several ranks share a device in this placement, which no order of one device list can"
            " express",
            hint="add --visibility mask: every rank then sees its own device alone",
        )


def visibility_words(placement: Placement) -> str:
    """What a user should know about the mode of a placement; "" for the usual mode."""
    if placement.metadata.get(MODE_KEY) != "cpu-only":
        return visibility_of(placement, None)[1]
    return (
        f"Warning: {placement.metadata.get(REASON_KEY, '')}: the devices of this placement take"
        " effect only if it can be told to use the device of its local rank; then run with"
        " --visibility permute"
    )
