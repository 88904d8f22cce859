"""Why a job was not started, in a few lines: the causes that its ranks gave, each said once."""

from __future__ import annotations

from collections.abc import Mapping

from toposeat.errors import ToposeatError
from toposeat.launch.rank_report import left_out, parse_seat_report
from toposeat.launch.start_decision import Verdicts
from toposeat.model.cpu_list import format_cpu_list

_MAX_CAUSES = 8
_ELSEWHERE = "is placed on another"
_NO_PROGRAM = "is not found, or cannot be executed"  # of toposeat-exec


def refusal_lines(
    verdicts: Verdicts, ranks: int, hosts: Mapping[int, str] | None = None
) -> list[str]:
    """The verdict, then every cause with its ranks, the commonest first; at most ten lines.

    Args:
        verdicts: of a job of which no rank was started.
        ranks: of the job.
        hosts: where each rank is placed, which nodes are told of their own ranks only.
    """
    causes = _causes(verdicts, hosts or {})
    missing = sorted(set(range(ranks)) - set(verdicts.reports))
    if missing and not causes:
        causes["was not heard: its node cannot reach this host"] = missing
    lines = [f"Not started: {_heading(verdicts, ranks)}"]
    ordered = sorted(causes.items(), key=lambda cause: (-len(cause[1]), cause[1]))
    lines += [f"  {ranks_in_words(own)}: {cause}" for cause, own in ordered[:_MAX_CAUSES]]
    if len(ordered) > _MAX_CAUSES:
        left = {rank for _, own in ordered[_MAX_CAUSES:] for rank in own}
        lines.append(f"  {ranks_in_words(sorted(left))}: {len(ordered) - _MAX_CAUSES} causes more")
    return lines


def refusal_error(verdicts: Verdicts, ranks: int) -> ToposeatError:
    """The error that ends `run` after `refusal_lines` were told."""
    return ToposeatError(
        f"no rank was started: {_heading(verdicts, ranks)}",
        hint="check the name of the program, or load its module"
        if all(cause.endswith(_NO_PROGRAM) for cause in _causes(verdicts, {})) and verdicts.unseated
        else "make a placement for the nodes and devices of this job with toposeat map, or give the"
        " job those that it was made for",
    )


def _heading(verdicts: Verdicts, ranks: int) -> str:
    unseated = len(verdicts.unseated) or len(verdicts.nameless)
    if unseated:
        return f"{unseated} of {ranks} ranks cannot be seated as placed"
    return f"{ranks - len(verdicts.reports)} of {ranks} ranks could not be asked"


def _causes(verdicts: Verdicts, hosts: Mapping[int, str]) -> dict[str, list[int]]:
    causes: dict[str, list[int]] = {}
    for rank in sorted(verdicts.unseated):
        report = parse_seat_report(verdicts.reports[rank]) or {}
        found = (*report.get("refusal", ()), *report.get("warning", ()), *left_out(report).values())
        cause = found[0] if found else "gave no cause"
        if cause.endswith(_ELSEWHERE) and rank in hosts:
            cause = f"{cause.removesuffix(_ELSEWHERE)}is placed on host {hosts[rank]}"
        causes.setdefault(cause, []).append(rank)  # the others follow from it
    for text in verdicts.nameless:
        report = parse_seat_report(text) or {}
        for cause in report.get("refusal", ("gave no cause",)):
            causes.setdefault(cause, [])
    return causes


def ranks_in_words(ranks: list[int]) -> str:
    """Ranks for people: `ranks 0-3,8`."""
    if not ranks:
        return "processes without a rank"
    return f"rank{'' if len(ranks) == 1 else 's'} {format_cpu_list(ranks)}"
