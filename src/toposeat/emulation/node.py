"""An emulated node that processes can be started on: a private folder and an environment."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from toposeat.installed import native_path
from toposeat.model.files import beginning
from toposeat.model.job_folder import job_folder

_MACHINE = "TOPOSEAT_EMULATED_MACHINE"
_TEXT = "TOPOSEAT_EMULATED_TEXT"
_MOST_TEXT = 100_000  # characters: Linux allows 128 KiB per variable
# What a job's processes need on every node.
VARIABLES = (_MACHINE, _TEXT, "LD_LIBRARY_PATH", "CUDA_DEVICE_ORDER")


@dataclass(frozen=True)
class EmulatedNode:
    """A machine file, the libraries, and what processes need in their environment."""

    machine: Path
    libraries: Path

    def environment(self, base: Mapping[str, str]) -> dict[str, str]:
        """`base` with the stand-in first on the library path, and its machine file named.

        The text of the file goes along: the first process on another node writes it there.
        """
        path = base.get("LD_LIBRARY_PATH", "")
        text = self.machine.read_text(encoding="ascii")
        carried = {} if len(text) > _MOST_TEXT else {_TEXT: text.replace("\n", ";")}
        return {
            **base,
            **carried,
            "LD_LIBRARY_PATH": f"{self.libraries}{os.pathsep + path if path else ''}",
            _MACHINE: str(self.machine),
            "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        }


@contextmanager
def emulated_node(text: str) -> Iterator[EmulatedNode]:
    """An emulated node that exists as long as the block.

    Args:
        text: of its machine file (`machine_text`).
    """
    libraries = native_path("emulator/libcuda.so.1").parent
    with job_folder("emulated", memory=True) as folder:
        machine = folder / "machine"
        machine.write_text(text, encoding="ascii")
        yield EmulatedNode(machine, libraries)


def emulated_machine(environment: Mapping[str, str]) -> str:
    """Name of the machine that is emulated for programs with this environment, else empty."""
    if not environment.get(_MACHINE):
        return ""
    return next(_told(environment, "name"), "unknown")


def emulated_processor(environment: Mapping[str, str]) -> dict[str, str]:
    """The processor of that machine as metadata, as far as it is known."""
    words = (line.partition(" ") for line in _told(environment, "processor"))
    return {key: told for key, _, told in words}


def _told(environment: Mapping[str, str], what: str) -> Iterator[str]:
    """The rest of each line of the machine file's head that begins with this word."""
    carried = environment.get(_TEXT, "").partition("channel")[0].split(";")[1:]
    path = environment.get(_MACHINE, "")
    lines = carried or beginning(path, 4096).decode("ascii", "replace").splitlines()[:10]
    return (line.removeprefix(f"{what} ") for line in lines if line.startswith(f"{what} "))
