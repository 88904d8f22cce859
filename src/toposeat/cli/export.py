"""`toposeat export`: a placement as files and options of a launcher."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from toposeat.cli.command import (
    Command,
    add_force_option,
    print_json,
    quoted,
    show_decided,
    tell,
    write_result,
)

if TYPE_CHECKING:
    from toposeat.launch import Export

EXPORT_SCHEMA = "toposeat/export/1"


class ExportCommand(Command):
    """Write a launcher's own files for a placement: rankfile, host file, order of ranks."""

    name = "export"

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare this verb's options."""
        from toposeat.launch import EXPORTERS, VISIBILITIES  # noqa: PLC0415

        parser.add_argument("placement", metavar="PLACE", type=Path, help="a placement")
        parser.add_argument(
            "--launcher",
            metavar="NAME",
            required=True,
            choices=tuple(EXPORTERS),
            help="; ".join(f"{name}: {words}" for name, (words, _) in EXPORTERS.items()),
        )
        parser.add_argument(
            "--program",
            metavar="APP",
            default="./app",
            help="the program of the printed line (default: ./app)",
        )
        parser.add_argument(
            "--visibility",
            choices=VISIBILITIES,
            help="how a rank is shown its GPU, as for `run` (default: what the placement says)",
        )
        parser.add_argument(
            "-o",
            "--output",
            metavar="DIR",
            type=Path,
            help="write the files into this folder (default: print them)",
        )
        add_force_option(parser)

    def run(self, args: argparse.Namespace) -> int:
        """Make the files, then write or print them."""
        from toposeat import launch  # noqa: PLC0415
        from toposeat.model.placement_file import load_placement  # noqa: PLC0415

        placement = load_placement(args.placement)
        visibility, why = launch.visibility_of(placement, args.visibility)
        if why:
            tell(why)
        export = launch.export_placement(
            placement, args.launcher, visibility=visibility, program=args.program
        )
        written = [] if args.output is None else _write(export, args.output, overwrite=args.force)
        if args.json:
            print_json(_document(export, placement.ranks, written), args)
        elif args.output is None:
            write_result(_printed(export))
        show_decided(args, as_remark=True)
        tell(*(f"Note: {note}" for note in export.notes), *(f"Wrote {path}" for path in written))
        if args.output is not None and not export.files:
            tell("No file is needed: the launch line contains everything")
        if export.files or args.output is not None or args.json:
            where = f"cd {quoted(args.output)}; " if written else ""
            tell(f"Next: {where}{export.line}")
        return 0


def _write(export: Export, folder: Path, *, overwrite: bool) -> list[Path]:
    """Write all files or none: existing ones are found before anything is written."""
    from toposeat.model.files import check_writable, write_atomically  # noqa: PLC0415

    paths = [folder / file.name for file in export.files]
    for path in paths:
        path.parent.mkdir(parents=True, exist_ok=True)
        check_writable(path, overwrite=overwrite)
    for path, file in zip(paths, export.files, strict=True):
        write_atomically(path, file.text, overwrite=overwrite)
        if file.executable:
            mode = path.stat().st_mode
            path.chmod(mode | (mode & 0o444) >> 2)  # for all who may read it
    return paths


def _printed(export: Export) -> str:
    """Print one file as it is, several under headings, and without a file the launch line."""
    if not export.files:
        return export.line + "\n"
    if len(export.files) == 1:
        return export.files[0].text
    return "\n".join(f"==> {file.name} <==\n{file.text}" for file in export.files)


def _document(export: Export, ranks: int, written: Sequence[Path]) -> dict[str, object]:
    from toposeat.installed import VERSION  # noqa: PLC0415

    return {
        "schema": EXPORT_SCHEMA,
        "version": VERSION,
        "launcher": export.launcher,
        "ranks": ranks,
        "files": [
            {"name": file.name, "text": file.text, "executable": file.executable}
            for file in export.files
        ],
        "written": [str(path) for path in written],
        "environment": dict(export.environment),
        "command": list(export.command),
        "line": export.line,
        "notes": list(export.notes),
    }
