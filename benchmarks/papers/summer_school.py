"""Martinasso, CSCS summer school 2018: T = L + M / Bw, and 2-D diffusion with and without G2G."""

from __future__ import annotations

from benchmarks.papers.row import Paper, Row, Status

from toposeat.profile import grid_exchange, pattern_traffic
from toposeat.topology import constants

TITLE = "Martinasso: Network performance and multiple GPUs, CSCS/ETH summer school 2018"
MACHINE = "T = T1 / n + steps x neighbours x t of one halo message, t fitted on 4 nodes"
STEPS = 10_000
CALIBRATED_NODES = 4
SECONDS = {  # 10,000 steps of 128 x 131,072 on P100, by nodes
    "G2G off": {1: 5.579, 2: 3.083, 4: 1.909, 8: 1.203, 16: 0.836},
    "G2G on": {1: 5.580, 2: 2.811, 4: 1.426, 8: 0.737, 16: 0.399},
}
WITHIN = 0.05
LINKS_GBS = {"PCIe 3 x16": 16.0, "NVLink 1": 20.0, "NVLink 2": 25.0}


def paper() -> Paper:
    rows = [row for mode in SECONDS for row in _diffusion_rows(mode)]
    return Paper(title=TITLE, machine=MACHINE, rows=(*rows, *_link_rows(), *_other_rows()))


def neighbours(nodes: int) -> int:
    """Halo messages that the busiest rank of a row of domains sends, and receives, in a step."""
    return min(2, nodes - 1)


def message_s(mode: str) -> float:
    """Seconds of one halo message, from the run that the model is fitted to."""
    times, nodes = SECONDS[mode], CALIBRATED_NODES
    return (times[nodes] - times[1] / nodes) / (STEPS * neighbours(nodes))


def predicted_s(mode: str, nodes: int) -> float:
    return SECONDS[mode][1] / nodes + STEPS * neighbours(nodes) * message_s(mode)


def _diffusion_rows(mode: str) -> list[Row]:
    rows = []
    for nodes, seconds in SECONDS[mode].items():
        if nodes == 1:
            continue
        error = predicted_s(mode, nodes) / seconds - 1
        rows.append(
            Row(
                figure="Diffusion table",
                quantity=f"2-D diffusion on {nodes} nodes, {mode}",
                published=f"{seconds:.3f} s",
                predicted=f"{predicted_s(mode, nodes):.3f} s ({100 * error:+.1f} %)",
                status=Status.CALIBRATED if nodes == CALIBRATED_NODES else Status.HELD_OUT,
                holds=abs(error) <= WITHIN,
                note=f"a halo message takes {message_s(mode) * 1e6:.1f} us",
            )
        )
    return rows


def _link_rows() -> list[Row]:
    ours = {
        "PCIe 3 x16": constants.PCIE_X16[3] / 0.75,  # 12 of 16 GB/s are reached
        "NVLink 1": constants.NVLINK1.data_sheet,
        "NVLink 2": constants.NVLINK2.data_sheet,
    }
    return [
        Row(
            figure="Architecture slides",
            quantity=f"{name}, per direction",
            published=f"{gbs:g} GB/s",
            predicted=f"{ours[name] / 1e9:g} GB/s",
            status=Status.EXACT,
            holds=ours[name] == gbs * 1e9,
            note="signalling rate; what copies reach is lower and is what topologies carry"
            if name.startswith("PCIe")
            else "",
        )
        for name, gbs in LINKS_GBS.items()
    ]


def _other_rows() -> list[Row]:
    halo = grid_exchange("halo:2x2x4,bytes=1024")
    sent = pattern_traffic(halo.text(1024)).table().dense_bytes(halo.ranks).sum(axis=1)
    return [
        Row(
            figure="Halo exchange slide",
            quantity="4 halo layers, periodic: bytes a rank sends per byte of one layer, 3-D grid",
            published="6 faces x 4 layers",
            predicted=f"{int(sent[0]) // 1024}",
            status=Status.EXACT,
            holds=set(sent.tolist()) == {24 * 1024},
            note="the pattern `halo:2x2x4` of `compare` and `map`",
        ),
        Row(
            figure="PCIe variability slide",
            quantity="bandwidth of PCIe copies by message size",
            published="a picture",
            status=Status.NOT_REPRODUCIBLE,
            note="no numbers in the text",
        ),
    ]
