"""Protocol curves near and far, handle cache, host copies, staged chunk by depth.

    toposeat emulate -t k80-16 --scale 0.1 -- python -m benchmarks.datapath --emulated

On real GPUs: `python -m benchmarks.datapath --pairs 0-1,0-4`. Numbers of the stand-in show that the
machinery works; which protocol is best there is what its topology says, not evidence about GPUs.
"""

from __future__ import annotations

import argparse
import statistics

from benchmarks.machine import describe

from toposeat.topology.measure import PROTOCOLS, Copying, Workers, measure_host
from toposeat.topology.measure.pairs import transfer

_CURVE = (8, 2 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20)
_CACHED = (8, 1 << 10, 8 << 10, 64 << 10)
_CHUNKS = (128 << 10, 512 << 10, 2 << 20)
_DEPTHS = (1, 2, 4, 16)
_REPEATS = 9


def main() -> None:
    """Run all and print tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--emulated", action="store_true", help="label the numbers so")
    parser.add_argument("--pairs", default="0-1,0-8", help="a near pair and a far pair")
    options = parser.parse_args()
    label = "EMULATED" if options.emulated else "REAL"
    print(f"{label}; {describe()}; best of {_REPEATS} (median) unless said")
    for name, text in zip(("near", "far"), options.pairs.split(","), strict=True):
        devices = [int(x) for x in text.split("-")]
        _print_curves(label, name, devices)
        _print_sweep(label, name, devices)
    _print_cache(label, [int(x) for x in options.pairs.split(",")[0].split("-")])


def _seconds(workers: Workers, protocol: str, size: int, repeats: int = _REPEATS) -> list[float]:
    (done,) = transfer(workers, [(0, 1)], protocol, size, repeats + 1)
    if done.protocol != protocol:
        return [float("nan")]
    return list(done.seconds[1:])  # the first opens the handle


def _print_curves(label: str, name: str, devices: list[int]) -> None:
    print(f"\n{label}: {name} pair {devices}, MB/s (us below 16 KiB) by protocol")
    with Workers(devices=devices) as workers:
        workers.ask(dict.fromkeys(range(2), f"size {_CURVE[-1]}"))
        print(f"{'bytes':>9} " + " ".join(f"{each:>16}" for each in PROTOCOLS))
        for size in _CURVE:
            cells = []
            for protocol in PROTOCOLS:
                times = _seconds(workers, protocol, size)
                best, middle = min(times), statistics.median(times)
                if size < 16 << 10:
                    cells.append(f"{best * 1e6:.1f} ({middle * 1e6:.1f})")
                else:
                    cells.append(f"{size / best / 1e6:.1f} ({size / middle / 1e6:.1f})")
            print(f"{size:>9} " + " ".join(f"{cell:>16}" for cell in cells))
        for each in measure_host(workers):
            print(f"  host, GPU {devices[each.device]}, {each.what}: {_host(each)}")
    print(
        "  published (Ji et al. 2012): near direct > staged (Fig. 3), far staged > direct (Fig. 4),"
    )
    print("  COOPERATE never best")


def _host(each: object) -> str:
    into, out = getattr(each, "to_device", None), getattr(each, "from_device", None)
    unit, factor = ("MB/s", 1e-6) if getattr(each, "what", "") == "bandwidth" else ("us", 1e6)
    cells = [f"{x * factor:.1f}" if x is not None else "-" for x in (into, out)]
    return f"to {cells[0]}, from {cells[1]} {unit}"


def _print_sweep(label: str, name: str, devices: list[int]) -> None:
    size = _CURVE[-1]
    print(f"\n{label}: STAGED {size >> 20} MiB over the {name} pair, MB/s by chunk and depth")
    print(f"{'chunk':>9} " + " ".join(f"{depth:>8}" for depth in _DEPTHS))
    for chunk in _CHUNKS:
        cells = []
        for depth in _DEPTHS:
            with Workers(devices=devices, copying=Copying(chunk, depth)) as workers:
                workers.ask(dict.fromkeys(range(2), f"size {size}"))
                cells.append(f"{size / min(_seconds(workers, 'staged', size, 3)) / 1e6:>8.1f}")
        print(f"{chunk >> 10:>5} KiB " + " ".join(cells))
    print("  published (CSCS 2018, between nodes): 512 kB x 16 in flight")


def _print_cache(label: str, devices: list[int]) -> None:
    """Cached, not cached and cached again (A/A), in turns of changing order."""
    print(f"\n{label}: handle cache, GET over {devices}: us of 6 turns x 20")
    print(f"{'bytes':>9}   cached  without      A/A  without/cached  A/A ratio")
    kinds = (Copying(), Copying(cache=0), Copying())
    with (
        Workers(devices=devices, copying=kinds[0]) as one,
        Workers(devices=devices, copying=kinds[1]) as two,
        Workers(devices=devices, copying=kinds[2]) as three,
    ):
        for workers in (one, two, three):
            workers.ask(dict.fromkeys(range(2), f"size {_CACHED[-1]}"))
        for size in _CACHED:
            times: list[list[float]] = [[], [], []]
            for turn in range(6):
                for kind in ((turn + k) % 3 for k in range(3)):
                    times[kind] += _seconds((one, two, three)[kind], "get", size, 20)
            for what, of in (("fastest", min), ("median", statistics.median)):
                a, b, c = (of(each) * 1e6 for each in times)
                print(
                    f"{size:>9} {a:>8.1f} {b:>8.1f} {c:>8.1f} {b / a:>15.2f} {c / a:>10.2f}  {what}"
                )
    print("  published (Ji et al. 2012, III-C): latency more than halved")


if __name__ == "__main__":
    main()
