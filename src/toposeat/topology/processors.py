"""What processors carry between GPUs, by family: the one table of it.

Two GPUs that share no switch talk through a processor, and families differ by up to 20 times in
what they let through. Each number is an interval with its public source. Where nothing is published
of a family, a number is that of its nearest relative, and its source says so.

Rates of copies are those of copy engines, larger than 64 MB. NCCL's kernels read and write staging
memory themselves, which is slower than copy engines on most hosts: these are numbers of their own.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from functools import cache

from msgspec import Struct

from toposeat.model.quantity import Premise, median
from toposeat.topology.constants import GB_PER_S, pcie_bytes_per_s


class Family(Struct, frozen=True):
    """One family of processors.

    Args:
        name: what people call it.
        names: pattern found in the name of a model, in capitals.
        models: (family, model) as /proc/cpuinfo has them.
        pcie: the generation of its PCIe links; None where it varies.
        flow_across: what one direct copy carries between sockets, GB/s, however fast the links are.
        flow_across_both: both directions of such a pair together, x one direction.
        sockets: all copies together from one socket to the other, GB/s.
        sockets_both: both directions together, x one direction.
        copied_within, copied_across: a copy that the driver stages in host memory (no peer access),
            within a socket and between two, as a share of what an x16 link of the family reaches.
        copied_both: both directions of such a copy together, x one direction.
        staged_within, staged_across: what each step of a ring of NCCL reaches while both directions
            are staged in host memory (its SHM transport), as a share of an x16 link.
        host_bridge: what a direct copy reaches across host bridges of a socket (PHB, NODE), as a
            share of the links.
        pcie_both: both directions of one PCIe link together, x one direction.
    """

    name: str
    names: str
    models: frozenset[tuple[int, int]]
    pcie: int | None
    flow_across: Premise
    flow_across_both: Premise
    sockets: Premise
    sockets_both: Premise
    copied_within: Premise
    copied_across: Premise
    copied_both: Premise
    staged_within: Premise
    staged_across: Premise
    host_bridge: Premise
    pcie_both: Premise

    @property
    def numbers(self) -> dict[str, Premise]:
        """All numbers, by their member's name."""
        return {name: getattr(self, name) for name in _WHAT}


_ONE_WAY, _X16 = "x one direction", "of an x16 link"
_WHAT = {
    "flow_across": ("one copy between sockets", "GB/s"),
    "flow_across_both": ("both directions of a copy between sockets", _ONE_WAY),
    "sockets": ("capacity between sockets", "GB/s"),
    "sockets_both": ("both directions between sockets", _ONE_WAY),
    "copied_within": ("staged copies in a socket", _X16),
    "copied_across": ("staged copies between sockets", _X16),
    "copied_both": ("both directions of staged copies", _ONE_WAY),
    "staged_within": ("NCCL's staging in a socket", _X16),
    "staged_across": ("NCCL's staging between sockets", _X16),
    "host_bridge": ("copies across host bridges", "of the links"),
    "pcie_both": ("both directions of PCIe", _ONE_WAY),
}
_Number = tuple[float, float, float, str]


def _premise(member: str, number: _Number) -> Premise:
    low, nominal, high, source = number
    what, unit = _WHAT[member]
    return Premise(what=what, low=low, nominal=nominal, high=high, unit=unit, source=f"{source}.")


def _family(
    name: str,
    names: str,
    models: Iterable[tuple[int, int]],
    pcie: int | None,
    like: Family | None = None,
    **numbers: _Number,
) -> Family:
    """A family; what it does not state is taken from its relative, whose source then says so."""
    found = {}
    for member in _WHAT:
        if member in numbers:
            found[member] = _premise(member, numbers[member])
        elif like is not None:
            relative = like.numbers[member]
            told = relative.source
            if member != "pcie_both" and not told.startswith("as of"):
                told = f"as of {like.name}, nothing is published of this family: {told}"
            found[member] = replace(relative, source=told)
    return Family(name, names, frozenset(models), pcie, **found)


_PCIE3 = (1.45, 1.7, 2.0, "measured are 1.66 (P100, Tartan), 1.7 (EPYC 7261) and 1.83 (Haswell),"
    " both with MI25: ROCmValidationSuite issue 427; 1.45 are host copies")  # fmt: skip
_PCIE4 = (1.45, 1.93, 2.0, "measured are 1.98 (Threadripper PRO 3995WX, ik_llama.cpp pull request"
    " 1018) and 1.9 (RTX 4090, tinygrad/open-gpu-kernel-modules issue 6); 1.45 are host copies of"
    " A100")  # fmt: skip
_PCIE5 = (1.85, 1.95, 2.0, "measured are 1.97 (dual Turin) and 1.91 (dual EPYC 9374F,"
    " voipmonitor/rtx6kpro, pcie-bandwidth)")  # fmt: skip
_XGMI_BOTH = (1.04, 1.9, 2.0, "measured are 1.04 (MI100, ROCm issue 2499), 1.85 (A40 on EPYC 7302,"
    " nccl-tests issue 74) and 1.95 (Turin); xGMI is full duplex")  # fmt: skip
_INTEL_BRIDGE = "Intel's processors cut direct copies into 64-byte packets, which costs 1/6"

# ---- AMD
_ROME = _family(
    "EPYC Rome", r"EPYC[ -](7\w\w2P?\b|ROME)", [(23, 49)], 4,
    flow_across=(17.5, 22.0, 26.8, "one copy of RTX 4090, 3090, A40 or A6000 reaches 21 to 22.6,"
        " one of MI100 26.8; NCCL's topology search takes 16"),
    flow_across_both=(1.04, 1.85, 2.0, "A40 on two EPYC 7302 reach 40 to 41 both ways together"
        " (nccl-tests issue 74), 1.04 is of MI100 (ROCm issue 2499)"),
    sockets=(22.0, 36.0, 144.0, "three xGMI-2 links carry 108 and four carry 144 (AMD); groups of"
        " copies were published of Turin only, which gets a third of its links"),
    sockets_both=_XGMI_BOTH,
    copied_within=(0.40, 0.84, 0.92, "RTX 4090 on a processor with Rome's I/O die copy 20 to 22.4"
        " GB/s without peer access (NCCL issue 814), A40 on EPYC 7302 20 both ways"),
    copied_across=(0.38, 0.82, 0.92, "A40 on two EPYC 7302 copy as fast between sockets as within"
        " one (nccl-tests issue 74)"),
    copied_both=(1.05, 1.37, 1.75, "RTX 4090 reach 30.5 together, 22.2 alone, and 21.1 below one"
        " switch (NCCL issue 814)"),
    staged_within=(0.10, 0.14, 0.45, "NCCL reaches 3.4 to 3.6 GB/s staged of 24 to 25 direct (two"
        " EPYC 7402, L. Zhao's notes on RTX 4090 and 3090); with NPS4 staging is no slower than"
        " direct rings (nccl-tests issue 74, NCCL issue 1285)"),
    staged_across=(0.03, 0.055, 0.40, "NCCL reaches 1.25 to 1.4 GB/s staged between two EPYC 7402"),
    host_bridge=(0.95, 1.0, 1.0, "direct copies of RTX 4090 and 3090 across host bridges of EPYC"
        " and Threadripper are equal to those below a switch within 1 %"),
    pcie_both=_PCIE4,
)  # fmt: skip
_NAPLES = _family(
    "EPYC Naples", r"EPYC[ -](7\w\w1P?\b|NAPLES)|HYGON|THREADRIPPER( PRO)? [12]\d{3}",
    [(23, 1), (23, 8), (24, 0), (24, 1), (24, 2)], 3, _ROME,
    flow_across=(5.0, 7.0, 11.0, "nothing is published between sockets: as between dies of one EPYC"
        " 7261, 7.06 (ROCmValidationSuite issue 427)"),
    flow_across_both=(1.4, 1.7, 2.0, "11.9 to 12.1 of 7.06 between dies of one EPYC 7261"),
    sockets=(10.0, 25.0, 76.0, "four links carry 152 both ways together (AMD); GPUs of Turin get a"
        " third of its links"),
    host_bridge=(0.50, 0.60, 1.0, "MI25 below different dies of one EPYC 7261 copy 7.06 GB/s"),
    pcie_both=_PCIE3,
)  # fmt: skip
_MILAN = _family(
    "EPYC Milan", r"EPYC[ -](7\w\w3[XP]?\b|MILAN)", [(25, 1)], 4, _ROME,
    flow_across=(18.0, 22.0, 26.8, "one copy each way between A100 of two EPYC 7543 reaches 20.7,"
        " 24.2 within a socket (NCCL issue 841); NCCL's topology search takes 24"),
    flow_across_both=(1.7, 1.85, 2.0, "41.3 both ways together between two EPYC 7543 (NCCL issue"
        " 841)"),
    staged_within=(0.10, 0.17, 0.45, "NCCL reaches 4.5 GB/s staged of 25 direct (two EPYC 7543, L."
        " Zhao's notes on RTX 4090)"),
    staged_across=(0.025, 0.04, 0.40, "NCCL reaches 0.8 GB/s staged between two EPYC 7543"),
)  # fmt: skip
_GENOA = _family(
    "EPYC Genoa", r"EPYC[ -]([89]\w\w4[A-Z]*\b|9V33X|GENOA|BERGAMO|SIENA)",
    [(25, 17), *((25, model) for model in range(160, 176))], 5, _ROME,
    flow_across=(32.0, 41.0, 51.0, "39 of 54 between two EPYC 9374F with two xGMI links"
        " (voipmonitor/rtx6kpro), 42 each way between two EPYC 9124; NCCL's topology search takes"
        " 24"),
    flow_across_both=(1.6, 1.9, 2.0, "64 both ways of 39 between two EPYC 9374F with two links, 84"
        " between two EPYC 9124"),
    sockets=(39.0, 59.0, 256.0, "four xGMI-3 links carry 256, three 192 (Lenovo LP1852); GPUs of"
        " Turin get a third of its links"),
    copied_within=(0.70, 0.88, 0.96, "RTX 4090 on EPYC 9554 copy 22.3 GB/s through the host, 26.35"
        " direct"),
    copied_across=(0.60, 0.84, 0.96, "nothing is published between sockets: little less than the"
        " 22.3 GB/s of RTX 4090 within one"),
    staged_within=(0.25, 0.74, 0.85, "NCCL reaches 18.5 GB/s staged of 25.6 direct (two EPYC"
        " 9554)"),
    staged_across=(0.20, 0.65, 0.80, "NCCL reaches 16.4 GB/s staged between two EPYC 9554"),
    pcie_both=_PCIE5,
)  # fmt: skip
_TURIN = _family(
    "EPYC Turin", r"EPYC[ -]([89]\w\w5[A-Z]*\b|TURIN)",
    [(26, model) for model in (0, 1, 2, *range(16, 32))], 5, _GENOA,
    flow_across=(38.0, 50.0, 53.0, "51 of 56.6 between two Turin with three links"
        " (voipmonitor/rtx6kpro), 38 to 50 below switches of two EPYC 9575F; NCCL's topology search"
        " takes 32, and NCCL reaches 32 to 36 of 38 to 44 (NCCL pull request 2036)"),
    flow_across_both=(1.8, 1.95, 2.0, "99.4 both ways of 51 between two Turin"),
    sockets=(46.0, 59.0, 256.0, "four copies each way between two EPYC 9575F reach 14.8 each; three"
        " xGMI-3 links carry 192 and four 256 (AMD)"),
    staged_within=(0.25, 0.35, 0.85, "NCCL's default among four RTX PRO 6000 (NPS4) reaches 13.2 of"
        " 40 direct, among eight of another machine 22 of 38 (voipmonitor/rtx6kpro); the high end"
        " is Genoa's"),
    staged_across=(0.20, 0.30, 0.80, "nothing is published apart from rings of eight at 22 GB/s;"
        " the high end is Genoa's"),
)  # fmt: skip
_TR3000 = _family(
    "Threadripper 3000", r"THREADRIPPER( PRO)? 3\d{3}", (), 4, _ROME,
    host_bridge=(0.93, 1.0, 1.0, "direct copies of RTX 4090 on a 3995WX reach 50 to 51 both ways"
        " (tinygrad/open-gpu-kernel-modules issue 6); a P620 is 5 % slower"),
)  # fmt: skip
_TR5000 = _family(
    "Threadripper 5000", r"THREADRIPPER( PRO)? 5\d{3}", [(25, 8)], 4, _MILAN,
)  # fmt: skip
_TR7000 = _family(
    "Threadripper 7000", r"THREADRIPPER( PRO)? 7\d{3}", [(25, 24)], 5, _GENOA,
    host_bridge=(0.97, 1.0, 1.0, "53.1 across host bridges of a 7955WX, 53.4 below a switch"
        " (voipmonitor/rtx6kpro)"),
)  # fmt: skip
_TR9000 = _family(
    "Threadripper 9000", r"THREADRIPPER( PRO)? 9\d{3}", [(26, 8)], 5, _TURIN,
)  # fmt: skip

# ---- Intel: the second digit of a scalable processor is its generation
_XEON = r"XEON.*(PLATINUM|GOLD|SILVER|BRONZE)\W+\w?\d"
_QPI = _family(
    "Xeon with QPI", r"XEON.*\b(E[57]-|[XLE]5[56]\d\d)|WESTMERE|SANDY ?BRIDGE|IVY ?BRIDGE"
    r"|HASWELL|BROADWELL", [(6, model) for model in (26, 44, 45, 46, 47, 62, 63, 79, 86)], 3,
    None,
    flow_across=(2.5, 8.0, 10.2, "K40m below different sockets of E5-2680 reach 7.6 to 8.5, P100 of"
        " a DGX-1 2.5 to 3.8, MI25 8.2; NCCL's topology search takes 6"),
    flow_across_both=(1.04, 1.75, 2.0, "15.0 of 8.17 on Haswell (ROCmValidationSuite issue 427)"),
    sockets=(6.0, 12.0, 38.4, "two QPI links of 9.6 GT/s carry 38 (Intel); staged copies of P100"
        " reach 10.2 between sockets (Tartan)"),
    sockets_both=(1.4, 1.75, 2.0, "measured are 1.7 to 1.8; QPI is full duplex"),
    copied_within=(0.47, 0.82, 0.92, "staged copies of P100 reach 9.2 to 10.8 (Tartan), 2080 Ti"
        " below one switch 5.7"),
    copied_across=(0.45, 0.82, 0.92, "staged copies of P100 reach 10.21 between sockets, 10.03"
        " within (Tartan)"),
    copied_both=(1.0, 1.73, 1.85, "17.5 of 10.0 to 10.2 below different switches, 9.4 to 10.5 below"
        " one (Tartan)"),
    staged_within=(0.30, 0.50, 0.80, "NCCL reaches 3.9 GB/s staged over PCIe 3 on a processor"
        " untold (NCCL issue 384), 6.6 on a Xeon with V100"),
    staged_across=(0.25, 0.45, 0.80, "NCCL reaches 6.7 GB/s staged between sockets of a Xeon with"
        " V100; QPI is slower than UPI"),
    host_bridge=(0.70, 0.80, 0.95, f"{_INTEL_BRIDGE} (NCCL's topology search); idgraf (Westmere)"
        " has 0.80"),
    pcie_both=_PCIE3,
)  # fmt: skip
_SKYLAKE = _family(
    "Xeon Skylake or Cascade Lake", rf"{_XEON}[12]\d\d|XEON.*\b\d3\d\dHL?\b"
    r"|XEON.*\bW-[23][12]\d\d|SKYLAKE|CASCADE ?LAKE", [(6, 85)], 3, _QPI,
    flow_across=(2.5, 9.0, 13.2, "nothing is published: as of QPI, up to the links' rate; NCCL's"
        " topology search takes 10"),
    sockets=(10.0, 15.0, 62.4, "three UPI links of 10.4 GT/s carry 62, two 42 (Intel); NCCL's"
        " topology search takes 10 for GPUs"),
    sockets_both=(1.4, 1.8, 2.0, "as of QPI, 1.7 to 1.8; UPI is full duplex"),
    staged_within=(0.30, 0.55, 0.80, "NCCL reaches 6.64 GB/s staged between V100 PCIe of one socket"
        " (R. Myhre's case study)"),
    staged_across=(0.30, 0.55, 0.80, "NCCL reaches 6.7 GB/s staged between V100 PCIe of two sockets"
        " (R. Myhre's case study)"),
    host_bridge=(0.75, 0.83, 0.95, f"{_INTEL_BRIDGE} (NCCL's topology search)"),
)  # fmt: skip
_ICE_LAKE = _family(
    "Xeon Ice Lake", rf"{_XEON}3\d\d|XEON.*\bW-33\d\d|ICE ?LAKE", [(6, 106), (6, 108)], 4,
    _SKYLAKE,
    flow_across=(9.0, 18.0, 26.4, "nothing is published of Ice Lake: between Skylake and Sapphire"
        " Rapids, up to the links' rate"),
    sockets=(10.0, 30.0, 67.2, "three UPI links of 11.2 GT/s carry 67 (Intel); NCCL's topology"
        " search takes 10 for GPUs"),
    copied_within=(0.45, 0.75, 0.90, "nothing is published of Ice Lake: the range of Sapphire"
        " Rapids, Skylake and Rome"),
    copied_across=(0.45, 0.72, 0.90, "nothing is published of Ice Lake: the range of Sapphire"
        " Rapids, Skylake and Rome"),
    staged_within=(0.25, 0.60, 0.85, "nothing is published of Ice Lake: between Skylake (0.55) and"
        " Sapphire Rapids (0.73)"),
    staged_across=(0.25, 0.57, 0.85, "nothing is published of Ice Lake: between Skylake (0.55) and"
        " Sapphire Rapids (0.58)"),
    host_bridge=(0.75, 0.83, 1.0, f"{_INTEL_BRIDGE} (NCCL's topology search)"),
    pcie_both=_PCIE4,
)  # fmt: skip
_SAPPHIRE = _family(
    "Xeon Sapphire Rapids", rf"{_XEON}4\d\d|XEON.*\bMAX 94\d\d|XEON.*\bW[3579]-[23]4\d\d"
    r"|SAPPHIRE ?RAPIDS", [(6, 143)], 5, _ICE_LAKE,
    flow_across=(18.0, 30.0, 48.0, "nothing is published of direct copies; NCCL's topology search"
        " takes 22, one UPI link of 16 GT/s carries 48 (Intel)"),
    sockets=(22.0, 60.0, 192.0, "four UPI links of 16 GT/s carry 192 (Intel); rings of eight RTX"
        " 5090 are staged at 28 GB/s over two 8480+ (NCCL issue 1639)"),
    copied_within=(0.55, 0.70, 0.85, "H100 copy 36 to 38 GB/s through the host (NCCL issue 1264)"),
    copied_across=(0.55, 0.70, 0.85, "H100 copy 36 to 38 GB/s through the host between sockets, too"
        " (NCCL issue 1264)"),
    staged_within=(0.45, 0.70, 0.85, "NCCL reaches 35 GB/s staged among four RTX 5090 of an 8480+"
        " (NCCL issue 1639)"),
    staged_across=(0.40, 0.58, 0.80, "NCCL reaches 28 GB/s staged among eight RTX 5090 of two 8480+"
        " (NCCL issue 1639)"),
    host_bridge=(0.72, 0.80, 1.0, "RTX 4090 on Gold 6430 and 6530 copy 20 GB/s, on EPYC 25"
        " (tinygrad/open-gpu-kernel-modules issue 26)"),
    pcie_both=_PCIE5,
)  # fmt: skip
_EMERALD = _family(
    "Xeon Emerald Rapids", rf"{_XEON}5\d\d|XEON.*\bW[3579]-[23]5\d\d|EMERALD ?RAPIDS",
    [(6, 207)], 5, _SAPPHIRE,
    flow_across=(18.0, 38.0, 54.5, "nothing is published of direct copies; NCCL's topology search"
        " takes 40, one UPI link of 20 GT/s carries 60 (Intel)"),
    sockets=(40.0, 75.0, 240.0, "four UPI links of 20 GT/s carry 240 (Intel); NCCL's topology"
        " search takes 40"),
)  # fmt: skip
_GRANITE = _family(
    "Xeon 6", r"XEON.*\b6\d{3}[PE]\b|GRANITE ?RAPIDS|SIERRA ?FOREST",
    [(6, 173), (6, 174), (6, 175)], 5, _EMERALD,
    sockets=(40.0, 90.0, 432.0, "six UPI links of 24 GT/s carry 432 and four 288 (Intel); NCCL's"
        " topology search takes 40"),
)  # fmt: skip

# ---- others
_POWER9 = _family(
    "POWER9", r"POWER9", (), 4, _ICE_LAKE,
    flow_across=(24.0, 29.0, 32.0, "V100 of two sockets copy 29 one way (NVIDIA's sample on AC922);"
        " NCCL's topology search takes 32"),
    flow_across_both=(1.1, 1.18, 1.5, "34 both ways of 29 on AC922"),
    sockets=(24.0, 29.0, 64.0, "the X-bus carries 64 (IBM); copies of V100 reach 29"),
    sockets_both=(1.1, 1.18, 2.0, "34 both ways of 29 on AC922"),
    host_bridge=(0.70, 0.95, 1.0, "nothing is published of cards on POWER9"),
)  # fmt: skip
_POWER8 = _family(
    "POWER8", r"POWER8", (), 3, _POWER9,
    flow_across=(18.0, 22.0, 32.0, "P100 of two sockets copy 20 to 22 (NVIDIA's sample, S822LC)"),
    flow_across_both=(1.1, 1.36, 1.6, "30 both ways of 22 on S822LC"),
    sockets=(18.0, 22.0, 38.4, "the bus between two sockets carries 38 (IBM); P100 reach 22"),
    sockets_both=(1.1, 1.36, 2.0, "30 both ways of 22 on S822LC"),
    pcie_both=_PCIE3,
)  # fmt: skip
_GRACE = _family(
    "Grace", r"\bGRACE\b|NEOVERSE.V2|\bGH200|\bGB[23]00", (), 5, _GENOA,
    flow_across=(24.0, 54.5, 100.0, "nothing is published of cards on two Graces; NVLink between"
        " two Graces carries 100 (JSC), 450 in a Grace superchip (NVIDIA)"),
    sockets=(80.0, 100.0, 450.0, "NVLink between Graces of four GH200 carries 100 (JSC), in a Grace"
        " superchip 450 (NVIDIA)"),
    sockets_both=(1.5, 1.9, 2.0, "NVLink is full duplex"),
    host_bridge=(0.50, 1.0, 1.0, "nothing is published; NCCL's topology search takes 6 GB/s for all"
        " ARM processors"),
)  # fmt: skip
_DESKTOP = _family(
    "desktop processor", r"\bRYZEN\b(?! THREADRIPPER)|\bCORE\(TM\)|\bI[3579]-\d|CORE ULTRA"
    r"|\bATHLON|XEON.*\bE-?[23]\d\d\d|XEON.*\bE3-|EPYC 4\w\w[45]",
    [*((23, m) for m in (17, 24, 32, 96, 104, 113)), *((25, m) for m in (33, 68, 80, 97, 116, 117)),
     *((26, m) for m in (36, 68, 96)), *((6, m) for m in (42, 58, 60, 70, 71, 94, 142, 151, 154)),
     *((6, m) for m in (158, 165, 167, 183, 191, 197, 198))],
    None, _ROME,
    copied_within=(0.30, 0.48, 0.90, "two RTX 5070 Ti copy 12.5 of 26 GB/s through the host (sglang"
        " pull request 39605), older processors up to 0.9"),
    staged_within=(0.05, 0.14, 0.70, "NCCL reaches 1.9 of 26 GB/s staged between two RTX 5070 Ti"
        " (sglang pull request 39605), more with Intel's"),
    copied_across=(0.30, 0.48, 0.90, "these have one socket: as within it"),
    staged_across=(0.05, 0.14, 0.70, "these have one socket: as within it"),
    host_bridge=(0.75, 1.0, 1.0, f"as of Rome with AMD; {_INTEL_BRIDGE} (NCCL's topology search)"),
    pcie_both=(1.45, 1.9, 2.0, "as of servers: measured are 1.66 (PCIe 3) to 1.98 (PCIe 4)"),
)  # fmt: skip

# A name may fit several patterns: the first one counts (Threadrippers are Ryzens).
FAMILIES: tuple[Family, ...] = (
    _NAPLES, _ROME, _MILAN, _GENOA, _TURIN, _TR3000, _TR5000, _TR7000, _TR9000, _DESKTOP, _QPI,
    _SKYLAKE, _ICE_LAKE, _SAPPHIRE, _EMERALD, _GRANITE, _POWER9, _POWER8, _GRACE,
)  # fmt: skip
# NCCL up to 2.29 adds the extended family shifted by four bits (NCCL pull request 2036).
_NCCL_FAMILY = {143: 23, 159: 24, 175: 25, 191: 26}
_NO_OPINION = {"flow_across", "host_bridge"}  # alike until somebody says that they differ


@cache
def unknown(pcie: int | None = None) -> Family:
    """A processor that nothing tells: the range over all families that may hold such cards.

    Cards of one PCIe generation are in machines of the same or of the next one. It has no opinion
    on where GPUs sit: direct copies are alike everywhere, and so are staged ones.
    """
    families = [each for each in FAMILIES if pcie is None or (each.pcie or 0) - pcie in (0, 1)]
    families = families or list(FAMILIES)
    source = f"the processor is not known: the range over {len(families)} families"
    found: dict[str, _Number] = {}
    for member in _WHAT:
        of_all = [each.numbers[member] for each in families]
        low, high = min(each.low for each in of_all), max(each.high for each in of_all)
        found[member] = (low, median(each.nominal for each in of_all), high, source)
    for member in _NO_OPINION:
        low, _, high, _ = found[member]
        alike = pcie_bytes_per_s(pcie or 4) / GB_PER_S if member == "flow_across" else high
        found[member] = (min(low, alike), alike, max(high, alike), source)
    low, _, high, _ = found["flow_across_both"]
    found["flow_across_both"] = (low, found["pcie_both"][1], high, source)
    for member in ("copied", "staged"):
        nominal = found[f"{member}_within"][1]
        low, _, high, _ = found[f"{member}_across"]
        found[f"{member}_across"] = (low, nominal, max(nominal, high), source)
    return _family("unknown", r"(?!)", (), pcie, None, **found)


def family_of(told: Iterable[str] | str = (), name: str = "") -> Family:
    """The family of a processor, by its name or by what a source tells of its model.

    Args:
        told: arch, vendor, family and model as NCCL's files or /proc/cpuinfo have them, as far as
            they are told; text is split at blanks.
        name: of the model, as lscpu or hwloc has it.
    """
    return _family_of(tuple(told.split() if isinstance(told, str) else told), name)


@cache
def _family_of(words: tuple[str, ...], name: str) -> Family:
    upper = re.sub(r"\s+", " ", name.upper())
    for each in FAMILIES:
        if re.search(each.names, upper):
            return each
    numbers = [int(word) for word in words[2:4] if word.isascii() and word.isdigit()]
    if len(numbers) == 2 and "86" in words[0]:
        key = (_NCCL_FAMILY.get(numbers[0], numbers[0]), numbers[1])
        for each in FAMILIES:
            if key in each.models:
                return each
    return unknown()
