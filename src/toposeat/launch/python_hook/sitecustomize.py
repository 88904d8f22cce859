"""Seats or observes a Python program when it starts.

Python imports `sitecustomize` when it starts, from the first folder of its search path that has
one: this folder, which toposeat puts in front of PYTHONPATH. The folder is taken off the search
path at once, and the program's own `sitecustomize`, if there is one, is run as if this one were not
there. Only the standard library is used, and of toposeat what uses nothing else: the program's
Python may be another one. No error of this file reaches the program.

Under `run` a process that has a LOCAL_RANK starts anew through toposeat-exec, which seats it;
another one is seated when it joins a process group of PyTorch (`own_rank.py`). A rank that is
seated is looked at where it has made one (`looking.py`). Under `profile` the
recorder is let into `torch.distributed` when that is imported, and where toposeat-exec keeps the
records on this node, a Python that ends sends them home if it is the last one.
"""

from __future__ import annotations

import atexit
import functools
import json
import os
import sys
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import module_from_spec, spec_from_file_location
from types import ModuleType
from typing import Any

_HERE = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120
_WATCHED = "torch.distributed.distributed_c10d"
_TRUST = os.path.join(_HERE, "..", "..", "model", "trust.py")  # noqa: PTH118


class _Loader:
    """The loader of a module, with something done after the module has run."""

    def __init__(self, real: Any) -> None:
        self._real = real

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        found: ModuleType | None = self._real.create_module(spec)
        return found

    def exec_module(self, module: ModuleType) -> None:
        spec = module.__spec__
        if spec is not None:
            spec.loader = module.__loader__ = self._real
        self._real.exec_module(module)
        _watch(module)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)


class _Finder:
    """Finds the watched module where it is, and leaves all others to the finders after it."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        if name != _WATCHED:
            return None
        sys.meta_path.remove(self)
        spec = PathFinder.find_spec(name, path, target)
        if spec is not None and hasattr(spec.loader, "exec_module"):
            spec.loader = _Loader(spec.loader)  # type: ignore[assignment]
        return spec


def _module_at(path: str, name: str) -> Any:
    """A file of toposeat, whose package this Python may not have, as a module."""
    spec = spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def _watch(module: ModuleType) -> None:
    """Let the recorder, and what seats ranks, into `torch.distributed`, or say why not."""
    files = {
        "TOPOSEAT_PROFILE_DIR": "recorder",
        "TOPOSEAT_SEAT": "own_rank",
        "TOPOSEAT_RANK": "looking",
    }
    for variable, name in files.items():
        if not os.environ.get(variable):
            continue
        try:
            path = os.path.join(_HERE, f"{name}.py")  # noqa: PTH118
            _module_at(path, f"toposeat_torch_{name}").watch(module)
        except Exception as error:
            print(f"toposeat: torch.distributed is not watched: {error!r}", file=sys.stderr)  # noqa: T201


def _is_here(entry: str) -> bool:
    try:
        return os.path.samefile(entry or ".", _HERE)  # noqa: PTH121
    except OSError:
        return False


def _run_own() -> None:
    """Run the program's own `sitecustomize`, which the one of this folder hides."""
    sys.path[:] = [entry for entry in sys.path if not _is_here(entry)]
    hidden = sys.modules.pop("sitecustomize", None)
    spec = PathFinder.find_spec("sitecustomize")
    if spec is None or spec.loader is None:
        if hidden is not None:
            sys.modules["sitecustomize"] = hidden
        return
    module = module_from_spec(spec)
    sys.modules["sitecustomize"] = module
    spec.loader.exec_module(module)


def _take_seat() -> None:
    """Start anew through toposeat-exec, once, where this process is a rank."""
    if not os.environ.get("LOCAL_RANK", "").isdecimal():
        return
    words = os.environ.pop("TOPOSEAT_SEAT", "")
    if not words:
        return
    try:
        with open("/proc/self/cmdline", "rb") as file:  # noqa: PTH123
            arguments = file.read().split(b"\0")[1:-1]
        start = [os.fsencode(word) for word in json.loads(words)]
        os.execv(start[0], [*start, b"--", os.fsencode(sys.executable), *arguments])
    except (OSError, ValueError) as error:
        print(f"toposeat: this rank is not seated: {error}", file=sys.stderr)  # noqa: T201


def _leave(process: int, folder: str, run: str, command: str, home: str) -> None:
    """Mark that this process records no more, and send the node's records home after the last."""
    if os.getpid() != process:  # a fork
        return
    try:
        trust = _module_at(_TRUST, "toposeat_trust")
        own = trust.own_folder(folder)
        try:
            os.close(trust.own_file(f".run-{run}", own))
            return  # this node sees where they are read
        except FileNotFoundError:
            names = os.listdir(own)  # noqa: PTH208
        if any(name.endswith(f"-{process}.tpsrec") for name in names):
            return  # the interposer does this when the process ends
        for name in names:
            if name.endswith(f"-{process}.tpstorch"):
                os.close(trust.make_mark(own, name[: -len(".tpstorch")] + ".left"))
        words = [command, "--leave", f"{run}:{home}"]
        os.waitpid(os.posix_spawn(command, words, os.environ), 0)
    except OSError as error:
        print(f"toposeat: records stay on this node: {error}", file=sys.stderr)  # noqa: T201


def _leave_at_end() -> None:
    names = ("DIR", "RUN", "EXEC", "HOME")
    words = [os.environ.get(f"TOPOSEAT_PROFILE_{name}", "") for name in names]
    if all(words):
        atexit.register(functools.partial(_leave, os.getpid(), *words))


_take_seat()
if any(os.environ.get(f"TOPOSEAT_{name}") for name in ("PROFILE_DIR", "SEAT", "RANK")):
    sys.meta_path.insert(0, _Finder())
_leave_at_end()
_run_own()
