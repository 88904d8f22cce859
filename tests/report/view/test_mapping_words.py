from __future__ import annotations

from dataclasses import replace

from tests.report import samples
from tests.report.profile_samples import full_profile
from toposeat.model.evaluation import Certificate
from toposeat.report.view import mapping as words
from toposeat.report.view.traffic import mpi_share


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


def test_verdict_of_a_gain_names_before_and_after() -> None:
    tree, traffic = samples.k80_16(), samples.stencil((2, 2, 4), weight=3)
    result = samples.mapping(tree, traffic, samples.K80_PLACED)
    assert words.verdict_words(result) == (
        "Predicted gain from moving 14 of 16 ranks: link time 5.03 ms to 1.68 ms (saves 67 %),"
        " worst link congestion 5.03 ms to 1.68 ms (saves 67 %)."
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
    tried = replace(unproved.certificate, orders_tried=12345, lower_bound=1.6)
    assert words.verdict_words(replace(unproved, certificate=tried)).endswith(
        ": 12,345 orders of nodes tried, best bound 1.60 s."
    )


def test_reach_follows_amdahl() -> None:
    tree = samples.k80_16()
    traffic = samples.timed(samples.stencil((2, 2, 4), weight=3), wall_s=10, mpi_s=2.0)
    result = samples.mapping(tree, traffic, samples.K80_PLACED)
    share = mpi_share(traffic)
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
