"""All file formats that describe a network of hosts; `topology.formats` has those of machines."""

from __future__ import annotations

import re
from dataclasses import dataclass

from toposeat.errors import InputError
from toposeat.model.network import Network
from toposeat.topology.readers.file_text import FileText
from toposeat.topology.registry import Registered


@dataclass(frozen=True, kw_only=True, slots=True)
class NetworkFormat(Registered):
    """One kind of file, known by its `words`; `prefix` in front of a file name asks for it."""

    package = "toposeat.topology.networks"
    flags = re.MULTILINE

    prefix: str

    def parse(self, file: FileText) -> Network:
        """The network that the file describes."""
        network: Network = self.function("parse")(file)
        return network


NETWORK_FORMATS: tuple[NetworkFormat, ...] = (
    NetworkFormat(
        name="Kubernetes nodes",
        prefix="kubernetes",
        command="kubectl get nodes -o json > FILE",
        tells="labels that clouds, Topograph and Kueue give to nodes; NVLink domains; no rates",
        reader="kubernetes",
        words=r'\A\{\s*"(?:apiVersion|kind)"\s*:|\A\{\s*"items"\s*:\s*\[',
    ),
    NetworkFormat(
        name="Slurm topology.conf",
        prefix="slurm",
        command="the file beside slurm.conf, or scontrol show topology",
        tells="tree of switches, or blocks; no rates",
        reader="slurm",
        words=r"^[ \t]*(?i:SwitchName|BlockName)[ \t]*=",
    ),
    NetworkFormat(
        name="Slurm topology.yaml",
        prefix="slurm",
        command="the file beside slurm.conf",
        tells="tree, blocks, rings or 3-D tori; no rates",
        reader="slurm:yaml",
        words=r"^[ \t]*-?[ \t]*topology[ \t]*:",
    ),
    NetworkFormat(
        name="ibnetdiscover",
        prefix="ib",
        command="ibnetdiscover > FILE, or ibnetdiscover --ports",
        tells="every switch, cable and adapter with its rate",
        reader="ibnetdiscover",
        words=r"^(?i:(?:Switch|H?Ca|Rt)[ \t]+\d{1,3}[ \t]+\"[^\"\n]+\""
        r"|(?:SW|CA|RT)[ \t]+\d+[ \t]+\d+[ \t]+0x[0-9a-f]+[ \t]+\S+[ \t]+\S"
        r"|(?:vendid|devid|sysimgguid|switchguid|caguid|rtguid)=)"
        r"|\A(?:ibwarn|ibpanic|iberror|ibnetdiscover)[: \[]",
    ),
)
JOB = "slurm-job"  # the source that asks Slurm, and the name of its network
PREFIXES = tuple(dict.fromkeys(each.prefix for each in NETWORK_FORMATS))


def network_format_of(file: FileText, prefix: str | None = None) -> NetworkFormat | None:
    """The format of a file from its content; with a prefix only among those that have it."""
    among = [each for each in NETWORK_FORMATS if prefix in (None, each.prefix)]
    return next((each for each in among if each.looks_like(file)), None)


def parse_network(file: FileText, prefix: str | None = None) -> Network:
    """The network that a file of any known format describes."""
    if not file.start:
        raise InputError("the file is empty", path=file.path, hint=_HINT)
    found = network_format_of(file, prefix)
    if found is None:
        kinds = ", ".join(e.name for e in NETWORK_FORMATS if prefix in (None, e.prefix))
        raise InputError(f"no network that is known: not {kinds}", path=file.path, hint=_HINT)
    try:
        return found.parse(file)
    except ValueError as error:  # the model refuses the values of the file
        raise InputError(
            f"describes no possible network: {error}",
            path=file.path,
            hint="is the file complete and unedited?",
        ) from error


_HINT = "save it again with the tool that wrote it, or write SwitchName=leaf1 Nodes=n[1-16] by hand"
