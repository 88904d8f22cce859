"""Whether the folders of the C++ core include each other downwards alone.

Run: python tools/core_layers.py [CORE]

Each folder of `core/src`, and the one of the same name below `core/include/toposeat`, may include
itself and the folders of lower layers; folders of one layer never include each other. Says where
that is broken and exits with status 1.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

# From the top. What each folder holds is said in CONTRIBUTING.md.
LAYERS = (
    ("certificate", "large"),
    ("exact", "search"),
    ("bounds", "flow", "division"),
    ("machines", "groups"),
    ("problem",),
    ("base",),
)
HEIGHT = {folder: -number for number, layer in enumerate(LAYERS) for folder in layer}
INCLUDED = re.compile(r'^#include "(?:toposeat/)?([^"/]+)/[^"]+"', re.MULTILINE)


def breaches(core: Path) -> Iterator[str]:
    """What is wrong, a line each, with the file."""
    for root in (core / "src", core / "include" / "toposeat"):
        for file in sorted(root.rglob("*.[ch]pp")):
            folder = file.relative_to(root).parts[0]
            if folder not in HEIGHT:
                yield f"{file}: {folder!r} is in no layer"
                continue
            for other in INCLUDED.findall(file.read_text(encoding="utf-8")):
                if other != folder and HEIGHT.get(other, 1) >= HEIGHT[folder]:
                    yield f"{file}: {folder} must not include {other}"


def main() -> int:
    core = Path(sys.argv[1] if len(sys.argv) > 1 else "core")
    found = list(breaches(core))
    for line in found:
        print(line, file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
