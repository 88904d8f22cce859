"""Known machines, each written from published facts that `Topology.sources` names."""

from __future__ import annotations

import difflib
from collections.abc import Callable
from functools import cache

from toposeat.errors import UsageError
from toposeat.model.topology import Topology
from toposeat.topology.catalogue import amd, bridged, dgx1, dgx2, k80, nvswitch8, power9

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
    "mi250x-8": amd.build_mi250x,
    "mi300x-8": amd.build_mi300x,
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
