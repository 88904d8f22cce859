"""Experiments of Ji et al. (2012) and of GPU-aware MPI, with their published figures beside ours.

    toposeat emulate -t k80-16 --scale 0.1 -- python -m benchmarks.datapath

On real GPUs: `python -m benchmarks.datapath --pairs 0-1,0-4`. Whether times are emulated is found
out, not asked. Numbers of the stand-in show that the machinery works; which protocol is best there
is what its topology says, not evidence about GPUs.
"""

from __future__ import annotations

import argparse
import os

from benchmarks.datapath.pairs import print_host_ends, print_protocols, print_same_device
from benchmarks.datapath.rows import REPEATS, Label
from benchmarks.datapath.staging import print_cache, print_sweep
from benchmarks.datapath.stencil import print_stencil
from benchmarks.machine import describe

from toposeat.emulation import emulated_machine

_ALL = ("protocols", "same", "host", "sweep", "cache", "stencil")


def main() -> None:
    """Run what is asked for and print tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", default="0-1,0-8", help="a near pair and a far pair")
    parser.add_argument("--only", default=",".join(_ALL), help=f"some of {', '.join(_ALL)}")
    parser.add_argument("--matrices", default="1024,2048,4096", help="of the stencil")
    parser.add_argument("--halos", default="1,2,4", help="of the stencil")
    parser.add_argument("--ranks", type=int, default=2, help="of the stencil")
    parser.add_argument("--rate", type=float, default=5e8, help="points/s of a GPU of the stand-in")
    parser.add_argument("--repeats", type=int, default=3, help="of the stencil")
    options = parser.parse_args()
    machine = emulated_machine(os.environ)
    label = Label(bool(machine))
    print(f"{label} {machine}; {describe()}; best of {REPEATS} (median) unless said")
    pairs = [[int(x) for x in text.split("-")] for text in options.pairs.split(",")]
    wanted = options.only.split(",")
    if "protocols" in wanted:
        for name, devices in zip(("near", "far"), pairs, strict=True):
            print_protocols(label, name, devices)
    if "same" in wanted:
        print_same_device(label, pairs[0][0])
    if "host" in wanted:
        print_host_ends(label, pairs[0])
    if "sweep" in wanted:
        for name, devices in zip(("near", "far"), pairs, strict=True):
            print_sweep(label, name, devices)
    if "cache" in wanted:
        print_cache(label, pairs[0])
    if "stencil" in wanted:
        print_stencil(label, options)


if __name__ == "__main__":
    main()
