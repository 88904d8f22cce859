from __future__ import annotations

from dataclasses import replace

from tests.report import samples
from tests.report.profile_samples import full_profile
from toposeat.model.evaluation import Certificate
from toposeat.model.quantity import Source
from toposeat.model.topology import Component, ComponentKind, Device, Topology
from toposeat.model.traffic import Traffic
from toposeat.report import words


def certificate(**changes: object) -> Certificate:
    base = Certificate(objective="time", proved=False, value=2.0, lower_bound=None, gap=None)
    return replace(base, **changes)  # type: ignore[arg-type]


def test_certificate_in_words() -> None:
    assert words.certificate_words(certificate()) == (
        "Heuristic for link time (2.00 s): no bound known, a better placement may exist."
    )
    assert words.certificate_words(certificate(lower_bound=1.6, gap=0.25)) == (
        "Not proved optimal for link time: 2.00 s, at most 25 % above the lower bound (1.60 s)."
    )
    assert words.certificate_words(
        certificate(proved=True, lower_bound=2.0, gap=0.0, reason="all 40320 orders tried")
    ) == (
        "Proved optimal for link time (2.00 s): no placement has a lower value."
        " Because: all 40320 orders tried."
    )


def test_verdict_of_a_gain_names_before_and_after() -> None:
    tree, traffic = samples.k80_16(), samples.stencil((2, 2, 4), weight=3)
    result = samples.mapping(tree, traffic, samples.K80_PLACED)
    assert words.verdict_words(result) == (
        "Predicted gain from moving 14 of 16 ranks: link time 5.03 ms to 1.68 ms (-67 %),"
        " worst link congestion 5.03 ms to 1.68 ms (-67 %)."
    )
    assert words.moved_words(result) == "14 ranks moved"


def test_verdict_of_a_loss_does_not_call_it_a_gain() -> None:
    tree, traffic = samples.small_tree(), samples.stencil((4,))
    result = samples.mapping(tree, traffic, (0, 2, 1, 3), proved=False)
    assert words.outcome_word(result) == "loss"
    assert words.verdict_words(result).startswith("Predicted loss from moving 2 of 4 ranks")


def test_verdict_when_the_default_is_kept() -> None:
    tree, traffic = samples.small_tree(), samples.stencil((4,))
    kept = samples.mapping(tree, traffic, range(4))
    assert words.verdict_words(kept) == (
        "No gain: the default placement is kept, because it is proved optimal for worst link"
        " congestion."
    )
    unproved = samples.mapping(tree, traffic, range(4), proved=False)
    assert "nothing better was found" in words.verdict_words(unproved)


def test_reach_follows_amdahl() -> None:
    tree = samples.k80_16()
    traffic = samples.timed(samples.stencil((2, 2, 4), weight=3), wall_s=10, mpi_s=2.0)
    result = samples.mapping(tree, traffic, samples.K80_PLACED)
    share = words.mpi_share(traffic)
    assert share is not None
    ratio = result.placed.predicted_s / result.default.predicted_s
    expected = 1 / (1 - share * (1 - ratio))
    said = words.run_share_words(result, traffic)
    assert said is not None
    assert said.endswith(f"expect at most about {expected:.2f}x.")
    kept = samples.mapping(tree, traffic, range(16))
    assert words.run_share_words(kept, traffic) == (
        "Prediction is of link time only; your run spends 22 % of its time in MPI calls."
    )


def test_reach_counts_only_what_placement_serves() -> None:
    """40 % of the run is in MPI, but only 30 % of it on the device buffers that are placed."""
    tree, traffic = samples.small_tree(), full_profile()
    said = words.run_share_words(samples.mapping(tree, traffic, range(4)), traffic)
    assert said is not None
    assert "your run spends 30 % of its time in MPI calls on device buffers" in said


def test_reach_is_silent_without_times() -> None:
    tree, traffic = samples.k80_16(), samples.stencil((2, 2, 4))
    assert words.run_share_words(samples.mapping(tree, traffic, range(16)), traffic) is None


def test_links_and_vertices_in_words() -> None:
    tree = samples.small_tree()
    assert words.link_words(tree, "package0--package1") == "cross-socket: package 0 - package 1"
    assert words.link_words(tree, "gpu3--switch1") == "PCIe: D3 - switch 1"
    assert words.link_words(tree, "nic0--bridge0") == "PCIe: NIC mlx5_0 - host bridge 0"
    assert words.link_words(tree, "no such link") == "no such link"
    cluster = samples.cluster(2, 2)
    assert words.link_words(cluster, "node01/gpu0--node01/switch0") == (
        "PCIe: node01:D0 - node01 switch 0"
    )


def test_nameless_components_get_words() -> None:
    def name(**fields: object) -> str:
        return words.component_words(Component(**fields))  # type: ignore[arg-type]

    assert name(id="switch12", kind=ComponentKind.SWITCH) == "switch 12"
    assert name(id="hb", kind=ComponentKind.HOST_BRIDGE, pci_bus_id="0000:00:00.0") == (
        "host bridge 0000:00:00.0"
    )
    assert name(id="odd", kind=ComponentKind.SWITCH) == "odd"


def test_topology_and_traffic_sentences() -> None:
    assert words.topology_sentence(samples.small_tree()) == (
        "small-tree, 4 x Tesla K80, 10 links nominal"
    )
    assert words.topology_sentence(samples.cluster(2, 2)) == (
        "cluster, 2 hosts, 4 x A100, 10 links nominal"
    )
    nameless = Topology(name="box", origin="test", devices=(Device(id="a", index=0),))
    assert words.topology_sentence(nameless) == "box, 1 device, no links known"
    traffic = samples.timed(samples.stencil((2, 2)))
    assert words.traffic_sentence(traffic) == (
        "stencil2d:2x2,weight=1, 4 ranks, 8.00 MiB between devices, 4.00 KiB through the host"
    )
    assert words.traffic_sentence(Traffic(ranks=1, origin="x", tables={})) == (
        "x, 1 rank, no bytes sent"
    )
    host = Traffic(ranks=4, origin="x", tables={samples.HOST_P2P: traffic.tables[samples.HOST_P2P]})
    assert "no device buffers seen" in words.traffic_sentence(host)


def test_measured_links_come_first() -> None:
    tree = samples.small_tree()
    first = replace(tree.links[0], forward_bytes_per_s=samples.measured(11e9))
    mixed = replace(tree, links=(first, *tree.links[1:]))
    assert words.link_source_words(mixed) == "1 link measured, 9 nominal"
    assert words.quantity_counts(mixed)[Source.MEASURED] == 1


def test_relation_words() -> None:
    mesh = samples.mesh_8()
    assert words.relation_word(mesh, "gpu0", "gpu0") == "X"
    assert words.relation_word(mesh, "gpu0", "gpu1") == "NV1"
    assert words.relation_word(mesh, "gpu0", "gpu3") == "NV2"
    assert words.relation_word(mesh, "gpu0", "gpu5") == "SYS"
    refused = replace(mesh, routes=tuple(replace(r, peer_access=False) for r in mesh.routes))
    assert words.relation_word(refused, "gpu0", "gpu5") == "SYS!"
    assert words.relation_word(replace(mesh, routes=()), "gpu0", "gpu5") == "-"


def test_short_device_names() -> None:
    assert words.short_device_name("NVIDIA A100-SXM4-40GB", 14) == "A100-SXM4-40GB"
    assert words.short_device_name("NVIDIA A100-SXM4-40GB", 9) == "A100-SXM4"
    assert words.short_device_name("Tesla K80", 5) == "K80"
    assert words.short_device_name("AMD Instinct MI250X", 8) == "MI250X"
    assert words.short_device_name("AMD Instinct MI250X", 3) == ""
    assert words.short_device_name("", 8) == ""
