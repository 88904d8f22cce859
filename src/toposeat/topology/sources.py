"""Which reader a topology source needs: this machine, the catalogue, a synthetic string, a file."""

from __future__ import annotations

from pathlib import Path

from toposeat.errors import InputError, UsageError
from toposeat.model.topology import Topology
from toposeat.model.topology_file import parse_topology
from toposeat.topology.catalogue import catalogue_names, catalogue_topology, hint_for_name
from toposeat.topology.graph.relation_graph import topology_of_relations
from toposeat.topology.live.discover import discover_this
from toposeat.topology.readers.hwloc_xml import looks_like_hwloc_xml, topology_of_hwloc_tree
from toposeat.topology.readers.nccl_xml import looks_like_nccl_xml, topology_of_nccl_tree
from toposeat.topology.readers.nvidia_smi_topo import looks_like_topo_matrix, parse_topo_matrix
from toposeat.topology.readers.xml_tree import parse_xml
from toposeat.topology.synthetic import looks_synthetic, synthetic_topology

MAX_BYTES = 64 * 1024 * 1024
_FORMATS = "toposeat topology JSON, nvidia-smi topo -m text, hwloc, NCCL or RCCL XML"
_HINT = f"give one of: this, a catalogue name, tree:2:2:4 and the like, or a file ({_FORMATS})"


def read_topology(source: str | Path) -> Topology:
    """Read a topology from anything a user may name.

    Args:
        source: `this`, a catalogue name, a synthetic string, or the path of a file, whose format is
            found from its content. A `Path` is always a file.

    Raises:
        InputError: a file that is missing, damaged or of unknown format, with file and line.
        UsageError: a name that means nothing.
        UnavailableError: `this` machine has no GPU.
    """
    if isinstance(source, Path):
        return _read_file(source)
    text = source.strip()
    if text == "this":
        return discover_this()
    if text.lower() in catalogue_names():
        return catalogue_topology(text.lower())
    if not text:
        raise UsageError("the topology source is empty", hint=_HINT)
    path = Path(source)
    if _exists(path):
        return _read_file(path)
    if looks_synthetic(text):
        return synthetic_topology(text)
    if "/" in text or path.suffix:
        raise InputError("no such file", path=source, hint=_HINT)
    raise UsageError(
        f"{source!r} is no file, no catalogue name and no synthetic machine",
        hint=hint_for_name(text),
    )


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except (OSError, ValueError):  # a name too long or with a NUL is no file
        return False


def _read_file(path: Path) -> Topology:
    return parse_topology_text(_read_text(path), path)


def parse_topology_text(text: str, path: Path) -> Topology:
    """A topology from the text of a file of any known format; `path` is for names and messages.

    Raises:
        InputError: damaged, or of unknown format, with file and line.
    """
    try:
        return _parse_text(text, path)
    except ValueError as error:  # a noun refused what the file says: an id twice, a bandwidth of -1
        raise InputError(
            f"describes no possible machine: {error}",
            path=path,
            hint="is the file complete and unedited? save it again with the tool that wrote it",
        ) from error


def _parse_text(text: str, path: Path) -> Topology:
    start = text.lstrip("\ufeff \t\r\n")
    if start.startswith("{"):
        return parse_topology(text, path)
    if not start or looks_like_topo_matrix(text):
        matrix = parse_topo_matrix(text, path=path)
        return topology_of_relations(
            matrix, name=path.stem or path.name, origin="nvidia-smi topo -m text"
        )
    if start.startswith("<"):
        return _parse_xml_topology(text, path)
    raise InputError(
        f"unknown format: neither of {_FORMATS}",
        path=path,
        hint="save one on the GPU node: toposeat discover -o FILE, or nvidia-smi topo -m > FILE",
    )


def _parse_xml_topology(text: str, path: Path) -> Topology:
    root = parse_xml(text, path)
    if looks_like_nccl_xml(root):
        return topology_of_nccl_tree(root, path)
    if looks_like_hwloc_xml(root):
        return topology_of_hwloc_tree(root, path)
    raise InputError(
        f"XML of an unknown kind: its root is <{root.tag[:30]}>",
        path=path,
        line=root.line,
        hint=f"formats known: {_FORMATS}",
    )


def _read_text(path: Path) -> str:
    """The file as text; Windows' UTF-16 is understood, binary content refused."""
    try:
        with path.open("rb") as handle:
            data = handle.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise InputError(f"cannot read: {reason}", path=path, hint=_HINT) from error
    if len(data) > MAX_BYTES:
        raise InputError(
            f"larger than {MAX_BYTES >> 20} MiB: not a topology", path=path, hint=_HINT
        )
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        try:
            return data.decode("utf-16")
        except UnicodeDecodeError:
            raise InputError("damaged UTF-16 text", path=path, hint=_HINT) from None
    if b"\0" in data:
        raise InputError("binary content: not a topology", path=path, hint=_HINT)
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise InputError("not UTF-8 text", path=path, line=line, hint=_HINT) from None
