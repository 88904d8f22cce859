"""`toposeat demo`: the whole path without a GPU."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from toposeat import launch, pipeline, report
from toposeat.cli.command import (
    Command,
    add_flag,
    add_force_option,
    print_json,
    quoted,
    show,
    show_mapping,
    tell,
    write_result,
)
from toposeat.cli.output import page_text
from toposeat.cli.progress import progress_bar
from toposeat.errors import ToposeatError, UsageError
from toposeat.model.files import write_atomically
from toposeat.model.shell_words import shell_line

if TYPE_CHECKING:
    from toposeat import pipeline
    from toposeat.launch import MpiInstallation
    from toposeat.model.runs import ClockedResult

DEFAULT_FOLDER = Path("toposeat-demo")


class DemoCommand(Command):
    """Run all steps on this machine; no GPU is needed."""

    name = "demo"

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare this verb's options."""
        parser.add_argument(
            "-o",
            "--output",
            metavar="DIR",
            type=Path,
            default=DEFAULT_FOLDER,
            help=f"where to write (default: {DEFAULT_FOLDER})",
        )
        add_flag(parser, "--predicted-only", "leave out the clocked gain on emulated GPUs")
        add_force_option(parser)

    def run(self, args: argparse.Namespace) -> int:
        """Compile, run, profile, map, report."""
        folder: Path = args.output
        # An earlier try that failed leaves an empty folder: nothing there can be overwritten.
        is_empty = folder.is_dir() and not any(folder.iterdir())
        if folder.exists() and not (args.force or is_empty):
            raise UsageError(
                f"{folder} exists", hint="add -f to write into it again, or give -o DIR"
            )
        installations = launch.require_installations()
        folder.mkdir(parents=True, exist_ok=True)
        with _program_output(folder, shown=args.verbose) as output:
            outcome = _first_that_works(folder, installations, output)
            clocked = None if args.predicted_only else _clocked(folder, output)
        page = folder / "report.html"
        sections = [report.Section(m.topology, outcome.traffic, m.result) for m in outcome.machines]
        text = page_text(
            sections,
            title="toposeat demo",
            subtitle=f"{shell_line(outcome.command)} ({outcome.mpi}); the profile was "
            "recorded here through host memory, the machines are catalogue entries with nominal "
            "numbers, and everything about them is predicted",
            commands=["toposeat tune -- mpirun -n 8 ./app", "toposeat run -- mpirun -n 8 ./app"],
        )
        write_atomically(page, text, overwrite=True)
        if args.json:
            print_json(_document(outcome, page, clocked))
        else:
            if args.verbose:
                _show_details(outcome, clocked)
            write_result("\n")
            machines = [(m.topology, m.result) for m in outcome.machines]
            show(sys.stdout, report.render_demo_text, machines, clocked)
        first = quoted(outcome.machines[0].placement_path)
        launch_line = outcome.command[: outcome.command.index(str(folder / "halo3d")) + 1]
        tell(
            f"Page      {page}: open it in a browser (one file, works offline)",
            f"Next      toposeat report {quoted(outcome.profile_path)}",
            "          toposeat map stencil2d:2x4,weight=3 -t dgx-1v",
            f"          toposeat run --dry-run -p {first} -- " + shell_line(launch_line),
            "          on a GPU node: toposeat tune -- mpirun -n 8 ./app",
        )
        return 0


def _show_details(outcome: pipeline.DemoOutcome, clocked: ClockedResult | None) -> None:
    """The profile, the mappings and the clocked runs in full."""
    show(sys.stdout, report.render_traffic_text, outcome.traffic)
    write_result(
        "\nThe profile above was recorded here, from host memory. The machines below are\n"
        "catalogue entries with nominal numbers: all their times are predicted.\n"
    )
    for m in outcome.machines:
        write_result("\n")
        show_mapping(m.result, m.topology, outcome.traffic, verbose=True)
    if clocked is not None:
        write_result(
            "\nClocked on emulated GPUs: ranks and copies are real, a copy takes as long\n"
            "as its links need. No GPU was used; these are not the times of one.\n\n"
        )
        show(sys.stdout, report.render_clocked_text, clocked)


@contextmanager
def _program_output(folder: Path, *, shown: bool) -> Iterator[IO[bytes] | None]:
    """Where the demo program's own output goes: a file of the folder unless it is `shown`."""
    if shown:
        yield None
        return
    with (folder / "output.txt").open("wb") as file:
        yield file


def _first_that_works(
    folder: Path, installations: Sequence[MpiInstallation], output: IO[bytes] | None
) -> pipeline.DemoOutcome:
    """The demo under the first MPI installation that can compile and run it."""
    for mpi in installations[:-1]:
        try:
            return pipeline.demo(folder, mpi, tell, output=output)
        except ToposeatError as error:
            tell(f"Skip      {mpi.description}: {error.message}")
    return pipeline.demo(folder, installations[-1], tell, output=output)


def _clocked(folder: Path, output: IO[bytes] | None) -> ClockedResult | None:
    """Measure the gain on emulated GPUs; where that is impossible, say why and return None."""
    mpi = pipeline.emulated_mpi()
    if isinstance(mpi, str):
        tell(f"Skip      the clocked gain on emulated GPUs: {mpi}")
        return None
    try:
        with progress_bar("clocked runs") as runs:
            return pipeline.emulated_gain(folder, mpi, tell, output=output, runs=runs)
    except ToposeatError as error:
        tell(f"Skip      the clocked gain on emulated GPUs: {error.message}")
        return None


def _document(
    outcome: pipeline.DemoOutcome, page: Path, clocked: ClockedResult | None
) -> dict[str, Any]:
    return {
        "schema": "toposeat/demo/1",
        "mpi": outcome.mpi,
        "command": list(outcome.command),
        "profile": str(outcome.profile_path),
        "report": str(page),
        "clocked": report.form_of(clocked),
        "machines": [
            report.mapping_json(m.result, m.topology, outcome.traffic) for m in outcome.machines
        ],
    }
