"""The words of communication libraries for a rank's NIC; `launcher/src/nic.c` sets the same.

docs/reference/nics.md lists them, and those that are not set, with the reason.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from toposeat.model.placement import Seat

_SLINGSHOT = re.compile(r"(?:cxi|hsn|hsi)([0-9])", re.ASCII)
_POLICY, _MAPPING = "MPICH_OFI_NIC_POLICY", "MPICH_OFI_NIC_MAPPING"
_BY_NUMBER = "MPIR_CVAR_CH4_OFI_PREF_NIC"
UCX, PSM3 = "UCX_NET_DEVICES", "PSM3_NIC"
_BY_NAME = (UCX, PSM3, "FI_TCP_IFACE")
_BY_UNIT = ("FI_OPX_HFI_SELECT", "HFI_UNIT")  # of hfi1_0: 0
# To UCX, which drives none of them; nvidia-smi's labels (NIC0) are no device's name.
_WITHOUT_NAME = re.compile(r"cxi|hsn|hsi|hfi|opa|rdmap|efa|NIC\d")
_ETHERNET = re.compile(r"eth|en|bond")


def slingshot_number(nic: str) -> int | None:
    """The number of a Slingshot adapter (`cxi0`) or of its interface (`hsn0`); None for others."""
    match = _SLINGSHOT.fullmatch(nic)
    return None if match is None else int(match[1])


def ucx_name(nic: str) -> str | None:
    """What UCX calls a NIC, with a port unless it is an Ethernet interface; None: nothing."""
    if _WITHOUT_NAME.match(nic):
        return None
    return nic if ":" in nic or _ETHERNET.match(nic) else f"{nic}:1"


def cray_environment(hosts: Iterable[Iterable[Seat]]) -> dict[str, str]:
    """Cray MPICH's variables for the seats of all hosts; empty where one table does not serve."""
    tables = {cray_mapping(seats) for seats in hosts}
    table = tables.pop() if len(tables) == 1 else None
    return {} if table is None else {_POLICY: "USER", _MAPPING: table}


def cray_mapping(seats: Iterable[Seat]) -> str | None:
    """`MPICH_OFI_NIC_MAPPING` for the seats of one host; None where one has no such adapter."""
    ranks: dict[int, list[int]] = {}
    for seat in seats:
        number = slingshot_number(seat.nic or "")
        if number is None:
            return None
        ranks.setdefault(number, []).append(seat.local_rank)
    return "; ".join(f"{nic}:{','.join(map(str, each))}" for nic, each in sorted(ranks.items()))


def other_nics(nic: str, local_rank: int, variables: Mapping[str, str]) -> tuple[list[str], bool]:
    """Variables of a rank that name another NIC, as `NAME=value`, and whether any names this one.

    `nic` is as the placement names it, perhaps with a port. Variables that name no NIC (policies)
    say nothing.
    """
    name = nic.partition(":")[0]
    number = slingshot_number(name)
    agree = {
        variable: name
        in {each.strip().partition(":")[0] for each in variables[variable].split(",")}
        for variable in _BY_NAME
        if variable in variables
    }
    agree |= {v: f"hfi1_{variables[v].strip()}" == name for v in _BY_UNIT if v in variables}
    if number is not None and _MAPPING in variables:
        agree[_MAPPING] = _mapped(variables[_MAPPING]).get(local_rank) == number
    if number is not None and _BY_NUMBER in variables:
        agree[_BY_NUMBER] = variables[_BY_NUMBER] == str(number)
    return [f"{v}={variables[v]}" for v, fits in agree.items() if not fits], any(agree.values())


def _mapped(mapping: str) -> dict[int, int]:
    """Adapters by local rank; what is not of the form is left out."""
    found = {}
    for nic, ranks in re.findall(r"(\d{1,3})\s*:\s*([\d,\s-]*)", mapping, re.ASCII):
        for part in ranks.split(","):
            first, _, last = part.strip().partition("-")
            if first.isdigit() and (last or first).isdigit():
                found.update(dict.fromkeys(range(int(first), int(last or first) + 1), int(nic)))
    return found
