from dataclasses import replace

from tests.report import samples
from tests.report.profile_samples import full_profile
from toposeat.model.evaluation import Certificate
from toposeat.report import render_mapping_text
from toposeat.report.units import format_percent, format_seconds
from toposeat.report.view import mapping as words
from toposeat.report.view.traffic import mpi_share


def certificate(**changes):
    base = Certificate(objective="time", proved=False, value=2.0, lower_bound=None, gap=None)
    return replace(base, **changes)  # type: ignore[arg-type]


def test_certificate_in_words():
    assert words.certificate_words(certificate()) == (
        "Heuristic for link time (2.00 s): no bound known, a better placement may exist."
    )
    assert words.certificate_words(certificate(lower_bound=1.6, gap=0.25)) == (
        "Not proved optimal for link time: 2.00 s, at most 25 % above the lower bound (1.60 s)."
    )
    assert words.certificate_words(certificate(lower_bound=1.6, gap=0.25, orders_tried=12345)) == (
        "Not proved optimal for link time: 2.00 s, at most 25 % above the lower bound (1.60 s);"
        " 12,345 orders of nodes tried."
    )
    assert words.certificate_words(
        certificate(proved=True, lower_bound=2.0, gap=0.0, reason="all 40320 orders tried")
    ) == (
        "Proved optimal for link time (2.00 s): no placement has a lower value."
        " Because: all 40320 orders tried."
    )


def test_verdict_of_a_gain_names_before_and_after():
    tree, traffic = samples.k80_16(), samples.stencil((2, 2, 4), weight=3)
    result = samples.mapping(tree, traffic, samples.K80_PLACED)
    assert words.verdict_words(result) == (
        "Predicted gain from moving 14 of 16 ranks: link time 5.03 ms to 1.68 ms (saves 67 %),"
        " worst link congestion 5.03 ms to 1.68 ms (saves 67 %)."
    )
    assert words.moved_words(result) == "14 ranks moved"


def test_verdict_of_a_loss_does_not_call_it_a_gain():
    tree, traffic = samples.small_tree(), samples.stencil((4,))
    result = samples.mapping(tree, traffic, (0, 2, 1, 3), proved=False)
    assert words.outcome_word(result) == "loss"
    assert words.verdict_words(result).startswith("Predicted loss from moving 2 of 4 ranks")


def test_verdict_when_the_default_is_kept():
    tree, traffic = samples.small_tree(), samples.stencil((4,))
    kept = samples.mapping(tree, traffic, range(4))
    assert words.verdict_words(kept) == (
        "No gain: the default placement is kept, because it is proved optimal for worst link"
        " congestion."
    )
    unproved = samples.mapping(tree, traffic, range(4), proved=False)
    assert "nothing better was found" in words.verdict_words(unproved)
    tried = replace(unproved.certificate, orders_tried=12345, lower_bound=1.6)
    assert words.verdict_words(replace(unproved, certificate=tried)).endswith(
        ": 12,345 orders of nodes tried, best bound 1.60 s."
    )


def test_reach_follows_amdahl():
    tree = samples.k80_16()
    traffic = samples.timed(samples.stencil((2, 2, 4), weight=3), wall_s=10, mpi_s=2.0)
    result = samples.mapping(tree, traffic, samples.K80_PLACED)
    share = mpi_share(traffic)
    assert share is not None
    ratio = result.placed.predicted_s / result.default.predicted_s
    expected = 1 / (1 - share * (1 - ratio))
    said = words.reach_words(result, tree, traffic)
    assert said is not None
    assert said.endswith(f"expect at most about {expected:.2f}x.")
    kept = samples.mapping(tree, traffic, range(16))
    assert words.reach_words(kept, tree, traffic) == (
        "Your run spends 22 % of its time in MPI calls (measured where it was recorded)."
    )


def test_reach_counts_only_what_placement_serves():
    """40 % of the run is in MPI, but only 30 % of it on the device buffers that are placed."""
    tree, traffic = samples.small_tree(), full_profile()
    said = words.reach_words(samples.mapping(tree, traffic, range(4)), tree, traffic)
    assert said is not None
    assert "Your run spends 30 % of its time in MPI calls on device buffers" in said


def test_reach_is_silent_without_times():
    tree, traffic = samples.k80_16(), samples.stencil((2, 2, 4))
    assert words.reach_words(samples.mapping(tree, traffic, range(16)), tree, traffic) is None


def on_host(topology, host):
    return replace(topology, devices=tuple(replace(d, host=host) for d in topology.devices))


def test_reach_in_seconds_is_of_a_run_on_this_machine():
    """4 s of 10 s are saved of link time, and more time than it takes was measured in MPI."""
    tree = samples.k80_16()
    traffic = samples.timed(samples.stencil((2, 2, 4), weight=3), wall_s=10, mpi_s=5.0)
    result = samples.mapping(tree, traffic, samples.K80_PLACED)
    scale = 2.5 / result.default.predicted_s
    ratio = result.placed.predicted_s / result.default.predicted_s
    result = replace(
        result,
        default=replace(result.default, predicted_s=2.5),
        placed=replace(result.placed, predicted_s=result.placed.predicted_s * scale),
    )
    saved, measured = 2.5 * (1 - ratio), 10 * (mpi_share(traffic) or 0)
    said = (
        f"saves {format_seconds(saved)} of 10.0 s ({format_percent(saved / 10)}); the default's"
        f" link time is 2.50 s of {format_seconds(measured)} in MPI calls (predicted of measured)."
    )
    there = on_host(tree, "Node07.cluster.example")
    assert words.reach_words(result, there, traffic) == said
    little = replace(result, min_gain=0.99)
    assert words.reach_words(little, there, traffic) == f"Little of the run: {said}"
    text = " ".join(render_mapping_text(little, there, traffic).split())
    assert text.startswith(f"Verdict {words.verdict_words(result)} Whole run Little of the run: ")
    kept = replace(result, placed=result.default, device_of_rank=result.default.device_of_rank)
    assert (words.reach_words(kept, there, traffic) or "").startswith("The default's link time is")


def test_reach_elsewhere_is_only_a_bound():
    tree = on_host(samples.k80_16(), "node08")
    traffic = samples.timed(samples.stencil((2, 2, 4), weight=3), wall_s=10, mpi_s=2.0)
    result = samples.mapping(tree, traffic, samples.K80_PLACED)
    elsewhere = words.reach_words(result, tree, traffic) or ""
    assert "(measured where it was recorded), so expect at most about" in elsewhere
    used = tuple(
        replace(info, device_pci_bus_id=device.pci_bus_id)
        for info, device in zip(traffic.rank_info, tree.devices, strict=True)
    )
    short = replace(result, default=replace(result.default, predicted_s=0.1))
    short = replace(short, placed=replace(result.placed, predicted_s=0.05))
    same_devices = words.reach_words(short, tree, replace(traffic, rank_info=used)) or ""
    assert same_devices.startswith("Little of the run: saves 50.0 ms of 10.0 s (0.5 %); ")
    # More link time than there was time in MPI: the prediction is not of this run.
    long = replace(result, default=replace(result.default, predicted_s=99.0))
    assert "expect at most" in (
        words.reach_words(long, tree, replace(traffic, rank_info=used)) or ""
    )


def test_no_reach_of_ranks_that_waited_for_cpus():
    tree = on_host(samples.k80_16(), "node07")
    traffic = samples.timed(samples.stencil((2, 2, 4), weight=3), wall_s=10, mpi_s=9.0)
    ranks = tuple(replace(info, cpus="0-1") for info in traffic.rank_info)
    traffic = replace(traffic, rank_info=ranks)
    result = samples.mapping(tree, traffic, samples.K80_PLACED)
    assert words.reach_words(result, tree, traffic) is None
    text = " ".join(render_mapping_text(result, tree, traffic).split())
    assert "Doubt 16 ranks had 2 CPUs (0-1): waiting for a CPU counts as time in MPI" in text
    assert "Whole run" not in text
