"""The words for schedulers, as their documentation spells them."""

from dataclasses import replace

import pytest

from toposeat.launch import requests_for
from toposeat.model.asked import Asked, Block

EKS = "topology.k8s.aws/network-node-layer-3"


def asked(level, block, *, kind="tree", levels=""):
    """16 nodes of a cluster of 64, whose groups of the level have 8."""
    sizes = () if block is None else (block,)
    tried = tuple(
        Block(nodes=size, level=level, height=0, share=size / 8, predicted_s=1.0) for size in sizes
    )
    return Asked(
        nodes=16,
        devices=8,
        offered=64,
        scattered_s=2.0,
        tried=tried,
        chosen=tried[0] if tried else None,
        why=(),
        kind=kind,
        vendor="nvidia",
        levels=(levels or level,),
    )


def words(of):
    return {each.scheduler: each.words for each in requests_for(of)}


@pytest.mark.parametrize(
    ("of", "line"),
    [
        (asked("level 0", 8), " --switches=2"),
        (asked("level 0", 2), " --switches=2"),
        (asked("level 0", 5), " --switches=4"),  # one block of 5 in each leaf of 8
        (asked("level 0", 8, kind="block"), " --segment=8"),
        (asked("NVLink domain", 4), " --segment=4"),
        (asked("level 0", None), ""),
    ],
)
def test_slurm(of, line):
    assert words(of) == {"Slurm": (f"sbatch --nodes=16 --gpus-per-node=8{line}",)}


def test_kueue_and_kai_take_slices_or_the_whole_job():
    found = words(asked(EKS, 4))
    assert found["Kueue"] == (
        f"kueue.x-k8s.io/podset-slice-required-topology: {EKS}",
        'kueue.x-k8s.io/podset-slice-size: "4"',
    )
    assert found["KAI"] == (
        "kai.scheduler/topology: NAME",
        f"kai.scheduler/segment-topology-required-placement: {EKS}",
        'kai.scheduler/segment-size: "4"',
    )
    found = words(asked(EKS, 16))
    assert found["Kueue"] == (f"kueue.x-k8s.io/podset-required-topology: {EKS}",)
    assert found["KAI"][1:] == (f"kai.scheduler/topology-required-placement: {EKS}",)
    assert set(words(asked(EKS, None))) == {"DRA"}
    domain = words(asked("NVLink domain (nvidia.com/gpu.clique)", 4, levels=EKS))
    assert domain["Kueue"][0].endswith("slice-required-topology: nvidia.com/gpu.clique")
    assert "ComputeDomain" in domain["DRA"][1]


def test_only_nvidias_driver_is_known_for_claims():
    assert set(words(replace(asked(EKS, 4), vendor="amd"))) == {"Kueue", "KAI"}


def test_a_claim_names_linked_devices_of_a_node():
    found = requests_for(asked(EKS, None), devices=["0000:17:00.0", "0000:65:00.0"])
    assert found[0].words == (
        "deviceClassName: gpu.nvidia.com, count: 8",
        'cel: device.attributes["resource.kubernetes.io"].pciBusID in'
        ' ["0000:17:00.0", "0000:65:00.0"]',
    )
