"""`toposeat map -t SHAPE`, `map -t NETWORK --node SRC`: a large job on a large machine."""

from __future__ import annotations

import argparse
import os
import sys
from functools import partial
from typing import TYPE_CHECKING

from toposeat.cli.command import map_options, print_json, quoted, show, show_decided, tell
from toposeat.cli.large_machine import has_hosts, large_machine
from toposeat.cli.page import page_text
from toposeat.cli.progress import progress_bar
from toposeat.cli.settings import decided_words
from toposeat.errors import UsageError
from toposeat.model.shell_words import shell_line

if TYPE_CHECKING:
    from toposeat.model.placement import Placement

_PARTS = 1000  # of the progress bar


def map_onto_shape(args: argparse.Namespace) -> int:
    """Map, show, save; the arguments are those of `toposeat map`."""
    from toposeat import launch, mapping, pipeline, profile, report  # noqa: PLC0415
    from toposeat.model.files import check_writable, write_atomically  # noqa: PLC0415
    from toposeat.model.placement_file import save_placement  # noqa: PLC0415

    _refuse_what_needs_devices(args)
    for target in (args.output, args.html):
        if target is not None:
            check_writable(target, overwrite=args.force)
    shape = large_machine(args)
    traffic = profile.read_traffic(args.traffic)
    with progress_bar(f"mapping {traffic.ranks} ranks") as advance:
        result = mapping.map_to_shape(
            shape,
            traffic,
            map_options(args, explained=args.explain),
            progress=lambda _stage, share: advance(round(share * _PARTS), _PARTS),
        )
    if args.launch is not None:
        dealing = pipeline.Dealing.of(args.launch, shape.hosts, os.environ)
        options = map_options(args)
        result, said = pipeline.dealt_at_scale(shape, traffic, options, result, dealing)
        tell(*said)
    if args.output is not None:
        placement = pipeline.placement_at_scale(
            result, shape, traffic, traffic_name=args.traffic, sources=_sources(args)
        )
        placement = placement.with_settings(decided_words(args))
        save_placement(placement, args.output, overwrite=args.force)
    if args.html is not None:
        section = report.Section(traffic=traffic, scale=result)
        title = f"{traffic.ranks} ranks on {shape.text}"
        page = page_text([section], title=title, subtitle=f"traffic: {args.traffic}")
        write_atomically(args.html, page, overwrite=args.force)
    # The files are safe before the result is shown: its reader may be gone.
    if args.json:
        print_json(report.scale_json(result, traffic), args)
    else:
        show(sys.stdout, partial(report.render_scale_text, verbose=args.verbose), result, traffic)
        show_decided(args)
    if args.output is None:
        more = "" if args.verbose else "; -v says more"
        tell(*([] if args.json or args.html else [f"Next: add -o app.place{more}"]))
    else:
        place = quoted(args.output)
        launcher = "srun" if "SLURM_JOB_ID" in os.environ else "mpirun"
        tell(
            *filter(None, [launch.visibility_words(placement)]),
            f"Wrote {args.output}",
            *next_lines(args, placement, launcher),
            *([f"Export: toposeat export {place} --launcher torchrun"] if has_hosts(args) else []),
        )
    if args.html is not None:
        tell(f"Wrote {args.html}")
    return 0


def next_lines(
    args: argparse.Namespace, placement: Placement, launcher: str = "mpirun"
) -> list[str]:
    """What to type for a placement that was written, or why the line of `args` cannot start it."""
    from toposeat import pipeline  # noqa: PLC0415

    command = args.launch or [launcher, "-n", str(placement.ranks), "./app"]
    refusal = pipeline.why_not_realised(command, placement) if args.launch is not None else []
    line = f"Next: toposeat run -p {quoted(args.output)} -- {shell_line(command)}"
    return refusal or [line]


def _sources(args: argparse.Namespace) -> dict[str, str]:
    """The machine as `compare` reads it again from a placement."""
    given = {"source": args.topology, "node": args.node, "hosts": args.hosts}
    return {name: value for name, value in given.items() if value is not None}


def _refuse_what_needs_devices(args: argparse.Namespace) -> None:
    """Refuse options that need a list of devices."""
    defaults = {"metric": "bandwidth", **dict.fromkeys(_OF_NODES)}
    for name, default in defaults.items():
        if getattr(args, name, default) not in (default, [], None, False):
            raise UsageError(
                f"--{name.replace('_', '-')} needs a topology with devices, not the shape of a"
                " large machine",
                hint="leave it out, or give a topology file with -t",
            )


_OF_NODES = ("devices", "exclude", "pin", "allow", "slots")
