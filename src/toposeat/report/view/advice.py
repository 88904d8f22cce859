"""Advice about protocols: the stack, its settings, runs, and what follows from them."""

from __future__ import annotations

from collections.abc import Mapping

from toposeat.model.protocol import Advice, ProtocolRule, Stack
from toposeat.model.route import CopyProtocol
from toposeat.model.shell_words import shell_word
from toposeat.report.parts import Fact, Part, Table
from toposeat.report.text import PLAIN, TextStyle, lay_out
from toposeat.report.units import clean, format_bytes
from toposeat.report.view.runs import percent, render_clocked_text


def render_advice_text(advice: Advice, style: TextStyle = PLAIN) -> str:
    """What is recommended, what the stack does, what could be set, and what was clocked."""
    parts: list[Part] = [
        Fact("Advice", advice_verdict(advice)),
        *_lines(advice),
        "",
        *_stack(advice.stack),
        "",
        _settings(advice),
    ]
    text = lay_out(parts, style)
    if advice.clocked is not None:
        text = f"{text}\n{render_clocked_text(advice.clocked, style)}"
    return text


def advice_verdict(advice: Advice) -> str:
    """One sentence."""
    clocked = advice.clocked
    if clocked is None:
        return "no setting is left to try; keep the environment as it is"
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


def _settings(advice: Advice) -> Part:
    rows = [
        [
            clean(each.name),
            clean(_words(each.variables)),
            clean(advice.skipped.get(each.name, "")),
        ]
        for each in advice.stack.settings
    ]
    return Table(("setting", "set", "not tried"), rows)


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
