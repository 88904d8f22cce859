"""One line of variables, for launchers that start all ranks of a node by themselves."""

from __future__ import annotations

from toposeat.errors import UsageError
from toposeat.launch.export.job import Export, Job
from toposeat.model.visible_list import keeps_order, visible_variables


def export(job: Job) -> Export:
    """`CUDA_DEVICE_ORDER=PCI_BUS_ID CUDA_VISIBLE_DEVICES=3,1,2,0`: local rank i takes the i-th.

    Only the job's own devices are listed: such launchers take all that they see.

    Raises:
        UsageError: nodes with different devices, or a vendor without an order.
    """
    if job.visibility != "permute":
        raise UsageError(
            f"--visibility {job.visibility} is different for every rank, or sets nothing: one line"
            " of variables orders the devices of a whole node",
            hint="--visibility permute, or --launcher script",
        )
    own = _devices(job)
    notes = []
    if len(job.seats_of_host) > 1:
        notes.append(
            "for every node alike; the order of nodes is for --launcher torchrun and the like"
        )
    if job.has_cpus or job.names_nics:
        notes.append("variables bind no CPUs and name no NICs; --launcher script does")
    return Export(launcher="env", command=(), environment=_variables(job, own), notes=tuple(notes))


def _devices(job: Job) -> tuple[str, ...]:
    own = job.own_devices_alike()
    counts = {len(seats) for seats in job.seats_of_host.values()}
    if own is None or len(counts) > 1:
        raise UsageError(
            "the nodes have different orders of devices: no one line serves all of them",
            hint="--launcher torchrun or script, which choose by host name",
        )
    return own


def _variables(job: Job, own: tuple[str, ...]) -> dict[str, str]:
    vendor = job.placement.vendor
    found = visible_variables(vendor, own)
    if not found:
        raise UsageError(
            f"no variable orders the devices of vendor {vendor}",
            hint="--launcher script binds the CPUs",
        )
    if not keeps_order(vendor, own):
        raise UsageError(
            f"ZE_AFFINITY_MASK={','.join(own)} chooses these devices, but keeps Level Zero's own"
            " order",
            hint="let the application take its device by local rank; --launcher script binds CPUs",
        )
    return found
