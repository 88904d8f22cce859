"""Which reader a network's source needs, the rates that its user adds, and the hosts of a job."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from toposeat.errors import InputError, UnavailableError, UsageError
from toposeat.model.few import few
from toposeat.model.files import path_exists
from toposeat.model.hostlist import HOSTLIST_HINT, expand_scheduler_list, short_name
from toposeat.model.network import Network, NetworkRates
from toposeat.model.shape_text import is_shape
from toposeat.model.shell_words import sources_in
from toposeat.topology.networks.builder import HostPath, NetworkBuilder
from toposeat.topology.networks.formats import JOB, PREFIXES, network_format_of, parse_network
from toposeat.topology.networks.rails import with_options
from toposeat.topology.readers.file_text import read_file

NETWORK_HINT = (
    "[slurm:|ib:|kubernetes:]FILE[,bandwidth=25:100][,latency=1:0.2][,taper=2][,rails=8][,domain=18]"
    "[,topology=NAME]; see docs/how-to/networks.md"
)
_OPTION = re.compile(r",(bandwidth|latency|taper|rails|domain|topology)=([^,]*)\Z")
_NUMBER = re.compile(r"[0-9]{1,9}(\.[0-9]{1,9})?", re.ASCII)
_JOB_VARIABLES = ("SLURM_JOB_NODELIST", "SLURM_NODELIST", "PBS_NODEFILE", "LSB_DJOB_HOSTFILE")


def is_network(source: str) -> bool:
    """Whether a source is a network: by its prefix, by name, or by what its file begins with.

    A shape is one only together with a node, which the caller knows.
    """
    if len(sources_in(source)) > 1:
        _refuse_networks(sources_in(source))
        return False
    text = source.strip()
    prefix, rest = _prefix_of(text)
    if prefix is not None or _options_of(rest)[0] == JOB:
        return True
    path = Path(_options_of(rest)[0])
    # A pipe can be read once only, and then by whoever reads the machine.
    if not path_exists(path) or not path.is_file():
        return False
    try:
        return network_format_of(read_file(path)) is not None
    except InputError:  # the reader of topologies reports the error
        return False


def _refuse_networks(sources: Sequence[str]) -> None:
    """Refuse sources of one machine that name networks."""
    networks = [each for each in sources if is_shape(each) or is_network(each)]
    if not networks:
        return
    what = "networks of hosts" if len(networks) > 1 else "a network of hosts"
    be = "are" if len(networks) > 1 else "is"
    raise UsageError(
        f"{' and '.join(networks)} {be} {what}, and several -t are sources of one node",
        hint="give one network with -t, and what tells its nodes with --node",
    )


def read_network(source: str | Path) -> Network:
    """Read a network from anything a user may name.

    Args:
        source: a file, `slurm-job` (the tree above the job that this runs in), or a shape such as
            `fattree:8:16:32`. In front of a file its kind (`slurm:`), behind it
            `,bandwidth=PORT:LEVEL1:...` in GB/s, `,latency=PORT:HOP` in microseconds, `,taper=`,
            `,rails=` (see `rails.py`), `,domain=` (so many hosts after each other are joined by
            NVLink) and `,topology=` for one of several in a topology.yaml.
    """
    text = str(source).strip()
    _refuse_networks(sources_in(text) if len(sources_in(text)) > 1 else ())
    if is_shape(text):
        # it costs 40 ms
        from toposeat.topology.networks.shape_network import network_of_shape  # noqa: PLC0415

        return network_of_shape(text)
    prefix, rest = _prefix_of(text)
    name, options = _options_of(rest)
    rates = _rates(options)
    if name == JOB:
        from toposeat.topology.networks.slurm import job_network  # noqa: PLC0415 - 10 ms

        network = replace(job_network(_hosts_of_job(os.environ)), rates=rates)
        return with_options(_told_of_taper(network), options)
    if not name:
        raise UsageError("the network's source is empty", hint=NETWORK_HINT)
    file = read_file(Path(name))
    wanted = options.get("topology")
    if wanted is not None:
        found = network_format_of(file, prefix)
        if found is None or found.reader != "slurm:yaml":
            raise UsageError(f"{name}: topology= is for a Slurm topology.yaml", hint=NETWORK_HINT)
        from toposeat.topology.networks.slurm import parse_yaml  # noqa: PLC0415 - 10 ms

        return with_options(replace(parse_yaml(file, wanted), rates=rates), options)
    return with_options(replace(parse_network(file, prefix), rates=rates), options)


def network_of_hosts(source: str | None, hosts: Sequence[str], *, in_slurm: bool) -> Network:
    """The network above the hosts of a job, in their order.

    Where the user named no source it is what Slurm shows, if it gave the hosts (`in_slurm`), else
    one switch above all.
    """
    from toposeat.topology.networks.slurm import job_network  # noqa: PLC0415 - 10 ms

    if source is not None and _options_of(source.strip())[0] != JOB:
        return allocated(read_network(source), hosts)
    options = {} if source is None else _options_of(source.strip())[1]
    if in_slurm or source is not None:
        try:
            network = replace(job_network(hosts), rates=_rates(options))
            return with_options(network, options)
        except (UnavailableError, InputError) as error:
            if source is not None:
                raise
            why = error.message
    else:
        why = "no source is named with -t"
    builder = NetworkBuilder()
    builder.hang([HostPath(host, ("switch",)) for host in hosts])
    builder.report.append(f"assumed: one switch joins all hosts ({why})")
    return builder.build(name=f"{len(hosts)}-hosts", origin="assumed network")


def _told_of_taper(network: Network) -> Network:
    """With a line on the uplinks where nothing says what they carry, as Slurm never does."""
    if len(network.switches) < 2 or network.rates != NetworkRates():
        return network
    say = f"Slurm does not state what uplinks carry: -t {JOB},taper=2 (or bandwidth=) does"
    return replace(network, report=(*network.report, say))


def _prefix_of(text: str) -> tuple[str | None, str]:
    """The kind in front of a file name, if there is one, and the rest."""
    prefix, colon, rest = text.partition(":")
    if not colon:
        return None, text
    return (prefix, rest) if prefix in PREFIXES else (None, text)


def _options_of(text: str) -> tuple[str, dict[str, str]]:
    """The file name and what stands behind it; a name may have commas of its own."""
    options: dict[str, str] = {}
    while match := _OPTION.search(text):
        if match.group(1) in options:
            raise UsageError(f"{match.group(1)}= is given twice", hint=NETWORK_HINT)
        options[match.group(1)] = match.group(2)
        text = text[: match.start()]
    return text, options


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
    """The hosts that `--hosts` names: a hostlist, a file with one a line, or `job`."""
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
            if name.endswith("FILE"):
                return _hosts_of_file(Path(value))
            return expand_scheduler_list(value)
    raise UnavailableError(
        "no job: none of " + ", ".join(_JOB_VARIABLES) + " is set",
        hint="name the hosts: --hosts n[01-16]",
    )


def allocated(network: Network, names: Sequence[str]) -> Network:
    """The network with these hosts only. Domains and upper case do not tell hosts apart."""
    exact = set(network.host_names)
    loose: dict[str, str | None] = {}
    for name in network.host_names:
        key = short_name(name)
        loose[key] = None if key in loose else name
    found = [name if name in exact else loose.get(short_name(name)) for name in names]
    missing = [name for name, host in zip(names, found, strict=True) if host is None]
    if missing:
        raise InputError(
            f"the network {network.name} has no host {few(missing)}",
            hint=f"its hosts are called like {few(network.host_names[:3])}",
        )
    chosen = [host for host in found if host is not None]
    twice = sorted(host for host, count in Counter(chosen).items() if count > 1)
    if twice:
        raise InputError(f"host {few(twice)} is named twice", hint="name each host once")
    part = network.restricted_to(chosen)
    return replace(
        part,
        hosts=tuple(replace(host, name=name) for host, name in zip(part.hosts, names, strict=True)),
    )
