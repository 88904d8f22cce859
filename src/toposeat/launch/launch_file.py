"""A file that a launcher or a job reads beside its command line."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class LaunchFile:
    """Its name, without a folder, and its content."""

    name: str
    text: str
    executable: bool = False
