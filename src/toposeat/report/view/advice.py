"""Advice about protocols: the stack, predictions, runs, and what follows from them."""

from __future__ import annotations

from collections.abc import Mapping

from toposeat.model.protocol import (
    Advice,
    JointChoice,
    PairNote,
    Prediction,
    ProtocolRule,
    Stack,
)
from toposeat.model.route import CopyProtocol
from toposeat.model.shell_words import shell_word
from toposeat.report.parts import Fact, Part, Table, sentences
from toposeat.report.text import PLAIN, TextStyle, lay_out
from toposeat.report.units import clean, format_bytes, format_seconds
from toposeat.report.view.runs import percent, render_clocked_text


def render_advice_text(advice: Advice, style: TextStyle = PLAIN) -> str:
    """What is recommended, what the stack does, what could be set, and what was clocked."""
    parts: list[Part] = [
        Fact("Advice", advice_verdict(advice)),
        *_lines(advice),
        "",
        *_stack(advice.stack),
        "",
        _candidates(advice),
        *_bound(advice),
    ]
    if advice.pairs:
        parts += ["", *_pairs(advice.pairs)]
    parts += sentences(advice.notes)
    text = lay_out(parts, style)
    if advice.clocked is not None:
        text = f"{text}\n{render_clocked_text(advice.clocked, style)}"
    return text


def advice_verdict(advice: Advice) -> str:
    """One sentence."""
    clocked = advice.clocked
    if clocked is None:
        if not advice.promising:
            return "no setting is predicted to help; keep the environment as it is"
        return "predicted, not verified: nothing recommended yet"
    where = f" on the stand-in of {clean(clocked.emulated)} (EMULATED)" if clocked.emulated else ""
    if len(clocked.default_s) < 2:
        return "one repeat only: no spread, so nothing is verified; use --repeats 5"
    if advice.recommended is None:
        return f"no measurable gain{where}; keep the environment as it is"
    order = next(each for each in clocked.orders if each.name == advice.recommended.name)
    verified = f"{clean(order.name)}: verified{where}, {percent(order.gain.mean)} of the time saved"
    if clocked.emulated:
        return f"{verified}. This holds for the stand-in only; do not set it on a real machine"
    return verified


def environment_lines(variables: Mapping[str, str]) -> list[str]:
    """`export NAME=VALUE`, ready for a shell."""
    return [f"export {name}={shell_word(value)}" for name, value in variables.items()]


def render_joint_text(choice: JointChoice, style: TextStyle = PLAIN) -> str:
    """The placement that each protocol would have, by predicted time."""
    rows: list[list[str]] = []
    for each in choice.options:
        row = ["*" if each is choice.chosen else "", clean(each.setting.name)]
        if each.result is None:
            rows.append([*row, "", "", each.lacking])
            continue
        times = (each.result.default.predicted_s, each.result.placed.predicted_s)
        rows.append([*row, *map(format_seconds, times), _words(each.setting.variables)])
    header = ["", f"\n{clean(choice.stack)}", "default\npredicted", "placed\npredicted", "\nset"]
    advised = "predicted, not verified: nothing is set; `toposeat advise` verifies by runs"
    protocol = f"placed for {clean(choice.chosen.setting.name)} (*); {advised}"
    return lay_out([Table(header, rows, right=(2, 3)), "", Fact("Protocol", protocol)], style)


def _stack(stack: Stack) -> list[Part]:
    name = " ".join(each for each in (stack.kind.value, stack.version) if each)
    said: list[Part] = [
        Fact("Stack", clean(f"{name}, device messages by {stack.transport}")),
        Fact("Set now", clean(_words(stack.variables) or "no variable of it")),
        Fact("Does", _rule_words(stack.rule)),
    ]
    for each in stack.statements:
        source = f" [{each.source}]" if each.source else ""
        said.append(Fact("", clean(f"{each.basis.value}: {each.text}{source}")))
    return said


def _rule_words(rule: ProtocolRule) -> str:
    meaning = {
        CopyProtocol.GET: "the receiver reads",
        CopyProtocol.PUT: "the sender writes",
        CopyProtocol.COOPERATE: "both copy one half",
        CopyProtocol.STAGED: "through host memory",
    }
    words = [
        meaning[protocol] if first == 0 else f"from {format_bytes(first)} on {meaning[protocol]}"
        for first, protocol in rule.pieces
    ]
    return ", ".join(words)


def _candidates(advice: Advice) -> Part:
    rows: list[list[str]] = [_row(advice.present, now=True)]
    rows += [_row(each, now=False) for each in advice.candidates]
    header = ("\nsetting", "link time\npredicted", "gain\npredicted", "\nset")
    return Table(header, rows, right=(1, 2))


def _row(prediction: Prediction, *, now: bool) -> list[str]:
    seconds = prediction.predicted_s
    gain = "" if now or prediction.gain is None else percent(prediction.gain)
    return [
        clean(prediction.setting.name),
        "" if seconds is None else format_seconds(seconds),
        gain,
        clean(prediction.lacking or _words(prediction.setting.variables)),
    ]


def _bound(advice: Advice) -> list[Part]:
    if advice.envelope_s is None:
        return []
    words = f"{format_seconds(advice.envelope_s)} with the best protocol of every pair and size"
    return [Fact("Bound", f"{words} (predicted; no setting of this stack does that)")]


def _pairs(pairs: tuple[PairNote, ...]) -> list[Part]:
    names = [each.value for each in CopyProtocol if any(each.value in p.seconds for p in pairs)]
    rows: list[list[str]] = [
        [
            f"{pair.source} -> {pair.target}",
            format_bytes(pair.message_bytes),
            pair.present,
            *(format_seconds(pair.seconds[n]) if n in pair.seconds else "-" for n in names),
        ]
        for pair in pairs
    ]
    header = ["ranks", "message", "now", *names]
    return [
        Fact("Pairs", "with most bytes; one message alone, by the measured curves"),
        Table(header, rows, right=(1, *range(3, len(header)))),
    ]


def _lines(advice: Advice) -> list[Part]:
    """The lines to type, only for what was verified."""
    setting = advice.recommended
    if setting is None:
        return []
    lines: list[Part] = [f"    {each}" for each in environment_lines(setting.variables)]
    if advice.stack.kind.value.startswith("openmpi"):
        forwarded = " ".join(f"-x {name}" for name in setting.variables)
        lines.append(f"    (several nodes: mpirun {forwarded} ...)")
    if setting.caution:
        lines.append(Fact("Caution", clean(setting.caution)))
    return lines


def _words(variables: Mapping[str, str]) -> str:
    return " ".join(f"{name}={shell_word(value)}" for name, value in variables.items())
