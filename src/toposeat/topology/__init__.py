"""Topology sources: one reader per source, live discovery, the catalogue of known machines."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toposeat.door import door

if TYPE_CHECKING:
    from toposeat.topology.catalogue import (
        built_in_machines,
        catalogue_names,
        machine_path,
        near_machines,
        own_machines,
    )
    from toposeat.topology.fabric_domain import with_told_domains
    from toposeat.topology.graph.routes import with_peer_access
    from toposeat.topology.graph.staged_routes import through_host_memory, with_nccl_copies
    from toposeat.topology.guest import with_guest
    from toposeat.topology.health.checks import findings_of
    from toposeat.topology.health.findings import finding
    from toposeat.topology.health.wiring import wiring_of
    from toposeat.topology.live.discover import discover_this
    from toposeat.topology.live.peer_paths import findings_of_paths
    from toposeat.topology.nccl_file import nccl_xml
    from toposeat.topology.networks.same_places import hosts_in_same_places
    from toposeat.topology.networks.sources import (
        allocated,
        hosts_of,
        is_network,
        network_of_hosts,
        read_network,
    )
    from toposeat.topology.products import kind_of
    from toposeat.topology.scenarios import facts_of
    from toposeat.topology.sources import (
        parse_topology_text,
        read_topologies,
        read_topology,
        topology_of_rates,
    )
    from toposeat.topology.told import FOUND
    from toposeat.topology.topology_file import (
        parse_topology,
        save_topology,
        topology_document,
        topology_text,
    )
    from toposeat.topology.untold import knowledge_of, untold_pairs
    from toposeat.topology.visible import (
        own_part,
        part_of_job,
        said_of_lists,
        visible_part,
        without_devices,
    )
else:
    __getattr__ = door(__name__, __file__)
