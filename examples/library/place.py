"""Place a traffic on a machine and say what it gains: python place.py TRAFFIC MACHINE [OUTPUT]."""

from __future__ import annotations

import sys

import toposeat


def place(traffic_name: str, machine_name: str, output: str = "") -> float:
    """The share of the default's predicted link time that the placement saves."""
    machine = toposeat.read_topology(machine_name)
    traffic = toposeat.read_traffic(traffic_name)
    result = toposeat.map_traffic(machine, traffic, toposeat.MapOptions(min_gain=0.01))
    if output:
        placement = toposeat.placement_of(result, machine, traffic, traffic_name=traffic_name)
        toposeat.save_placement(placement, output)
    return 1 - result.placed.predicted_s / result.default.predicted_s


if __name__ == "__main__":
    try:
        print(f"saves {100 * place(*sys.argv[1:4]):.0f} % of the predicted link time")
    except toposeat.ToposeatError as error:
        sys.exit(f"error: {error.message}\nhint:  {error.hint}")
