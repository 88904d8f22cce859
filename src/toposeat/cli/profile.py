"""`toposeat profile`: record what ranks send each other."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from toposeat import launch, pipeline, profile, report
from toposeat.cli.command import (
    EXIT_FAILED,
    Command,
    add_flag,
    add_output_option,
    add_topology_option,
    positive_seconds,
    print_command,
    print_error,
    print_json,
    quoted,
    read_machine,
    require_launch,
    show,
    tell,
    write_result,
)
from toposeat.cli.output import refuse_other_forms
from toposeat.cli.progress import progress_bar
from toposeat.errors import ToposeatError, UnavailableError, UsageError
from toposeat.model.files import check_writable
from toposeat.model.job_folder import left_records

if TYPE_CHECKING:
    from toposeat.model.topology import Topology
    from toposeat.model.traffic import Traffic

_LINES = 14  # of the summary after a run


class ProfileCommand(Command):
    """Run an MPI or PyTorch job and record what its ranks send each other."""

    name = "profile"
    wraps = True
    needs_line = True
    usage = (
        "toposeat profile [-o F] [-f] [--no-time] [--phases HOW] [--reorder] [--partial]"
        " [--watch [-t SRC]] [--json] [--] LAUNCH...\n"
        "       toposeat profile --merge DIR... -o F [-f] [--partial] [--json]\n"
        "       toposeat profile --merge [--json]"
    )

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare this verb's options."""
        add_output_option(parser, "the profile (default: PROGRAM.prof)")
        parser.add_argument(
            "--keep-records",
            metavar="DIR",
            type=Path,
            help="keep the raw per-rank records in DIR (a new folder, for you only)",
        )
        parser.add_argument(
            "--merge",
            metavar="DIR",
            nargs="*",
            type=Path,
            help="run nothing: make a profile of the records in these folders, for example of one "
            "folder per node; without a folder, list the records of killed runs that are kept here",
        )
        add_flag(
            parser,
            "--partial",
            "make a profile even if some ranks have no record; without it that is an error",
        )
        add_flag(
            parser,
            "--no-time",
            "do not read the clock: least overhead, but no share of time in MPI",
        )
        parser.add_argument(
            "--phases",
            metavar="HOW",
            type=_phases,
            help="split the run: `pcontrol` at the application's calls of MPI_Pcontrol, or a "
            "number of seconds into windows of that length",
        )
        add_flag(
            parser,
            "--reorder",
            "record the program as `toposeat run --reorder` starts it: communicators are "
            "those of the reordered ranks",
        )
        add_flag(
            parser,
            "--watch",
            "say every few seconds on standard error what the job has sent, for less than 1 %%"
            " of a core",
        )
        add_topology_option(
            parser,
            required=False,
            dest="watched",  # what settings name is no machine that the job runs on
            help="with --watch: the node whose busiest link is told (default: this)",
        )
        add_flag(parser, "--dry-run", "print the exact command, run nothing")

    def run(self, args: argparse.Namespace) -> int:
        """Run the application under the interposer, merge, save, summarise."""
        refuse_other_forms(args.output, "the profile")
        if args.merge is not None:
            return self._merge(args)
        command = require_launch(args, self.name)
        recording = profile.Recording(
            timed=not args.no_time,
            phases=args.phases,
            reorder=launch.reordering(args.reorder),
        )
        if args.dry_run:
            print_command(profile.profile_line(command, recording=recording))
            return 0
        _offer_left_records()
        target = args.output or Path(f"{pipeline.program_name(command)}.prof")
        check_writable(target, overwrite=args.force)
        watch = _watch(args)
        with progress_bar("merging records") as progress:
            traffic, exit_code = profile.profile_run(
                command,
                directory=args.keep_records,
                recording=recording,
                partial=args.partial,
                progress=progress,
                beside=None if watch is None else watch.on,
            )
        return _save_and_show(args, traffic, target, exit_code)

    def _merge(self, args: argparse.Namespace) -> int:
        """Records that lie in folders already."""
        if args.launch:
            raise UsageError(
                f"{self.name}: --merge runs no command",
                hint=f"leave out --merge, or `-- {' '.join(args.launch)}`",
            )
        if not args.merge and args.output is not None:
            raise UsageError(
                f"{self.name}: --merge needs the folders of the records",
                hint="without -o it lists those that are kept",
            )
        if not args.merge:
            return _list_left_records(as_json=args.json)
        if args.output is None:
            raise UsageError(f"{self.name}: --merge needs a file to write", hint="add -o app.prof")
        check_writable(args.output, overwrite=args.force)
        with progress_bar("merging records") as progress:
            traffic = profile.merge_records(*args.merge, partial=args.partial, progress=progress)
        return _save_and_show(args, traffic, args.output, 0)


def _watch(args: argparse.Namespace) -> Watch | None:
    if not args.watch:
        if args.watched is not None:
            raise UsageError("profile: -t goes with --watch", hint="add --watch, or leave out -t")
        return None

    return Watch(args.watched)


def _offer_left_records() -> None:
    """Say that killed runs left records: the time they took is not lost."""
    count = len(left_records())
    if count:
        runs = "a run that was" if count == 1 else f"{count} runs that were"
        tell(
            f"note: records of {runs} killed or not complete are kept for 7 days:"
            " toposeat profile --merge lists them"
        )


def _list_left_records(*, as_json: bool) -> int:
    """What killed runs left on this node, with the line that reads each."""
    found = left_records()
    if as_json:
        folders = [
            {"folder": str(each.folder), "records": each.records, "found_s_ago": each.age_s}
            for each in found
        ]
        print_json({"schema": "toposeat/kept-records/1", "folders": folders})
        return 0
    lines = [
        f"# {each.records} records, found {each.age_s / 3600:.0f} h ago\n"
        f"toposeat profile --merge {quoted(each.folder)} --partial -o F\n"
        for each in found
    ]
    write_result("".join(lines) or "no records of killed runs are kept on this node\n")
    return 0


def _save_and_show(args: argparse.Namespace, traffic: Traffic, target: Path, exit_code: int) -> int:
    """Write the profile, say what is in it, and return the application's exit code."""
    from toposeat.model.traffic_file import save_traffic  # noqa: PLC0415

    try:
        save_traffic(traffic, target, overwrite=args.force)
    except ToposeatError as error:
        # The run may have taken hours: keep what it gave, wherever there is room.
        print_error(error)
        rescue = Path(tempfile.mkdtemp(prefix="toposeat-")) / target.name
        save_traffic(traffic, rescue)
        tell(f"Wrote {rescue} instead")
        return exit_code or EXIT_FAILED
    if args.json:
        print_json(report.profile_json(traffic))
    else:
        # The application owns stdout.
        lines = None if args.verbose else _LINES
        show(sys.stderr, partial(report.render_traffic_text, lines=lines), traffic)
    if args.launch:
        _warn_of_fewer(args, traffic)
    for line in traffic.report:
        if "damaged records are left out" in line or "ranks have no record" in line:
            tell(f"warning: {line}")
    more = (
        "" if args.verbose or args.json else f"; toposeat report {quoted(target)} shows all of it"
    )
    tell(f"Wrote {target}", f"Next: toposeat map {quoted(target)} -t this -o app.place{more}")
    return exit_code


def _warn_of_fewer(args: argparse.Namespace, traffic: Traffic) -> None:
    """Say it where ranks that the line starts are in no world: they may be meant to run alone."""
    try:
        launch.refuse_fewer(launch.parse_launch_line(args.launch), traffic.ranks, os.environ)
    except ToposeatError as error:
        tell(f"warning: {error.message}", f"hint:  {error.hint}")


def _phases(text: str) -> str | float:
    """Argparse type: how to split a run."""
    if text == "pcontrol":  # profile.PHASES_BY_MARK, without the import that --help does not need
        return text

    try:
        seconds = positive_seconds(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(
            f"expected pcontrol or a number of seconds, got {text!r}"
        ) from error
    if seconds < profile.MIN_WINDOW_S:
        raise argparse.ArgumentTypeError(
            f"a window is at least {profile.MIN_WINDOW_S:g} s, not {text}"
        )
    return seconds


_LEAST_S = 5.0  # between two looks
_SHARE = 0.008  # of a core for looks
_TELLING_S = 10.0  # of watching, before its cost means something


def machine_to_watch(source: str | None) -> tuple[Topology | None, str]:
    """The node whose links are told, or why none is."""
    try:
        machine = read_machine(source)
    except UnavailableError as error:
        if source not in (None, "this"):
            raise
        return None, f"not known: {error.message}; -t names a machine"
    if len(machine.hosts) > 1:
        raise UsageError(
            f"{machine.name} has {len(machine.hosts)} hosts, --watch shows the links of one",
            hint="name the topology of one node",
        )
    return machine, ""


class Watch:
    """What is told of a job."""

    def __init__(self, source: str | None) -> None:
        """Read the machine, and import what looks need, before the job starts."""
        self._machine, why_not = machine_to_watch(source)
        self._job = pipeline.JobWatch(self._machine, why_not)
        self._line = report.glance_line
        self._done = threading.Event()

    @contextmanager
    def on(self, folder: Path) -> Iterator[None]:
        """Look at the records in a folder as long as the block; say in the end what it took."""
        begin, spent_s = time.monotonic(), time.process_time()
        looks = threading.Thread(target=self._look_on, args=(folder,), daemon=True)
        looks.start()
        try:
            yield
        finally:
            self._done.set()
            looks.join()
            watched_s = time.monotonic() - begin
            if watched_s >= _TELLING_S:
                share = (time.process_time() - spent_s) / watched_s
                tell(f"Watched   {watched_s:.0f} s, for {share:.2%} of a core")

    def _look_on(self, folder: Path) -> None:
        pause = _LEAST_S
        while not self._done.wait(pause):
            begin = time.thread_time()
            glance = self._job.look(folder)
            if glance is not None:
                tell(self._line(glance, self._machine))
            pause = max(_LEAST_S, (time.thread_time() - begin) / _SHARE)
