"""The JSON forms of advice about protocols, and of a choice of placement and protocol together."""

from __future__ import annotations

from typing import Any

import msgspec

from toposeat.installed import VERSION
from toposeat.model.protocol import Advice, JointChoice, ProtocolRule, Setting
from toposeat.report.json.bench import clocked_json

ADVICE_SCHEMA = "toposeat/advice/1"


def advice_json(advice: Advice) -> dict[str, Any]:
    """Everything that was predicted and, apart from it, clocked.

    `recommended` is null unless runs have verified it; `emulated` names the stand-in machine where
    they were on one, and then it holds for that stand-in alone.
    """
    stack = advice.stack
    clocked = advice.clocked
    return {
        "schema": ADVICE_SCHEMA,
        "version": VERSION,
        "stack": {
            "kind": stack.kind.value,
            "version": stack.version,
            "transport": stack.transport,
            "variables": dict(stack.variables),
            "rule": rule_json(stack.rule),
            "statements": [msgspec.to_builtins(each) for each in stack.statements],
        },
        "present": {"predicted_s": advice.present.predicted_s, "lacking": advice.present.lacking},
        "candidates": [
            {
                **setting_json(each.setting),
                "predicted_s": each.predicted_s,
                "predicted_gain": each.gain,
                "lacking": each.lacking,
            }
            for each in advice.candidates
        ],
        "envelope_s": advice.envelope_s,
        "pairs": [msgspec.to_builtins(each) for each in advice.pairs],
        "tried": list(advice.tried),
        "clocked": None if clocked is None else clocked_json(clocked),
        "emulated": "" if clocked is None else clocked.emulated,
        "recommended": None if advice.recommended is None else setting_json(advice.recommended),
        "notes": list(advice.notes),
    }


def joint_json(choice: JointChoice) -> dict[str, Any]:
    """All options with their predictions; `chosen` is the name of the one that was taken."""
    return {
        "stack": choice.stack,
        "chosen": choice.chosen.setting.name,
        "verified": False,
        "options": [
            {
                **setting_json(each.setting),
                "lacking": each.lacking,
                "device_of_rank": None if each.result is None else list(each.result.device_of_rank),
                "default_s": None if each.result is None else each.result.default.predicted_s,
                "placed_s": None if each.result is None else each.result.placed.predicted_s,
            }
            for each in choice.options
        ],
    }


def setting_json(setting: Setting) -> dict[str, Any]:
    """A setting with its variables and its rule."""
    return {
        "name": setting.name,
        "variables": dict(setting.variables),
        "rule": rule_json(setting.rule),
        "source": setting.source,
        "caution": setting.caution,
    }


def rule_json(rule: ProtocolRule) -> list[dict[str, Any]]:
    """Pieces of a rule: from which size on which protocol."""
    return [{"from_bytes": first, "protocol": protocol.value} for first, protocol in rule.pieces]
