"""The network above the Slurm job that this process runs in."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from toposeat.errors import InputError, UnavailableError
from toposeat.model.network import Network
from toposeat.topology.networks import slurm_conf
from toposeat.topology.networks.builder import NetworkBuilder, few
from toposeat.topology.networks.paths import network_of_paths
from toposeat.topology.networks.slurm_address import address_path
from toposeat.topology.readers.file_text import FileText

_TIMEOUT_S = 20


def job_network(hosts: Sequence[str], environment: Mapping[str, str]) -> Network:
    """The network above the running job: what scontrol shows of it, else this node's address.

    Raises:
        InputError: scontrol does not show all its hosts, or what it shows is damaged.
        UnavailableError: nothing tells of all its hosts.
    """
    if shutil.which("scontrol"):
        network = slurm_conf.parse(FileText(_scontrol(), Path("scontrol show topology")))
        known = set(network.host_names)
        missing = [host for host in hosts if host not in known]
        if not missing:
            return network.restricted_to(hosts)
        raise InputError(
            f"scontrol shows no switch above {few(missing)}", hint="give the network as a file"
        )
    address = environment.get("SLURM_TOPOLOGY_ADDR")
    if address is None or len(hosts) > 1:
        raise UnavailableError(
            "SLURM_TOPOLOGY_ADDR tells of one node only, and there is no scontrol",
            hint="srun --ntasks-per-node=1 env | grep SLURM_TOPOLOGY_ADDR > ADDR; -t ADDR",
        )
    builder = NetworkBuilder()
    pattern = environment.get("SLURM_TOPOLOGY_ADDR_PATTERN")
    path = address_path(builder, address, pattern, None)
    return network_of_paths(builder, [path], name="slurm-job", origin="SLURM_TOPOLOGY_ADDR")


def _scontrol() -> str:
    try:
        done = subprocess.run(
            ["scontrol", "show", "topology"],
            capture_output=True,
            text=True,
            timeout=_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired, UnicodeDecodeError) as error:
        raise UnavailableError(
            f"scontrol show topology: {error}", hint="give the network as a file"
        ) from None
    if done.returncode or not done.stdout.strip():
        cause = (done.stderr.strip().splitlines() or ["it prints nothing"])[0]
        raise UnavailableError(
            f"scontrol show topology: {cause[:120]}", hint="give the network as a file"
        )
    return done.stdout
