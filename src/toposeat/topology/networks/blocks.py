"""Blocks of hosts, and blocks of blocks, as Slurm's topology/block has them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from toposeat.model.network import Network, NetworkKind
from toposeat.topology.networks.builder import NetworkBuilder


@dataclass(frozen=True)
class Block:
    """One block of the file: its name, hosts, and line."""

    name: str
    hosts: tuple[str, ...]
    line: int | None


def network_of_blocks(
    builder: NetworkBuilder,
    blocks: Sequence[Block],
    sizes: Sequence[int],
    *,
    name: str,
    origin: str,
) -> Network:
    """A switch per block; consecutive blocks are gathered as the block sizes say.

    With sizes 4 and 16, four blocks lie under one switch, since 16 hosts are four times the base
    size of 4. What is gathered last is joined by one switch.

    Raises:
        InputError: a block or host twice, sizes that are not multiples of the first.
    """
    if not blocks:
        raise builder.error("no block has hosts", None)
    for block in blocks:
        if block.name in builder.switches:
            raise builder.error(f"block {block.name} is defined twice", block.line)
        switch = builder.switch(block.name, block.line)
        for host in block.hosts:
            if host in builder.hosts:
                raise builder.error(f"host {host} is in two blocks", block.line)
            builder.port(host, switch, block.line)
    row = [builder.switches[block.name] for block in blocks]
    ordered = sorted(set(sizes))
    per_block = 1  # blocks below one switch of the row
    for level, size in enumerate(ordered[1:], start=1):
        if size % ordered[0]:
            raise builder.error(
                f"block size {size} is no multiple of the base size {ordered[0]}", blocks[0].line
            )
        gathered = size // ordered[0] // per_block
        if gathered < 2 or len(row) < 2:
            continue
        per_block *= gathered
        row = _gather(builder, row, gathered, level, f"blocks of {size} ")
    if len(row) > 1:
        _gather(builder, row, len(row), len(ordered[1:]) + 1, "all blocks ")
    return builder.build(name=name, origin=origin, kind=NetworkKind.BLOCK)


def _gather(
    builder: NetworkBuilder, row: Sequence[int], count: int, level: int, name: str
) -> list[int]:
    above = []
    for number, start in enumerate(range(0, len(row), count)):
        switch = builder.switch(f"({name}{number})".replace(" )", ")"))
        for below in row[start : start + count]:
            builder.link(below, switch, level=level)
        above.append(switch)
    return above
