"""The records of a run, of its MPI and its PyTorch, as they lie in folders."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from toposeat.model.job_folder import RECORD_SUFFIX, TORCH_SUFFIX
from toposeat.model.traffic import Traffic
from toposeat.profile.records.joined import joined
from toposeat.profile.records.merge import Progress, read_records
from toposeat.profile.records.torch_job import read_torch_records


def a_record(folder: Path) -> Path | None:
    """Some record in a folder."""
    kinds = (folder.glob(f"*{suffix}") for suffix in (RECORD_SUFFIX, TORCH_SUFFIX))
    return next((path for found in kinds for path in found), None)


def read_folders(*folders: Path, progress: Progress | None = None) -> Traffic:
    """The traffic of one run, of both recorders where both left records."""
    if not any(True for folder in folders for _ in folder.glob(f"*{TORCH_SUFFIX}")):
        return read_records(*folders, progress=progress)
    torch = read_torch_records(*folders)
    if not any(True for folder in folders for _ in folder.glob(f"*{RECORD_SUFFIX}")):
        return torch
    mpi = read_records(*folders, progress=progress)
    if mpi.ranks == torch.ranks:
        return joined(mpi, torch)
    left = f"PyTorch alone: {torch.ranks} of its ranks, where MPI had {mpi.ranks}"
    return replace(torch, report=(*torch.report, left))
