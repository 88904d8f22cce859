"""One pair at a time: protocols near and far, within one GPU, host memory, both directions."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from benchmarks.datapath.rows import REPEATS, Label, print_curves, with_memory

from toposeat.topology.measure import PROTOCOLS, Workers
from toposeat.topology.measure.pairs import exchange

SIZES = (8, 2 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20)
_LARGE = SIZES[-1]


def print_protocols(label: Label, name: str, devices: Sequence[int]) -> None:
    """Ji et al., Fig. 3 (near) and Fig. 4 (far); whether COOPERATE is ever best."""
    label.title(f"{name} pair {list(devices)}, us below 16 KiB, MB/s above, by protocol")
    with Workers(devices=devices) as workers:
        found = print_curves(with_memory(workers, _LARGE), SIZES, PROTOCOLS)
        rates = {each: _LARGE / found[each, _LARGE] / 1e6 for each in PROTOCOLS}
        direct = max(rates["get"], rates["put"])
        print(
            f"  4 MiB: direct / staged {direct / rates['staged']:.2f},"
            f" COOPERATE / better of GET and PUT {rates['cooperate'] / direct:.3f}"
        )
        for protocol in PROTOCOLS:
            there, back = exchange(workers, (0, 1), protocol, _LARGE, REPEATS)
            both = [_LARGE / statistics.median(each.seconds[1:]) / 1e6 for each in (there, back)]
            alone = sum(rates[protocol] for _ in both)
            print(
                f"  both directions, {protocol}: {both[0]:.1f} + {both[1]:.1f} MB/s,"
                f" {sum(both) / alone:.2f} of twice one"
            )
    label.published(
        "near, direct above staged (Fig. 3); far, staged above direct (Fig. 4);"
        " COOPERATE never best (Ji et al. 2012)"
    )


def print_same_device(label: Label, device: int) -> None:
    """Ji et al., Fig. 5: two processes on one GPU."""
    label.title(f"two processes on GPU {device}, by protocol")
    with Workers(devices=(device, device), may_share=True) as workers:
        found = print_curves(with_memory(workers, _LARGE), SIZES, ("get", "put", "staged"))
        for size in (SIZES[0], _LARGE):
            direct = min(found["get", size], found["put", size])
            print(f"  {size} bytes: staged takes {found['staged', size] / direct:.1f} times direct")
    label.published("direct an order of magnitude better, bandwidth and latency (Fig. 5)")


def print_host_ends(label: Label, devices: Sequence[int]) -> None:
    """Ji et al., Fig. 6: one end in host memory; attach against staging through shared memory."""
    for end, protocol, way in (("source", "put", "to GPU"), ("target", "get", "from GPU")):
        label.title(f"host memory {way}, GPUs {list(devices)}: attached ({protocol}) and staged")
        with Workers(devices=devices) as workers:
            found = print_curves(
                with_memory(workers, _LARGE), SIZES, (protocol, "staged"), host_end=end
            )
            ratio = found["staged", _LARGE] / found[protocol, _LARGE]
            print(f"  4 MiB: attached / staged {ratio:.2f} in MB/s")
    label.published("attached and relayed slower than shared memory (Fig. 6): fall back to staged")
