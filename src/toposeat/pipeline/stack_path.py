"""The path of messages between GPUs through the MPI, and the machine as they use it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import zip_longest

import numpy as np
from msgspec import Struct

from toposeat import evaluation, launch, mapping, topology
from toposeat.errors import MissingProgramError, UnavailableError, UsageError
from toposeat.mapping import Machine
from toposeat.model.cpu_list import parse_cpu_list
from toposeat.model.evaluation import MappingResult
from toposeat.model.map_options import MapOptions
from toposeat.model.pair_table import MemorySpace, PairTable, Schedule
from toposeat.model.protocol import Stack, StackKind
from toposeat.model.quantity import WORTH_SAYING, Assumed
from toposeat.model.rank_info import CPU_RANKS
from toposeat.model.topology import CopyProtocol, LinkKind, Topology, Vendor
from toposeat.model.traffic import Traffic
from toposeat.model.transport import NcclSetting, nccl_setting
from toposeat.pipeline.placing import open_machine
from toposeat.pipeline.transport import as_nccl_is_set

DIRECT = "direct"  # the name for copies straight between GPUs, without a stack
_UNTOLD = "the MPI is not known: no launch line and no --stack"


class StackPath(Struct, frozen=True, kw_only=True):
    """The stack that predictions are made for; without one, copies go straight between GPUs.

    `untold` says why no stack is known; it is "" where direct copies were asked for. `nccl` is what
    a variable says of NCCL, whose groups take another path than the MPI's messages.
    """

    stack: Stack | None = None
    untold: str = ""
    nccl: NcclSetting | None = None

    @property
    def name(self) -> str:
        """The name that `--stack` takes; "" if the stack is not known."""
        if self.stack is not None:
            return self.stack.kind.value
        if self.nccl is not None:
            return self.nccl.text
        return "" if self.untold else DIRECT

    def in_environment(self, variables: Mapping[str, str]) -> StackPath:
        """The path of a job with these variables, on the machine where they are set."""
        return StackPath(stack=self.stack, untold=self.untold, nccl=nccl_setting(variables))

    def listed(self, machine: Machine, options: MapOptions) -> Topology | None:
        """The machine with all devices, where a mapping is on that form: a stack needs it."""
        return machine.listed(options, wanted=self.stack is not None or self.nccl is not None)

    def is_staged(self, traffic: Traffic) -> bool:
        """Whether the stack sends the typical message between GPUs through host memory."""
        if self.stack is None or traffic.mapped_space is not MemorySpace.DEVICE:
            return False
        rule = self.stack.rule
        return rule.protocol_of(evaluation.typical_bytes(traffic)) is CopyProtocol.STAGED

    def machine_for(
        self, machine: Topology, traffic: Traffic, schedule: Schedule | None = None
    ) -> Topology:
        """The machine as the stack uses it for this traffic.

        A staged message takes the links to host memory and back, and other messages the routes as
        they are.

        Args:
            machine: as it was read.
            traffic: whose messages count.
            schedule: the phases that the traffic is the sum of, if it has any.
        """
        if traffic.groups:
            machine = as_nccl_is_set(machine, self.nccl)
        if not self.is_staged(traffic):
            return machine
        _, factor, _ = self._staging_times(traffic, schedule)
        return evaluation.slowed(topology.through_host_memory(machine), factor)

    def open_for(
        self,
        machine: evaluation.OpenMachine,
        traffic: Traffic,
        schedule: Schedule | None = None,
    ) -> evaluation.OpenMachine:
        """A machine with what its sources leave open, as `machine_for` makes each of them."""
        return machine.used_as(
            lambda each: self.machine_for(each, traffic, schedule), of_groups=self.nccl is None
        )

    def _staging_times(
        self, traffic: Traffic, schedule: Schedule | None = None
    ) -> tuple[float, float, float]:
        phases = [traffic.mapped_table()] if schedule is None else schedule.phases
        return evaluation.staging_times(
            evaluation.typical_bytes(traffic),
            0 if self.stack is None else self.stack.piece_bytes,
            max(map(_partners, phases), default=1),
        )

    def notes(
        self, traffics: Sequence[Traffic], schedules: Sequence[Schedule] = ()
    ) -> tuple[str, ...]:
        """Notes for readers of predictions, if some messages do not take the direct path.

        Args:
            traffics: one, or those of one pattern for several message sizes.
            schedules: of each, if they have phases.
        """
        if self.nccl is not None and any(traffic.groups for traffic in traffics):
            return (self.nccl.note,)
        pairs = zip_longest(traffics, schedules)
        staged = [(traffic, phases) for traffic, phases in pairs if self.is_staged(traffic)]
        if self.stack is None or not staged:
            return ()
        few = "" if len(staged) == len(traffics) else f" at {len(staged)} of {len(traffics)} sizes"
        said = f"{_words(self.stack)}{few}: predicted on that path; {_ADVISE}"
        apart = [self._staging_times(*each) for each in staged]
        most = max((high - taken) / taken for _, taken, high in apart)
        order = (
            f"staged messages take up to {most:.0%} less or more than predicted, by the order in"
            " which the program sends them"
        )
        return (said, order) if round(most, 2) else (said,)

    def assumed(
        self, machine: Topology, traffic: Traffic, result: MappingResult
    ) -> tuple[Assumed, ...]:
        """The premise of a mapping on the direct path that the MPI does not stage messages.

        Empty where the stack is known or plays no part.
        """
        before, after = result.default.predicted_s, result.placed.predicted_s
        if not self.untold or traffic.mapped_space is not MemorySpace.DEVICE or not after:
            return ()
        staged = evaluation.Evaluator(topology.through_host_memory(machine), traffic)
        staged_before, staged_after = (
            staged.predicted_s(each.device_of_rank) for each in (result.default, result.placed)
        )
        if not staged_after:
            return ()
        found = Assumed(
            what="stack",
            low=min(1.0, staged_after / after),
            nominal=1.0,
            high=max(1.0, staged_after / after),
            unit="times as long as direct copies",
            source=f"{self.untold}; an MPI may send through host memory",
            decides=staged_after / staged_before - after / before > WORTH_SAYING,
        )
        return (found,)


_ADVISE = "`toposeat advise` looks for settings that are faster"


def map_on_path(
    machine: Machine,
    traffic: Traffic,
    options: MapOptions,
    path: StackPath,
    *,
    progress: Callable[[str, float], None] | None = None,
) -> MappingResult:
    """Place ranks on the machine as the stack uses it, by the solvers that its size allows.

    See `mapping.map_traffic` and, for what cannot be listed, `mapping.map_to_shape`, whose search
    `progress` follows.
    """
    topology = path.listed(machine, options)
    options = with_cpu_ranks(options, topology, traffic)
    if topology is None:
        assert machine.shape is not None, "a machine has one form or both"
        return mapping.map_to_shape(machine.shape, traffic, options, progress=progress)
    machines = path.open_for(open_machine(topology), traffic)
    used = machines.nominal.topology
    shape = machine.shape if used is topology else None  # whose links carry what is staged, too
    result = mapping.map_traffic(used, traffic, options, machine=machines, shape=shape)
    premises = result.premises
    assert premises is not None, "a placement that was searched for has its premises"
    assumed = path.assumed(topology, traffic, result)
    premises = replace(premises, assumed=(*premises.assumed, *assumed))
    notes = (*result.notes, *path.notes([traffic]))
    return replace(result, premises=premises, notes=notes)


def with_cpu_ranks(options: MapOptions, topology: Topology | None, traffic: Traffic) -> MapOptions:
    """With the ranks that loaded no GPU driver, where devices are too few and nobody says more."""
    told, own = traffic.metadata.get(CPU_RANKS, ""), options.constraints
    if not told or topology is None or own.cpu_ranks or own.slots or len(topology.hosts) > 1:
        return options
    usable = len(own.devices or topology.devices) - len(set(own.exclude))
    if traffic.ranks <= usable:
        return options
    return replace(options, constraints=replace(own, cpu_ranks=parse_cpu_list(told)))


def assess(
    machine: Machine,
    traffic: Traffic,
    placements: Sequence[Sequence[int]],
    *,
    path: StackPath | None = None,
    metric: str = "bandwidth",
    default: Sequence[int] | None = None,
    wanted: bool = False,
) -> tuple[MappingResult, ...]:
    """Given placements beside the default, in the form of mapping results without a proof.

    Without a `path` copies go straight between GPUs. `default` is one that options made another
    than the usual one; `wanted`: on listed devices, wherever there are any.
    """
    path = path or StackPath()
    shape = machine.shape
    topology = machine.topology if wanted else path.listed(machine, MapOptions(metric=metric))
    if topology is None:
        assert shape is not None, "a machine has one form or both"
        return mapping.assess(shape, traffic, placements)
    machines = path.open_for(open_machine(topology), traffic)
    return mapping.assess(
        machines.nominal.topology,
        traffic,
        placements,
        metric=metric,
        open_machine=machines,
        shape=shape if machines.nominal.topology is topology else None,
        default=default,
    )


def path_of_stack(
    name: str | None,
    command: Sequence[str] | None,
    machine: Topology | None,
    ranks: int,
    *,
    environment: Mapping[str, str],
) -> StackPath:
    """Find the stack by its name, else by the launch line, as it behaves on a machine.

    Args:
        name: of `StackKind`, "direct", a setting of NCCL, or None.
        command: the launch line with its program, None without one.
        machine: with its GPUs; None where they cannot be listed: then no stack is known.
        ranks: of the job.
        environment: of the job.
    """
    if name == DIRECT:
        return StackPath()
    if name is not None and name.startswith("NCCL_"):
        return StackPath(untold=_UNTOLD, nccl=_named_setting(name))
    if machine is None and name is not None:
        raise mapping.needs_devices("--stack")
    if name is not None and machine is not None:
        return StackPath(stack=on_machine(launch.named_stack(name, environment), machine, ranks))
    if command is None or machine is None:
        return StackPath(untold=_UNTOLD)
    try:
        return StackPath(stack=on_machine(launch.stack_of(command, environment), machine, ranks))
    except (UsageError, MissingProgramError) as error:
        return StackPath(untold=error.message)


def _named_setting(text: str) -> NcclSetting:
    variable, _, value = text.partition("=")
    setting = nccl_setting({variable: value})
    if setting is None:
        raise UsageError(
            f"--stack knows no setting {text[:40]!r}",
            hint="NCCL_P2P_LEVEL=LOC, NVL, PIX, PXB, PHB or SYS, or NCCL_P2P_DISABLE=1",
        )
    return setting


def check_gpu_aware(command: Sequence[str], *, environment: Mapping[str, str]) -> None:
    """Refuse a run with device buffers whose MPI takes none: it would end in a segmentation fault.

    Raises:
        UnavailableError: this MPI takes no device buffers.
        UsageError: a launch line that cannot be parsed.
        MissingProgramError: the launcher does not exist.
    """
    why = launch.why_not_gpu_aware(command, environment)
    if why:
        raise UnavailableError(
            f"this MPI is not GPU-aware: {why}",
            hint="load a GPU-aware MPI (docs/how-to/choose-a-protocol.md), or use host buffers",
        )


def on_machine(stack: Stack, machine: Topology, ranks: int) -> Stack:
    """The stack as it is expected to behave with `ranks` ranks on the GPUs of a machine."""
    known = {Vendor.NVIDIA, Vendor.UNKNOWN}
    known |= {Vendor.INTEL} if stack.kind is StackKind.INTEL_MPI else set()
    others = {device.vendor for device in machine.devices} - known
    if others:
        raise UsageError(
            f"{machine.name} has GPUs of {', '.join(sorted(each.value for each in others))}; the"
            " known settings are for NVIDIA GPUs",
            hint="leave --stack out: copies then go straight between GPUs",
        )
    has_nvlink = any(link.kind is LinkKind.NVLINK for link in machine.links)
    untold = launch.NVLINK_GPU if has_nvlink else ""
    names = [device.name or untold for device in machine.devices]
    return launch.for_devices(stack, names, -(-ranks // len(machine.hosts)))


def _words(stack: Stack) -> str:
    """`openmpi-ucx 4.1.4 sends through host memory, not straight between GPUs (assumed: ...)`."""
    name = " ".join(filter(None, (stack.kind.value, stack.version)))
    why = stack.statements[-1] if stack.statements else None
    said = f" ({why.basis.value}: {why.text})" if why else ""
    return f"{name} sends through host memory, not straight between GPUs{said}"


def _partners(table: PairTable) -> int:
    """The most partners that any rank sends to."""
    other = table.source != table.target
    return int(np.bincount(table.source[other]).max(initial=0))
