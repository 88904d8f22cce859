"""One node of AMD's kernel driver as plain numbers, and what its instruction set tells."""

from __future__ import annotations

from dataclasses import dataclass, field

# gfx_target_version: major, then two digits each of minor and stepping.
FORWARDING_GFX = 90010  # MI200: its dies relay traffic of others
PARTITIONED_GFX = frozenset({90400, 90401, 90402, 90500})  # MI300 and MI350


@dataclass(slots=True)
class KfdNode:
    """One node: CPUs of a memory node, or a GPU or partition.

    `links` are its io_links (xGMI and PCIe to neighbours), each a mapping of the kernel's numbers;
    `memory` likewise its memory banks. `line` is where the text starts to speak of it.
    """

    number: int
    line: int | None = None
    name: str = ""
    properties: dict[str, int] = field(default_factory=dict)
    links: list[dict[str, int]] = field(default_factory=list)
    memory: list[dict[str, int]] = field(default_factory=list)

    @property
    def is_gpu(self) -> bool:
        """Whether it has vector units."""
        return self.properties.get("simd_count", 0) > 0

    @property
    def is_shown(self) -> bool:
        """Whether the kernel showed its properties: it hides GPUs of other cgroups."""
        return bool(self.properties)
