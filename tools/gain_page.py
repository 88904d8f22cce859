"""The tables of docs/gain.md: each number is what the command of its row and column predicts."""

from __future__ import annotations

import io
import json
import re
import tempfile
from collections.abc import Sequence
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

from toposeat.cli.main import main
from toposeat.topology import read_topology

MACHINES = [
    ("rtx-4-crossed-bridges", "bridges that cross the PCIe pairs"),
    ("dgx-1v", "NVLink mesh, links of two speeds"),
    ("summit-6", "two islands of NVLink"),
    ("power9-4", "two NVLink pairs"),
    ("a100-pcie-8-bridged", "bridges between neighbours"),
    ("l40s-8", "PCIe switches only"),
    ("k80-16", "two dies a board, PCIe only"),
    ("mi100-8", "two islands of xGMI"),
    ("mi250x-8", "dies, links of three speeds"),
    ("hgx-h100", "NVSwitch"),
    ("mi300x-8", "every pair linked alike"),
    ("perlmutter-4", "every pair linked alike"),
]
WORKLOADS = [
    ("tensor pairs", "llm:tp=2,dp={half}"),
    ("tensor fours", "llm:tp=4,dp={quarter}"),
    ("tensor pairs in a pipeline", "llm:tp=2,pp={half},layers=48"),
    ("pipeline", "llm:tp=1,pp={all},layers=48"),
    ("one group of all", "llm:tp=1,dp={all}"),
    ("2-D halo", "stencil2d:{grid},weight=3"),
    ("all-to-all in two groups", "alltoall:{half}x2"),
]
GRIDS = {4: "2x2", 6: "2x3", 8: "2x4", 16: "4x4"}

LEAVES, HOSTS = 8, 32
ORDERS = {
    "leaf by leaf": list(range(HOSTS)),
    "sorted as text": sorted(range(HOSTS), key=str),
    "one of each leaf in turns": sorted(range(HOSTS), key=lambda h: h % (HOSTS // LEAVES)),
}
JOBS = [
    ("tensor 8, data 32", "llm:tp=8,dp=32"),
    ("tensor 8, pipeline 8, data 4", "llm:tp=8,pp=8,dp=4"),
    ("FSDP over all", "llm:tp=1,dp=256,fsdp"),
    ("experts 64", "llm:tp=1,dp=256,ep=64,experts=64"),
    ("2-D halo", "stencil2d:16x16"),
    ("3-D halo", "stencil3d:4x8x8"),
]
_BUDGET_S = "60"  # none of these searches needs it: the answer must not depend on a busy machine
_TABLE = re.compile(r"(<!-- table (\w+) [^>]*-->\n).*?(<!-- end -->)", re.DOTALL)


def gain_page(text: str, *, quick: bool = False) -> str:
    """The page with both tables made anew; `quick`: that of networks, the dearer one, as it is."""
    made = {"machines": _machines} if quick else {"machines": _machines, "networks": _networks}
    return _TABLE.sub(
        lambda part: f"{part[1]}{made[part[2]]()}{part[3]}" if part[2] in made else part[0], text
    )


def _machines() -> str:
    rows = []
    for name, kind in MACHINES:
        count = len(read_topology(name).devices)
        size = {"all": count, "half": count // 2, "quarter": count // 4, "grid": GRIDS[count]}
        cells = [
            "-" if count % 4 and "{quarter}" in form else _saved([form.format(**size), "-t", name])
            for _, form in WORKLOADS
        ]
        rows.append([f"`{name}`", kind, *cells])
    return _table(["machine", "wiring", *(words for words, _ in WORKLOADS)], rows)


def _networks() -> str:
    text = f"SwitchName=top Switches=leaf[0-{LEAVES - 1}]\n"
    for leaf in range(LEAVES):
        first = leaf * HOSTS // LEAVES
        text += f"SwitchName=leaf{leaf} Nodes=node[{first}-{first + HOSTS // LEAVES - 1}]\n"
    with tempfile.TemporaryDirectory() as folder:
        network = Path(folder) / "topology.conf"
        network.write_text(text, encoding="utf-8")
        rows = [
            [
                words,
                "none" if taper == 1 else f"{taper}:1",
                *(
                    _saved(
                        [job, "-t", f"{network},taper={taper}", "--node", "hgx-h100"]
                        + ["--hosts", f"node[{','.join(map(str, order))}]"]
                    )
                    for _, job in JOBS
                ),
            ]
            for taper in (4, 1)
            for words, order in ORDERS.items()
        ]
    return _table(["order of nodes", "taper", *(words for words, _ in JOBS)], rows)


def _saved(words: Sequence[str]) -> str:
    """What `toposeat map` saves of the default's time, in percent."""
    answer = io.StringIO()
    with redirect_stdout(answer), redirect_stderr(io.StringIO()):
        code = main(["map", *words, "--budget", _BUDGET_S, "--json"])
    if code:
        raise ValueError(f"toposeat map {' '.join(words)} failed")
    found: dict[str, Any] = json.loads(answer.getvalue())
    share = 1 - found["placed"]["predicted_s"] / found["default"]["predicted_s"]
    least, most = (found["premises"] or {}).get("gain_range", (share, share))
    if most < 0.005:
        return "0" if found["certificate"]["proved"] or found.get("uniform") else "0?"
    low, high = round(100 * least), round(100 * most)
    return f"{low}" if low == high else f"{low} to {high}"


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)
