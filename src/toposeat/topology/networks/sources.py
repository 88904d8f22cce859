"""Which reader a network's source needs, the rates that its user adds, and the hosts of a job."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from toposeat.errors import InputError, UnavailableError, UsageError
from toposeat.model.files import path_exists
from toposeat.model.hostlist import HOSTLIST_HINT, expand_scheduler_list
from toposeat.model.network import Network, NetworkRates
from toposeat.model.shape_text import is_shape
from toposeat.topology.networks.formats import parse_network
from toposeat.topology.networks.source_text import JOB, NETWORK_HINT, options_of, prefix_of
from toposeat.topology.readers.file_text import read_file

_NUMBER = re.compile(r"[0-9]{1,9}(\.[0-9]{1,9})?", re.ASCII)
_JOB_VARIABLES = ("SLURM_JOB_NODELIST", "SLURM_NODELIST", "PBS_NODEFILE", "LSB_DJOB_HOSTFILE")


def read_network(source: str | Path) -> Network:
    """Read a network from anything a user may name.

    Args:
        source: a file, `slurm-job` (the tree above the job that this runs in), or a shape such as
            `fattree:8:16:32`. In front of a file its kind (`slurm:`), behind it
            `,bandwidth=PORT:LEVEL1:...` in GB/s, `,latency=PORT:HOP` in microseconds, `,taper=` and
            `,topology=` for one of several in a topology.yaml.

    Raises:
        InputError: a file that is missing, damaged or of unknown format, with file and line.
        UsageError: options that make no sense.
        UnavailableError: `slurm-job` outside a job.
    """
    text = str(source).strip()
    if is_shape(text):
        from toposeat.topology.networks.shape_network import network_of_shape  # noqa: PLC0415

        return network_of_shape(text)
    prefix, rest = prefix_of(text)
    name, options = options_of(rest)
    rates = _rates(options)
    if name == JOB:
        from toposeat.topology.networks.slurm_job import job_network  # noqa: PLC0415

        return replace(job_network(_hosts_of_job(os.environ), os.environ), rates=rates)
    if not name:
        raise UsageError("the network's source is empty", hint=NETWORK_HINT)
    file = read_file(Path(name))
    wanted = options.get("topology")
    if wanted is not None:
        from toposeat.topology.networks import slurm_yaml  # noqa: PLC0415

        if not slurm_yaml.looks_like(file):
            raise UsageError(f"{name}: topology= is for a Slurm topology.yaml", hint=NETWORK_HINT)
        return replace(slurm_yaml.parse_named(file, wanted), rates=rates)
    return replace(parse_network(file, prefix), rates=rates)


def _rates(options: Mapping[str, str]) -> NetworkRates:
    latencies = _numbers(options, "latency", 1e-6)
    taper = _numbers(options, "taper", 1.0) or (1.0,)
    if len(latencies) not in (0, 2) or len(taper) > 1 or not 1 <= taper[0] <= 1000:
        raise UsageError(
            "latency=PORT:HOP in microseconds, taper= from 1 to 1000", hint=NETWORK_HINT
        )
    return NetworkRates(
        bandwidths_bytes_per_s=_numbers(options, "bandwidth", 1e9),
        taper=taper[0],
        port_latency_s=latencies[0] if latencies else None,
        hop_latency_s=latencies[1] if latencies else None,
    )


def _numbers(options: Mapping[str, str], name: str, unit: float) -> tuple[float, ...]:
    if name not in options:
        return ()
    words = options[name].split(":")
    if not all(_NUMBER.fullmatch(word) for word in words) or len(words) > 16:
        raise UsageError(
            f"{name}={options[name][:40]}: expected numbers such as 25:100", hint=NETWORK_HINT
        )
    values = tuple(float(word) * unit for word in words)
    if name == "bandwidth" and min(values) <= 0:
        raise UsageError("a bandwidth of 0", hint=NETWORK_HINT)
    return values


def hosts_of(text: str, environment: Mapping[str, str] = os.environ) -> tuple[str, ...]:
    """The hosts that `--hosts` names: a hostlist, a file with one a line, or `job`.

    Raises:
        InputError: what is wrong with it.
        UnavailableError: `job` outside a job.
    """
    text = text.strip()
    if text == "job":
        return _hosts_of_job(environment)
    path = Path(text)
    if path_exists(path) and path.is_file():
        return _hosts_of_file(path)
    names = expand_scheduler_list(text)
    if not names:
        raise InputError("no host is named", hint=HOSTLIST_HINT)
    return names


def _hosts_of_file(path: Path) -> tuple[str, ...]:
    file = read_file(path)
    names: dict[str, None] = {}
    for number, line in enumerate(file.lines, start=1):
        word = line.split("#", 1)[0].strip()
        try:  # a machine file may say slots=8, :8 or the like behind a name
            found = expand_scheduler_list(re.split(r"[\s:]", word, maxsplit=1)[0]) if word else ()
        except InputError as error:
            raise InputError(error.message, path=path, line=number, hint=error.hint) from None
        names.update(dict.fromkeys(found))
    if not names:
        raise InputError("no host is named", path=path, hint="one host name per line")
    return tuple(names)


def _hosts_of_job(environment: Mapping[str, str]) -> tuple[str, ...]:
    for name in _JOB_VARIABLES:
        value = environment.get(name)
        if value:
            is_file = name.endswith(("FILE",))
            return _hosts_of_file(Path(value)) if is_file else expand_scheduler_list(value)
    raise UnavailableError(
        "no job: none of " + ", ".join(_JOB_VARIABLES) + " is set",
        hint="name the hosts: --hosts n[01-16]",
    )
