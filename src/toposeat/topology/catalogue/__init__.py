"""Known machines, each written from published facts that `Topology.sources` names."""

from __future__ import annotations

import difflib
from collections.abc import Callable
from functools import cache

from toposeat.errors import UsageError
from toposeat.model.topology import Topology
from toposeat.topology.catalogue import (
    amd,
    bridged,
    dgx1,
    dgx2,
    hives,
    intel,
    k80,
    nvl72,
    nvswitch8,
    pcie_boxes,
    power,
    power9,
    quads,
)

_BUILDERS: dict[str, Callable[[], Topology]] = {
    "k80-16": k80.build_mixed,
    "k80-16-faraji": k80.build_paper,
    "dgx-1p": dgx1.build_p100,
    "dgx-1v": dgx1.build_v100,
    "dgx-2": dgx2.build,
    "dgx-a100": nvswitch8.build_a100,
    "hgx-h100": nvswitch8.build_h100,
    "a100-pcie-8-bridged": bridged.build_a100,
    "rtx-4-crossed-bridges": bridged.build_rtx,
    "power9-4": power9.build,
    "mi60-8": hives.build_vega20,
    "mi100-8": hives.build_mi100,
    "mi250x-8": amd.build_mi250x,
    "mi300x-8": amd.build_mi300x,
    "mi325x-8": amd.build_mi325x,
    "mi355x-8": amd.build_mi355x,
    "mi300a-4": quads.build_mi300a,
    "perlmutter-4": quads.build_perlmutter,
    "polaris-4": quads.build_polaris,
    "alps-gh200-4": quads.build_alps,
    "summit-6": power.build_summit,
    "minsky-4": power.build_minsky,
    "aurora-12": intel.build_aurora,
    "max1100-2": intel.build_max1100,
    "gb200-nvl72": nvl72.build_gb200,
    "gb300-nvl72": nvl72.build_gb300,
    "hgx-h200": nvswitch8.build_h200,
    "hgx-b200": nvswitch8.build_b200,
    "hgx-b300": nvswitch8.build_b300,
    "h100-pcie-8-bridged": pcie_boxes.build_h100_pcie,
    "l40s-8": pcie_boxes.build_l40s,
    "k40-4": pcie_boxes.build_sirocco,
    "k40-8": pcie_boxes.build_k40_8,
    "c2050-8": pcie_boxes.build_idgraf,
}


def catalogue_names() -> tuple[str, ...]:
    """Names that `catalogue_topology` knows."""
    return tuple(_BUILDERS)


@cache
def catalogue_topology(name: str) -> Topology:
    """A machine of the catalogue.

    Raises:
        UsageError: no machine has that name; the hint names the nearest.
    """
    build = _BUILDERS.get(name.strip().lower())
    if build is None:
        raise UsageError(f"no machine {name!r} in the catalogue", hint=hint_for_name(name))
    return build()


def hint_for_name(name: str) -> str:
    """The nearest catalogue names, or all of them."""
    near = difflib.get_close_matches(name.strip().lower(), _BUILDERS, n=3, cutoff=0.5)
    return f"did you mean {' or '.join(near)}?" if near else f"known are {', '.join(_BUILDERS)}"
