"""The machine and the traffic that a placement was made for, as its header states them."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path

from toposeat.cli.command import tell
from toposeat.errors import UsageError


def take_from_headers(
    args: argparse.Namespace, paths: Sequence[Path], headers: Sequence[Mapping[str, str]]
) -> None:
    """The machine and the traffic that the placements were made for, where they are not given.

    Raises:
        UsageError: a placement does not say, or they say different things.
    """
    from toposeat import topology  # noqa: PLC0415

    if args.topology is None:
        sources = [header.get("source") or header.get("topology") for header in headers]
        args.topology = _only(sources, paths, "machine", "-t SRC")
        has_nodes = True
    else:
        has_nodes = topology.is_network(args.topology)
    for name in ("node", "hosts"):
        found = {header.get(name) for header in headers}
        if getattr(args, name) is not None or not has_nodes:
            continue
        if len(found) > 1 and name == "node":
            raise UsageError(
                f"the placements do not have the same node: {', '.join(map(str, found))}",
                hint="say with --node which one they are to be compared on",
            )
        setattr(args, name, found.pop() if len(found) == 1 else None)
    if args.traffic is None:
        traffic = [header.get("traffic") for header in headers]
        args.traffic = _only(traffic, paths, "traffic", "--traffic F")
    tell(f"For       {args.traffic} on {args.topology} (others: --traffic F, -t SRC)")


def _only(found: Sequence[str | None], paths: Sequence[Path], what: str, option: str) -> str:
    """The one thing that all placements say."""
    for path, name in zip(paths, found, strict=True):
        if not name:
            raise UsageError(f"{path} does not say its {what}", hint=f"add {option}")
    names = [name for name in dict.fromkeys(found) if name]
    if len(names) > 1:
        raise UsageError(
            f"the placements do not have the same {what}: {', '.join(names)}",
            hint=f"say with {option} which one they are to be compared on",
        )
    return names[0]
