"""What a user calls a network: its kind, a file or `slurm-job`, and options behind it."""

from __future__ import annotations

import re
from pathlib import Path

from toposeat.errors import InputError, UsageError
from toposeat.model.files import path_exists

JOB = "slurm-job"
NETWORK_HINT = (
    "[slurm:|ib:|topograph:|levels:|addresses:]FILE[,bandwidth=25:100][,latency=1:0.2][,taper=2]"
    "[,topology=NAME]; see docs/how-to/map-onto-a-cluster.md"
)
_OPTION = re.compile(r",(bandwidth|latency|taper|topology)=([^,]*)\Z")


def is_network(source: str) -> bool:
    """Whether a source is a network: by its prefix, by name, or by what its file begins with.

    A shape is one only together with a node, which the caller knows.
    """
    text = source.strip()
    prefix, rest = prefix_of(text)
    if text == JOB or prefix is not None:
        return True
    path = Path(options_of(rest)[0])
    # A pipe can be read once only, and then by whoever reads the machine.
    if not path_exists(path) or not path.is_file():
        return False
    from toposeat.topology.networks.formats import network_format_of  # noqa: PLC0415
    from toposeat.topology.readers.file_text import read_file  # noqa: PLC0415

    try:
        return network_format_of(read_file(path)) is not None
    except InputError:  # whoever reads it as a topology says why
        return False


def prefix_of(text: str) -> tuple[str | None, str]:
    """The kind in front of a file name, if there is one, and the rest."""
    prefix, colon, rest = text.partition(":")
    if not colon:
        return None, text
    from toposeat.topology.networks.formats import PREFIXES  # noqa: PLC0415

    return (prefix, rest) if prefix in PREFIXES else (None, text)


def options_of(text: str) -> tuple[str, dict[str, str]]:
    """The file name and what stands behind it; a name may have commas of its own."""
    options: dict[str, str] = {}
    while match := _OPTION.search(text):
        if match.group(1) in options:
            raise UsageError(f"{match.group(1)}= is given twice", hint=NETWORK_HINT)
        options[match.group(1)] = match.group(2)
        text = text[: match.start()]
    return text, options
