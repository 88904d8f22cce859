"""`toposeat doctor`: how a machine is wired, what is wrong with it, what order could gain."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from toposeat.cli.command import (
    Command,
    add_topologies_option,
    print_json,
    quoted,
    read_machine,
    show,
    tell,
    write_result,
)
from toposeat.cli.doctor_node import node_findings
from toposeat.cli.settings import KEYS, PROJECT_FILE, Settings, config_files
from toposeat.errors import UnavailableError
from toposeat.model.health import Finding, Health, Severity, Verdict
from toposeat.model.quantity import WORTH_SAYING

if TYPE_CHECKING:
    from toposeat.model.topology import Topology


class DoctorCommand(Command):
    """Check a machine: its wiring, its faults, and what the order of ranks could gain."""

    name = "doctor"

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare this verb's options."""
        add_topologies_option(parser)
        parser.add_argument(
            "--config",
            action="store_true",
            help="show which settings apply, and where they are from, instead of a machine",
        )
        parser.add_argument(
            "--strict",
            action="store_true",
            help="exit with 1 for doubts too, not only for faults and what is untold",
        )

    def run(self, args: argparse.Namespace) -> int:
        """Collect the findings, print them, return the verdict as exit code."""
        from toposeat import pipeline, report, topology  # noqa: PLC0415

        if args.config:
            _show_settings(args.settings, as_json=args.json)
            return 0
        sources = args.topology or ["this"]
        node = node_findings() if "this" in sources else ()
        machine, missing = _machine(sources)
        health = Health(findings=missing, node=node)
        if machine is not None:
            health = Health(
                wiring=topology.wiring_of(machine),
                gains=pipeline.possible_gains(machine),
                findings=topology.findings_of(machine),
                node=node,
            )
        if args.json:
            print_json(report.health_json(machine, health))
        else:
            show(sys.stdout, report.render_health_text, machine, health)
            if machine is not None and any(gain.share >= WORTH_SAYING for gain in health.gains):
                tell(_next_words(sources, len(machine.devices)))
        doubtful = args.strict and health.severity is Severity.DOUBT
        return 1 if doubtful or health.verdict is not Verdict.HEALTHY else 0


def _next_words(sources: list[str], devices: int) -> str:
    """How to gain what an order of ranks may save."""
    if sources == ["this"]:
        return f"Next: toposeat tune -- mpirun -n {devices} ./app"
    if len(sources) > 1:
        return "Next: merge them by toposeat discover -o FILE, then toposeat map TRAFFIC -t FILE"
    return f"Next: toposeat map TRAFFIC -t {quoted(sources[0])}"


def _show_settings(found: Settings, *, as_json: bool) -> None:
    """What applies here, and whence."""
    files = config_files(os.environ, Path.cwd())
    if as_json:
        print_json(
            {
                "schema": "toposeat/settings/1",
                "user_file": None if files.user is None else str(files.user),
                "project_file": None if files.project is None else str(files.project),
                "settings": {
                    key: {"value": each.value, "source": each.source} for key, each in found.items()
                },
            }
        )
        return
    user = "no home folder"
    if files.user is not None:
        user = f"{files.user}{'' if files.user.exists() else ', not there'}"
    lines = [
        f"user's file     {user}",
        f"project's file  {files.project or f'no {PROJECT_FILE} to be read here or above'}",
        "",
        *(
            f"{key:<10} {found[key].value}  ({found[key].source})"
            if key in found
            else f"{key:<10} not set: {what}"
            for key, what in KEYS.items()
        ),
    ]
    write_result("\n".join(lines) + "\n")


def _machine(sources: list[str]) -> tuple[Topology | None, tuple[Finding, ...]]:
    """The machine, or a finding where this one has no GPU; a file that is wrong is an error."""
    try:
        return read_machine(sources), ()
    except UnavailableError as error:
        code = "gpu-hidden" if "hidden from this process" in error.message else "gpu-missing"
        finding = Finding(
            severity=Severity.FAULT, code=code, subject="", detail=error.message, hint=error.hint
        )
        return None, (finding,)
