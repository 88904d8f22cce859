"""What a rank gets besides its device: CPUs, memory node and NIC near it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

from toposeat import evaluation
from toposeat.errors import InputError, UsageError
from toposeat.mapping.cpu_share import cores_by_number, share_cpus
from toposeat.model.cpu_list import MAX_CPU, RESERVED, cpus_of, format_cpu_list, parse_cpu_list
from toposeat.model.evaluation import MappingResult
from toposeat.model.nics import choose_nics
from toposeat.model.placement import CORES_KEY, COSTS_KEY, OTHERS_KEY, HostDevice, Placement, Seat
from toposeat.model.processor import CPU_NAME, processor_of
from toposeat.model.topology import ComponentKind, Device, Topology


def seat_ranks(
    topology: Topology,
    traffic_ranks: int,
    device_of_rank: Sequence[int],
    *,
    metadata: Mapping[str, str] | None = None,
) -> Placement:
    """Complete a mapping to a placement.

    CPUs are the near CPUs of the rank's device, within one NUMA node, shared out evenly and
    disjointly among the ranks that have the same ones; where cores had to be guessed for that, the
    metadata says how. The memory node is the device's. The NIC is that of the device among all
    devices that are used (`choose_nics`). What the topology does not know stays None. Where devices
    of a host are not all equally near, the metadata says how near.

    Args:
        topology: the machine.
        traffic_ranks: how many ranks there are.
        device_of_rank: for each rank a position in `topology.devices`; ranks may share one.
        metadata: kept in the placement.
    """
    devices = _devices_of_ranks(topology, traffic_ranks, device_of_rank)
    cpus, guessed = _cpus_of_ranks(topology, devices)
    nics = _nics_of_ranks(topology, devices)
    on_host: Counter[str] = Counter()
    seats = []
    for rank, device in enumerate(devices):
        seats.append(
            Seat(
                rank=rank,
                host=device.host,
                local_rank=on_host[device.host],
                pci_bus_id=device.pci_bus_id,
                uuid=device.uuid,
                index=device.number,
                cpus=cpus.get(rank),
                memory_node=device.numa_node,
                nic=nics.get(rank),
            )
        )
        on_host[device.host] += 1
    vendors = {device.vendor.value for device in devices}
    return Placement(
        seats=tuple(seats),
        devices_of_host=_devices_of_hosts(topology),
        vendor=vendors.pop() if len(vendors) == 1 else "unknown",
        metadata={
            **(metadata or {}),
            **_costs(topology),
            **_others(topology),
            **({CORES_KEY: guessed} if guessed else {}),
            **{key: topology.metadata[key] for key in (RESERVED,) if key in topology.metadata},
        },
    )


def with_reserved_cpus(topology: Topology, cpus: str) -> Topology:
    """The machine with CPUs that no rank is bound to, beside those that are known.

    Raises:
        UsageError: not a list of CPUs.
    """
    try:
        every = cpus_of(topology.metadata.get(RESERVED)).union(parse_cpu_list(cpus))
    except ValueError as error:
        raise UsageError(str(error), hint="CPUs by number: 0,8-9") from error
    return replace(topology, metadata={**topology.metadata, RESERVED: format_cpu_list(every)})


def seat_slots(
    result: MappingResult,
    *,
    metadata: Mapping[str, str],
    node: Topology | None = None,
    own: Sequence[Topology] = (),
) -> Placement:
    """Seat the ranks of every host of a large machine as on a machine of that host alone.

    Local ranks number a host's ranks in rank order, as launchers do. Without `node`, the topology
    of every host, seats have the number of the device alone; with `own`, the same of each host as
    it has said, also its UUID.
    """
    if node is None:
        bare = (Device(id=f"d{at}", index=at) for at in range(result.slots_per_host))
        node = Topology(origin="", devices=tuple(bare))
    ranks_of_host: dict[int, list[int]] = {}
    for rank, slot in enumerate(result.device_of_rank):
        ranks_of_host.setdefault(slot // result.slots_per_host, []).append(rank)
    seats: dict[int, Seat] = {}
    listed: dict[str, tuple[HostDevice, ...]] = {}
    bound: dict[tuple[int, ...], Placement] = {}  # most hosts are seated alike
    last: tuple[HostDevice, ...] = ()
    for host, ranks in sorted(ranks_of_host.items()):
        devices = tuple(result.device_of_rank[rank] % result.slots_per_host for rank in ranks)
        if devices not in bound:
            bound[devices] = seat_ranks(node, len(devices), devices)
        uuids = {device.number: device.uuid for device in own[host].devices} if own else {}
        name = result.hosts[host]
        for rank, seat in zip(ranks, bound[devices].seats, strict=True):
            seats[rank] = replace(seat, rank=rank, host=name, uuid=uuids.get(seat.index))
        if own or not listed:  # hosts that have said nothing share one list
            (any_list,) = bound[devices].devices_of_host.values()
            last = tuple(replace(each, uuid=uuids.get(each.index)) for each in any_list)
        listed[name] = last
    any_host = next(iter(bound.values()))
    return Placement(
        seats=tuple(seats[rank] for rank in range(len(seats))),
        devices_of_host=listed,
        vendor=any_host.vendor,
        metadata={**metadata, **any_host.metadata},
    )


def _costs(topology: Topology) -> dict[str, str]:
    rows = evaluation.costs_within_host(topology)
    return {COSTS_KEY: ";".join(",".join(map(str, row)) for row in rows)} if rows else {}


def _others(topology: Topology) -> dict[str, str]:
    numbers = sorted({device.number for device in topology.others})
    return {OTHERS_KEY: ",".join(map(str, numbers))} if numbers else {}


def _devices_of_ranks(
    topology: Topology, ranks: int, device_of_rank: Sequence[int]
) -> list[Device]:
    positions = [int(device) for device in device_of_rank]
    fits = len(positions) == ranks and all(
        0 <= position < len(topology.devices) for position in positions
    )
    if not fits:
        raise InputError(
            f"expected a device of {topology.name!r} for each of {ranks} ranks",
            hint="map again for this traffic and topology: toposeat map",
        )
    return [topology.devices[position] for position in positions]


def _devices_of_hosts(topology: Topology) -> dict[str, tuple[HostDevice, ...]]:
    return {
        host: tuple(
            HostDevice(index=device.number, pci_bus_id=device.pci_bus_id, uuid=device.uuid)
            for device in sorted((*topology.devices, *topology.others), key=lambda d: d.number)
            if device.host == host
        )
        for host in topology.hosts
    }


def _cpus_of_ranks(topology: Topology, devices: Sequence[Device]) -> tuple[dict[int, str], str]:
    """The CPUs of each rank, and in words what was taken for a core, if that decides them."""
    shares: dict[int, str] = {}
    guessed = ""
    for host in topology.hosts:
        pools = {}
        for rank, device in enumerate(devices):
            pool = _near_cpus(topology, device) if device.host == host else ()
            if pool:
                pools[rank] = pool
        parts = [component for component in topology.components if component.host == host]
        cores = [cpus_of(core) for part in parts for core in part.cores]
        guess = ""
        if not cores and (threads := _threads_in_a_row(topology)) > 1:
            guess = f"{threads} CPUs in a row are taken for one, as on POWER"
            cores = [frozenset(range(at, at + threads)) for at in range(0, MAX_CPU, threads)]
        if not cores:  # by the whole lists: what a site keeps of a core is no reason to cut it
            guess = (
                "the second of two runs of one length holds second threads, else each CPU is one"
            )
            whole = dict.fromkeys(part.cpus for part in parts if part.cpus)
            each = (cores_by_number(parse_cpu_list(listed)) for listed in whole)
            cores = [frozenset(core) for of_node in each for core in of_node]
        caches = [cpus_of(cache) for part in parts for cache in part.caches]
        shared = share_cpus(pools, cores, caches)
        if guess and shared != pools:
            guessed = f"guessed from CPU numbers, since no source tells: {guess}"
        shares.update((rank, format_cpu_list(cpus)) for rank, cpus in shared.items())
    return shares, guessed


def _threads_in_a_row(topology: Topology) -> int:
    """How many CPUs with neighbouring numbers are threads of one core: several on POWER."""
    name, processor = topology.metadata.get(CPU_NAME, "").upper(), processor_of(topology)
    if "POWER" not in name and (processor is None or processor.told[0] != "ppc64"):
        return 1
    return 8 if "POWER8" in name else 4


def _near_cpus(topology: Topology, device: Device) -> tuple[int, ...]:
    """CPUs near a device and inside its NUMA node, as far as both are known.

    Those that the site keeps for itself are left out.
    """
    kept = cpus_of(topology.metadata.get(RESERVED))
    near, node = cpus_of(device.cpus) - kept, _cpus_of_node(topology, device) - kept
    return tuple(sorted(near & node or node or near))


def _cpus_of_node(topology: Topology, device: Device) -> frozenset[int]:
    if device.numa_node is None:
        return frozenset()
    for component in topology.components:
        if (
            component.kind is ComponentKind.NUMA
            and component.host == device.host
            and component.numa_node == device.numa_node
            and component.cpus
        ):
            return cpus_of(component.cpus)
    return frozenset()


def _nics_of_ranks(topology: Topology, devices: Sequence[Device]) -> dict[int, str]:
    chosen = choose_nics(topology, devices).nic_of_device
    return {
        rank: nic.name
        for rank, device in enumerate(devices)
        if (nic := chosen.get(device.id)) is not None and nic.name
    }
