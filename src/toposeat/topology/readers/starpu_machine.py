"""All bus files of one machine by one name: StarPU's prefix (`bus/sirocco`), or their folder."""

from __future__ import annotations

from pathlib import Path

from toposeat.errors import InputError
from toposeat.model.files import path_exists

# The order of the parts: the graph first, then what is laid over it. The counts are read with them.
_PARTS = (".platform.xml", ".bandwidth", ".latency", ".affinity")
_MARK = ".bandwidth"
_MAX_NAMES = 10_000


def files_of_machine(path: Path) -> list[Path]:
    """The files that `path` stands for; none if it is no such name.

    Args:
        path: the common beginning of the files' names, or the folder of one machine's files.

    Raises:
        InputError: a folder with the files of several machines.
    """
    if path_exists(path) and path.is_dir():
        names = _machines(path)
        if len(names) > 1:
            raise InputError(
                f"StarPU's files of {len(names)} machines: {', '.join(names[:8])}",
                path=path,
                hint=f"name one of them: {path / names[0]}",
            )
        return _files(path / names[0]) if names else []
    if path_exists(path):
        return []
    found = _files(path)
    return found if any(f.name.endswith((_MARK, ".platform.xml")) for f in found) else []


def _machines(folder: Path) -> list[str]:
    try:
        names = [e.name for e, _ in zip(folder.iterdir(), range(_MAX_NAMES), strict=False)]
    except OSError:
        return []
    return sorted(name.removesuffix(_MARK) for name in names if name.endswith(_MARK))


def _files(prefix: Path) -> list[Path]:
    if not prefix.name:
        return []
    files = (prefix.with_name(prefix.name + part) for part in _PARTS)
    return [file for file in files if path_exists(file)]
