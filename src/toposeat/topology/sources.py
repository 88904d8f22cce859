"""Which reader a topology source needs: this machine, the catalogue, a synthetic string, a file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from toposeat.errors import InputError, UsageError
from toposeat.model.files import path_exists
from toposeat.model.pair import BANDWIDTH, PairNumbers
from toposeat.model.shape_text import is_shape
from toposeat.model.shell_words import shell_word, sources_in
from toposeat.model.topology import Device, FactKind, Topology, Vendor
from toposeat.topology.catalogue import hint_for_name, machine_path, read_machine_file
from toposeat.topology.drawn import drawn
from toposeat.topology.told import is_whole, makes_machine, told_machine
from toposeat.topology.visible import without_devices

if TYPE_CHECKING:
    from numpy.typing import ArrayLike


_SLOWEST = 1e6  # bytes/s: an array below is in another unit


def read_topology(source: str | Path) -> Topology:
    """Read a topology from anything a user may name.

    It is `this`, a catalogue name, a synthetic string, or the path of a file, whose format is found
    from its content; `-` is standard input. A `Path` is always a file. A text may name several
    sources of the machine, which are merged: `topo.txt -t p2p.txt`.

    Raises:
        InputError: a file that is missing, damaged or of unknown format, with file and line.
        UsageError: a name that means nothing.
        UnavailableError: `this` machine has no GPU.
    """
    return read_topologies([source] if isinstance(source, Path) else sources_in(source))


def read_topologies(sources: Sequence[str | Path]) -> Topology:
    """One machine from several sources of it, merged, and called like the first.

    Tables alone (`nvidia-smi nvlink -s`) are welcome beside a source of links. See `read_topology`.
    """
    if not sources:
        raise UsageError("no topology source is given", hint=_hint())
    return _machine([part for source in sources for part in parts_of(source)], sources[0])


def parse_topology_text(text: str, path: Path) -> Topology:
    """A topology from the text of a file of any known format; `path` is for names and messages."""
    from toposeat.topology.formats import parse_outputs  # noqa: PLC0415 - 30 ms
    from toposeat.topology.readers.file_text import FileText  # noqa: PLC0415 - 4 ms

    return _machine(parse_outputs(FileText(text, path)), path)


def topology_of_rates(rates: ArrayLike) -> Topology:
    """A topology of which only rates are known, as a program holds them.

    Args:
        rates: shape (n, n), bytes per second of one copy alone, row = source, column = target. NaN
            is not known; the diagonal is a copy within the device, infinite where not known.

    Raises:
        InputError: another shape, or numbers that are no rates.
    """
    import numpy as np  # noqa: PLC0415 - 66 ms

    what = "array of rates"
    try:
        values = np.array(rates, np.float64)
        if values.ndim != 2 or values.shape[0] != values.shape[1] or not values.size:
            raise ValueError(f"shape {values.shape}, not (devices, devices)")
        others = values[~np.eye(len(values), dtype=np.bool_)]
        if len(values) > 1 and not (others >= _SLOWEST).any():
            raise ValueError("no pair reaches 1 MB/s")
        own = np.diagonal(values)
        np.fill_diagonal(values, np.where(np.isfinite(own) & (own > 0), own, np.nan))
        devices = [Device(id=f"gpu{at}", index=at) for at in range(len(values))]
        numbers = [PairNumbers(what=BANDWIDTH, values=values)]
        part = told_machine(origin=what, devices=devices, numbers=numbers)
    except (TypeError, ValueError) as error:
        raise InputError(
            f"{what}: {error}", hint="bytes per second, row = source: 25 GB/s is 25e9"
        ) from error
    return replace(_machine([part], what), name=what)


def parts_of(source: str | Path) -> list[Topology]:
    """What one source says, in one part or, where a file holds several outputs, in several."""
    if isinstance(source, Path):
        return _read_path(source)
    text = source.strip()
    if text == "this":
        from toposeat.topology.live.discover import facts_of_this  # noqa: PLC0415 - 50 ms

        return [facts_of_this()]
    if text == "-":
        return _read_path(Path("/dev/stdin"))
    known = machine_path(text)
    if known:
        return [read_machine_file(known)]
    if not text:
        raise UsageError("the topology source is empty", hint=_hint())
    path = Path(source)
    if path_exists(path):
        return _read_path(path)
    # it costs 19 ms
    from toposeat.topology.synthetic import looks_synthetic, synthetic_topology  # noqa: PLC0415

    if looks_synthetic(text):
        return [synthetic_topology(text)]
    if is_shape(text):
        raise UsageError(
            f"{source!r} is a network of hosts, not one machine",
            hint="map onto it: toposeat map TRAFFIC -t NETWORK [--node SRC]; or discover -t it",
        )
    if "/" in text or path.suffix:
        raise InputError("no such file", path=source, hint=_hint())
    raise UsageError(
        f"{source!r} is no file, no catalogue name and no synthetic machine",
        hint=hint_for_name(text),
    )


def _read_path(path: Path) -> list[Topology]:
    if path.suffix == ".toml":
        return [read_machine_file(path)]
    from toposeat.topology.formats import TREES, parse_outputs  # noqa: PLC0415 - 30 ms
    from toposeat.topology.readers.file_text import read_file  # noqa: PLC0415 - 4 ms

    for tree in TREES:
        if tree.looks_like(path):
            return [tree.parse(path)]
    return parse_outputs(read_file(path))


def _machine(parts: Sequence[Topology], source: str | Path) -> Topology:
    """One machine of all parts, called like the first source; `source` is for messages.

    It is as its products have it: no displays, and the device links that none tells.
    """
    path = Path(source)
    is_one = len(parts) == 1 and is_whole(parts[0])
    try:
        facts = parts[0] if is_one else _merged(parts, path)
        if FactKind.DEVICE_LINKS not in facts.tells:
            from toposeat.topology.product_links import with_inferred_links  # noqa: PLC0415 - 20 ms

            facts = with_inferred_links(facts)
        return _without_displays(facts if is_one and facts.routes else drawn(facts))
    except ValueError as error:
        what = "describes no possible machine" if len(parts) == 1 else "cannot be merged"
        raise InputError(
            f"{what}: {error}", path=source, hint="give sources of one and the same machine"
        ) from error


def _merged(parts: Sequence[Topology], path: Path) -> Topology:
    from toposeat.topology.merge import merged  # noqa: PLC0415 - 70 ms

    _check_enough(parts, path)
    return merged(parts, parts[0].name or path.stem or path.name)


def _without_displays(machine: Topology) -> Topology:
    """A machine without GPUs that only drive a display, as in a DGX Station: they are no seats."""
    displays = {d.id: d.name for d in machine.devices if "DGX DISPLAY" in d.name.upper()}
    if len(displays) in (0, len(machine.devices)):
        return machine
    return replace(
        without_devices(machine, displays.keys()),
        report=(
            *machine.report,
            *(
                f"{id} ({name}) drives a display: no rank is placed on it"
                for id, name in displays.items()
            ),
        ),
    )


def _check_enough(parts: Sequence[Topology], path: Path) -> None:
    """Refuse sources that do not say how devices are connected."""
    if any(map(makes_machine, parts)):
        return
    names = ", ".join(dict.fromkeys(each.origin for each in parts))
    if any(each.what == BANDWIDTH and each.both_ways for part in parts for each in part.numbers):
        names = f"{names} without its table of one direction (Unidirectional P2P=Enabled Bandwidth)"
    raise InputError(
        f"{names}: says too little to be a machine by itself",
        path=path,
        hint=f"save what joins the GPUs as well: {_command(parts)}; then: toposeat discover"
        f" -t topo.txt -t {shell_word(path)}",
    )


def _command(parts: Sequence[Topology]) -> str:
    """What shows how GPUs are joined, of their own maker as far as it is told."""
    makers = {device.vendor for part in parts for device in part.devices}
    if makers == {Vendor.AMD}:
        return "amd-smi topology > topo.txt"
    if makers == {Vendor.INTEL}:
        return "xpu-smi topology -m > topo.txt"
    return "nvidia-smi topo -m > topo.txt (AMD: amd-smi topology)"


def _hint() -> str:
    from toposeat.topology.formats import names_of_formats  # noqa: PLC0415 - 30 ms

    return (
        "give one of: this, a catalogue name, tree:2:2:4 and the like, or a file"
        f" ({names_of_formats()})"
    )
