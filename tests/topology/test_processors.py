"""Families of processors: names and models from public places find theirs, numbers are in order."""

import re

import pytest

from toposeat.topology.constants import GB_PER_S, pcie_bytes_per_s
from toposeat.topology.processors import families, family_of, unknown

NAMED = {
    "EPYC Naples": ["AMD EPYC 7551 32-Core Processor", "AMD EPYC 7261 8-Core Processor",
                    "Hygon C86 7185 32-core Processor",
                    "AMD Ryzen Threadripper 2950X 16-Core Processor"],
    "EPYC Rome": ["AMD EPYC 7402 24-Core Processor", "AMD EPYC 7H12 64-Core Processor",
                  "AMD EPYC 7V12 64-Core Processor", "AMD EPYC 7K62 48-Core Processor",
                  "AMD EPYC 7542 32-Core Processor", "AMD EPYC-Rome Processor"],
    "EPYC Milan": ["AMD EPYC 7543 32-Core Processor", "AMD EPYC 7543P 32-Core Processor",
                   "AMD EPYC 7773X 64-Core Processor", "AMD EPYC 7V13 64-Core Processor",
                   "AMD EPYC 75F3 32-Core Processor"],
    "EPYC Genoa": ["AMD EPYC 9554 64-Core Processor", "AMD EPYC 9124 16-Core Processor",
                   "AMD EPYC 9374F 32-Core Processor", "AMD EPYC 9684X 96-Core Processor",
                   "AMD EPYC 8534P 64-Core Processor", "AMD EPYC 9R14", "AMD EPYC 9754 128-Core"
                   " Processor", "AMD EPYC 9V84 96-Core Processor"],
    "EPYC Turin": ["AMD EPYC 9575F 64-Core Processor", "AMD EPYC 9755 128-Core Processor",
                   "AMD EPYC 9965 192-Core Processor"],
    "Threadripper 3000": ["AMD Ryzen Threadripper PRO 3995WX 64-Cores",
                          "AMD Ryzen Threadripper 3970X 32-Core Processor"],
    "Threadripper 5000": ["AMD Ryzen Threadripper PRO 5975WX 32-Cores"],
    "Threadripper 7000": ["AMD Ryzen Threadripper PRO 7955WX 16-Cores",
                          "AMD Ryzen Threadripper 7980X 64-Cores"],
    "Threadripper 9000": ["AMD Ryzen Threadripper PRO 9995WX 96-Cores"],
    "desktop processor": ["AMD Ryzen 9 5900X 12-Core Processor", "AMD Ryzen 7 9800X3D 8-Core"
                          " Processor", "12th Gen Intel(R) Core(TM) i9-12900K",
                          "Intel(R) Core(TM) i7-8700K CPU @ 3.70GHz", "Intel(R) Core(TM) Ultra 9"
                          " 285K", "Intel(R) Xeon(R) E-2278G CPU @ 3.40GHz",
                          "Intel(R) Xeon(R) CPU E3-1270 v6 @ 3.80GHz",
                          "AMD EPYC 4584PX 16-Core Processor"],
    "Xeon with QPI": ["Intel(R) Xeon(R) CPU E5-2698 v4 @ 2.20GHz", "Intel(R) Xeon(R) CPU E5-2680 0"
                      " @ 2.70GHz", "Intel(R) Xeon(R) CPU E7- 4870  @ 2.40GHz",
                      "Intel(R) Xeon(R) CPU           X5660  @ 2.80GHz"],
    "Xeon Skylake or Cascade Lake": [
        "Intel(R) Xeon(R) Gold 6148 CPU @ 2.40GHz", "Intel(R) Xeon(R) Platinum 8168 CPU @ 2.70GHz",
        "Intel(R) Xeon(R) Platinum 8259CL CPU @ 2.50GHz", "Intel(R) Xeon(R) Silver 4214R CPU"
        " @ 2.40GHz", "Intel(R) Xeon(R) Platinum 8380H CPU @ 2.90GHz",
        "Intel(R) Xeon(R) W-2135 CPU @ 3.70GHz", "Intel Xeon Processor (Cascadelake)"],
    "Xeon Ice Lake": ["Intel(R) Xeon(R) Platinum 8380 CPU @ 2.30GHz", "Intel(R) Xeon(R) Platinum"
                      " 8352Y CPU @ 2.20GHz", "Intel(R) Xeon(R) Gold 6330 CPU @ 2.00GHz"],
    "Xeon Sapphire Rapids": ["Intel(R) Xeon(R) Platinum 8480+", "Intel(R) Xeon(R) Platinum 8480C",
                             "Intel(R) Xeon(R) Gold 6430", "Intel(R) Xeon(R) CPU Max 9470",
                             "Intel(R) Xeon(R) w9-3495X", "Intel(R) Xeon(R) Platinum 8462Y+"],
    "Xeon Emerald Rapids": ["INTEL(R) XEON(R) GOLD 6530", "INTEL(R) XEON(R) PLATINUM 8592+",
                            "INTEL(R) XEON(R) PLATINUM 8570"],
    "Xeon 6": ["Intel(R) Xeon(R) 6960P", "Intel(R) Xeon(R) 6767P"],
    "POWER9": ["POWER9, altivec supported", "POWER9 (raw), altivec supported"],
    "POWER8": ["POWER8NVL (raw), altivec supported"],
    "Grace": ["Neoverse-V2", "NVIDIA Grace CPU Superchip", "Grace to Grace"],
    "unknown": ["", "QEMU Virtual CPU version 2.5+", "AMD Engineering Sample", "06/57",
                "Intel(R) Xeon Phi(TM) CPU 7250 @ 1.40GHz", "Dual Core AMD Opteron(tm) Processor"
                " 865", "AMD Instinct MI300A Accelerator"],
}  # fmt: skip
MODELS = {
    "x86_64 AuthenticAMD 23 1": "EPYC Naples",
    "x86_64 AuthenticAMD 143 49": "EPYC Rome",
    "x86_64 AuthenticAMD 23 49": "EPYC Rome",
    "x86_64 AMD 159 2": "EPYC Naples",  # a Hygon
    "x86_64 AuthenticAMD 175 1": "EPYC Milan",
    "x86_64 AuthenticAMD 25 17": "EPYC Genoa",
    "x86_64 AuthenticAMD 175 160": "EPYC Genoa",
    "x86_64 AuthenticAMD 191 2": "EPYC Turin",
    "x86_64 AuthenticAMD 25 24": "Threadripper 7000",
    "x86_64 AuthenticAMD 26 68": "desktop processor",
    "x86_64 AuthenticAMD 175 48": "unknown",  # an engineering sample beside MI200
    "x86_64 AuthenticAMD 175 144": "unknown",  # MI300A
    "x86_64 GenuineIntel 6 79": "Xeon with QPI",
    "x86_64 GenuineIntel 6 85": "Xeon Skylake or Cascade Lake",
    "x86_64 GenuineIntel 6 106": "Xeon Ice Lake",
    "x86_64 GenuineIntel 6 143": "Xeon Sapphire Rapids",
    "x86_64 GenuineIntel 6 207": "Xeon Emerald Rapids",
    "x86_64 GenuineIntel 6 173": "Xeon 6",
    "x86_64 AuthenticAMD": "unknown",
    "x86_64": "unknown",
    "arm64": "unknown",
    "": "unknown",
}
EVERY = [*families(), *map(unknown, (None, 1, 3, 4, 5, 6))]


@pytest.mark.parametrize(("family", "names"), NAMED.items())
def test_a_model_finds_its_family_by_name(family, names):
    assert {name: family_of((), name).name for name in names} == dict.fromkeys(names, family)


@pytest.mark.parametrize(("told", "family"), MODELS.items())
def test_a_model_finds_its_family_by_numbers(told, family):
    assert family_of(told).name == family
    assert family_of(tuple(told.split())).name == family


def test_every_family_is_found_by_a_name():
    assert {each.name for each in families()} == NAMED.keys() - {"unknown"}


def test_a_name_tells_more_than_numbers():
    """Threadripper 3000 has the numbers of Rome."""
    told = ("x86_64", "AuthenticAMD", "23", "49")
    assert family_of(told, "AMD Ryzen Threadripper PRO 3995WX 64-Cores").name == "Threadripper 3000"


@pytest.mark.parametrize("family", EVERY, ids=lambda each: f"{each.name} {each.pcie}")
def test_numbers_are_intervals_with_a_source(family):
    for member, number in family.numbers.items():
        assert 0 < number.low <= number.nominal <= number.high, member
        assert re.fullmatch(r".{20,}\.", number.source), member
        if number.unit == "times one direction":
            assert number.high <= 2, member
        if number.unit.startswith("of "):
            assert number.high <= 1, member
    assert family.staged_across.nominal <= family.staged_within.nominal
    assert family.copied_across.nominal <= family.copied_within.nominal
    assert family.flow_across.nominal <= family.sockets.high


def test_where_nothing_is_told_there_is_no_opinion():
    """The nominal numbers call all places alike, and the range holds those of every family."""
    for generation in (None, 3, 4, 5):
        family = unknown(generation)
        links = pcie_bytes_per_s(generation or 4) / GB_PER_S
        assert family.flow_across.nominal == links
        assert family.host_bridge.nominal == 1
        assert family.staged_across.nominal == family.staged_within.nominal
        for each in families():
            if generation in (None, each.pcie):
                for member, number in each.numbers.items():
                    wide = family.numbers[member]
                    assert wide.low <= number.low, member
                    assert number.high <= wide.high, member


def test_the_processors_of_recorded_machines_are_known(shared_dir):
    """Every model in the files of recorded machines is one of those above."""
    names, models = set[str](), set[str]()
    for path in (shared_dir / "machines").rglob("*"):
        if not path.is_file() or path.stat().st_size > 4 << 20:
            continue
        text = path.read_text(errors="replace")
        names |= set(re.findall(r'name="CPUModel" value="([^"]*)"', text))
        names |= set(re.findall(r"^Model name: +(.*\S)", text, re.MULTILINE))
        for cpu in re.findall(r"<cpu (.*)>", text):
            told = [re.search(rf'\b{word}="([^"]+)"', cpu) for word in
                    ("arch", "vendor", "familyid", "modelid")]  # fmt: skip
            models.add(" ".join(found[1] for found in told if found))
    assert len(names) > 5
    assert len(models) > 3
    untold = {name.strip() for name in names if family_of((), name).name == "unknown"}
    assert untold <= set(NAMED["unknown"])
    assert models <= MODELS.keys()
