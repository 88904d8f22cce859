"""A node of four GPUs, each with its own link to the host."""

from pathlib import Path

from toposeat.topology import read_topology


def node():
    """g0 to g3, whose routes meet at the host."""
    return read_topology(Path(__file__).with_name("four-gpus.json"))
