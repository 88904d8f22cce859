"""Placements as files and options of launchers, for jobs that start without toposeat."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from toposeat.errors import UsageError
from toposeat.launch.export import (
    cray,
    environment,
    frameworks,
    hydra,
    kubernetes,
    openmpi,
    ray,
    script,
    slurm_flux,
    torchrun,
)
from toposeat.launch.export.job import DEFAULT_PROGRAM, Export, Job
from toposeat.launch.visibility import VISIBILITIES
from toposeat.model.placement import Placement

EXPORTERS: Mapping[str, tuple[str, Callable[[Job], Export]]] = MappingProxyType(
    {
        "openmpi": ("rankfile of Open MPI 5 (PRRTE)", openmpi.prrte),
        "openmpi4": ("rankfile of Open MPI 4, physical CPU numbers", openmpi.openmpi4),
        "mpich": ("Hydra's host file, -rankmap and -bind-to user", hydra.mpich),
        "intel": ("Intel MPI's machine file and I_MPI_PIN_DOMAIN", hydra.intel),
        "slurm": ("SLURM_HOSTFILE, srun's --cpu-bind and --gpu-bind", slurm_flux.slurm),
        "flux": ("flux run with its task map and shell options", slurm_flux.flux),
        "cray": ("MPICH_RANK_ORDER of Cray MPICH under srun", cray.under_srun),
        "pals": ("mpiexec of PALS, with MPICH_RANK_ORDER", cray.under_pals),
        "aprun": ("aprun of ALPS, with MPICH_RANK_ORDER", cray.under_aprun),
        "torchrun": (
            "torchrun, static rendezvous: node ranks, device order",
            torchrun.static,
        ),
        "torchrun-c10d": (
            "torchrun, c10d rendezvous: addresses that sort as planned",
            torchrun.c10d,
        ),
        "accelerate": ("accelerate launch: machine ranks, device order", frameworks.accelerate),
        "deepspeed": ("DeepSpeed's host file and --include", frameworks.deepspeed),
        "vllm": ("vllm serve: node ranks, device order", frameworks.vllm),
        "sglang": ("sglang.launch_server: node ranks, device order", frameworks.sglang),
        "ray": ("bundles of a Ray placement group in rank order", ray.export),
        "kubernetes": ("pods bound to nodes, with node ranks", kubernetes.export),
        "env": ("one line of device variables for a whole node", environment.export),
        "script": ("a shell script in front of the program, whatever starts it", script.export),
    }
)


def export_placement(
    placement: Placement,
    launcher: str,
    *,
    visibility: str = "permute",
    program: str = DEFAULT_PROGRAM,
) -> Export:
    """The files and the line that realise a placement with a launcher's own means.

    Args:
        placement: seats of all ranks.
        launcher: a key of `EXPORTERS`.
        visibility: one of `VISIBILITIES`, as for `run`.
        program: what the line starts.

    Raises:
        UsageError: no such launcher or mode, or one that cannot express this placement.
    """
    if launcher not in EXPORTERS:
        raise UsageError(
            f"no files for launcher {launcher!r}", hint=f"choose one of {', '.join(EXPORTERS)}"
        )
    if visibility not in VISIBILITIES:
        raise UsageError(
            f"visibility {visibility!r} does not exist", hint="one of " + ", ".join(VISIBILITIES)
        )
    return EXPORTERS[launcher][1](Job.of(placement, visibility, program))


__all__ = ["EXPORTERS", "Export", "export_placement"]
