"""Large machines that have a name: their shape, and who published its numbers."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class KnownShape:
    """A machine of many hosts: its shape as text, published facts, and what had to be assumed."""

    name: str
    shape: str
    kind: str  # of network, as it is shown
    hosts: int
    description: str
    sources: tuple[str, ...]
    assumed: str


BLUE_WATERS = KnownShape(
    name="blue-waters",
    shape="torus3d:24x24x24,nodes=2,bandwidth=9.4:4.7:9.4,node-bandwidth=6,latency=1:0.1",
    kind="3-D torus",
    hosts=27648,
    description="Blue Waters (Cray XE6 and XK7): Gemini torus of 24x24x24 routers with two nodes on"
    " each, links along Y half as fast as along X and Z",
    sources=(
        "NCSA: Blue Waters portal, getting started, quick hardware summary (Gemini torus of"
        " 24x24x24, 26864 compute nodes)",
        "P. Balaji, W. Gropp, T. Lusk, R. Thakur: System software for scalable applications, slides"
        " (X and Z have twice the bandwidth of Y, two nodes share a Gemini, about 0.1 us per hop)",
        "A. van der Steen: Overview of recent supercomputers, Cray XE6 (over 6 GB/s per direction"
        " measured into the network, 0.7 to 1.4 us)",
    ),
    assumed="9.4 GB/s along X and Z and 4.7 along Y; all places of the torus hold compute nodes",
)

KNOWN_SHAPES = {each.name: each for each in (BLUE_WATERS,)}


def known_shape(text: str) -> KnownShape | None:
    """The machine that `text` begins with, options aside; None if it names none."""
    return KNOWN_SHAPES.get(text.partition(",")[0].strip().lower())
