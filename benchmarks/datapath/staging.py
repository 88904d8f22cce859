"""Pieces of staged copies, and the cache of open handles."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from benchmarks.datapath.rows import Label, seconds_of, with_memory

from toposeat.topology.measure import Copying, Workers

_LARGE = 4 << 20
_CACHED = (8, 1 << 10, 8 << 10, 64 << 10)
_CHUNKS = (128 << 10, 512 << 10, 2 << 20)
_DEPTHS = (1, 2, 4, 16)


def print_sweep(label: Label, name: str, devices: Sequence[int]) -> None:
    """Chunk by depth, as in Cray's G2G pipeline."""
    label.title(f"STAGED 4 MiB over the {name} pair, MB/s by chunk and depth, best of 3")
    print(f"{'chunk':>9} " + " ".join(f"{depth:>8}" for depth in _DEPTHS))
    for chunk in _CHUNKS:
        cells = []
        for depth in _DEPTHS:
            with Workers(devices=devices, copying=Copying(chunk, depth)) as workers:
                times = seconds_of(with_memory(workers, _LARGE), "staged", _LARGE, 3)
                cells.append(f"{_LARGE / min(times) / 1e6:>8.1f}")
        print(f"{chunk >> 10:>5} KiB " + " ".join(cells), flush=True)
    label.published("512 kB x 16 in flight, between nodes (CSCS 2018)")


def print_cache(label: Label, devices: Sequence[int]) -> None:
    """Cached, not cached and cached again (A/A), in turns of changing order."""
    label.title(f"handle cache, GET over {list(devices)}: us of 6 turns x 20")
    print(f"{'bytes':>9}   cached  without      A/A  without/cached  A/A ratio")
    kinds = (Copying(), Copying(cache=0), Copying())
    with (
        Workers(devices=devices, copying=kinds[0]) as one,
        Workers(devices=devices, copying=kinds[1]) as two,
        Workers(devices=devices, copying=kinds[2]) as three,
    ):
        all_three = [with_memory(workers, _CACHED[-1]) for workers in (one, two, three)]
        for size in _CACHED:
            times: list[list[float]] = [[], [], []]
            for turn in range(6):
                for kind in ((turn + k) % 3 for k in range(3)):
                    times[kind] += seconds_of(all_three[kind], "get", size, 20)
            for what, of in (("fastest", min), ("median", statistics.median)):
                a, b, c = (of(each) * 1e6 for each in times)
                print(
                    f"{size:>9} {a:>8.1f} {b:>8.1f} {c:>8.1f} {b / a:>15.2f} {c / a:>10.2f}  {what}"
                )
    label.published("latency more than halved by the cache (Ji et al. 2012, III-C)")
