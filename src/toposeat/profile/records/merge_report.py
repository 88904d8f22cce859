"""Sentences about a merged world: everything that its numbers do not show."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from toposeat.profile.records.record import Flag, State
from toposeat.profile.records.world_sum import WorldSum

_LISTED = 8  # how many ranks a sentence names


def describe(world: WorldSum) -> list[str]:
    """All sentences, the gravest first."""
    return [*_missing(world), *_lost(world), *_devices(world)]


def _missing(world: WorldSum) -> Iterator[str]:
    yield from _say((r for r in range(world.size) if r not in world.seen), "left no record")
    yield from _say(world.states[State.RUNNING], "did not reach MPI_Finalize")
    yield from _say(world.states[State.ABORTED], "called MPI_Abort")


def _lost(world: WorldSum) -> Iterator[str]:
    lost = world.lost
    if lost["messages"]:
        yield f"{lost['messages']} messages ({lost['bytes']} bytes) could not be attributed"
    if lost["events"]:
        yield f"{lost['events']} collective calls could not be recorded"
    what = "made collectives of very many sizes: some are merged by size class"
    yield from _say(world.by_class, what)
    if world.communicators_left_out:
        yield f"{world.communicators_left_out} communicators are left out: too many members"
    yield from _say(
        world.flags[Flag.PHASES_MERGED],
        "had more phases than there is room for: the last holds the rest",
    )
    if world.phase_pairs_left_out:
        yield "the rank pairs of phases are left out: there are too many; their times are here"


def _devices(world: WorldSum) -> Iterator[str]:
    yield from _say(world.flags[Flag.SEVERAL_DEVICES], "used buffers of several devices")
    yield from _say(
        world.flags[Flag.LEVEL_ZERO], "use Level Zero: device buffers are counted as host memory"
    )
    yield from _say(
        world.flags[Flag.NOT_GPU_AWARE],
        "gave device memory to an MPI that says it is not GPU-aware",
    )


def _say(ranks: Iterable[int], what: str) -> Iterator[str]:
    listed = sorted(ranks)
    if listed:
        names = ", ".join(map(str, listed[:_LISTED]))
        more = f", ... ({len(listed)} in all)" if len(listed) > _LISTED else ""
        yield f"rank{'s' if len(listed) > 1 else ''} {names}{more} {what}"
