"""`toposeat discover`: what a machine is."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from toposeat import report, topology
from toposeat.cli.command import (
    Command,
    add_flag,
    add_output_option,
    add_topology_option,
    print_json,
    quoted,
    read_machine,
    show,
    source_words,
    tell,
    write_result,
)
from toposeat.cli.output import output_form, page_text, today
from toposeat.errors import ToposeatError, UsageError
from toposeat.model.files import check_writable, write_atomically
from toposeat.model.shell_words import sources_in

if TYPE_CHECKING:
    from toposeat.model.network import Network
    from toposeat.model.topology import Topology


_FORMS = ("text", "json", "svg", "html", "nccl")
_LINES = 29  # of an overview, without the line that says what is next


class DiscoverCommand(Command):
    """Show how the GPUs of a machine are connected: of this one, of files, or of the catalogue."""

    name = "discover"

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare this verb's options."""
        add_topology_option(parser, required=False)
        add_output_option(parser, "the topology")
        parser.add_argument(
            "--format",
            choices=_FORMS,
            help="default: what the name of -o ends in, else text; svg is a picture, html a page;"
            " nccl (.xml) is a file for NCCL_TOPO_FILE, where the last of several -t may list the"
            " GPUs of a guest",
        )
        add_flag(parser, "--list", "list the machines of the catalogue and your own")

    def run(self, args: argparse.Namespace) -> int:
        """Read, show, save."""
        from toposeat.model.shape_text import is_shape  # noqa: PLC0415

        if args.list:
            _list(as_json=args.json or args.format == "json")
            return 0
        form = output_form(args.output, args.format, _FORMS)
        if args.output is not None:
            check_writable(args.output, overwrite=args.force)
        source = "this" if args.topology is None else args.topology
        if topology.is_network(source) or is_shape(source):
            if form == "nccl":
                raise UsageError(
                    "NCCL's file is of one node, not of a network",
                    hint="map onto it: toposeat map TRAFFIC -t NETWORK --node SRC",
                )
            network = topology.read_network(source)
            content = partial(_network_content, network)
            document = partial(report.document, "toposeat/network/1", network)
            _give(args, form, content, document, partial(_show_network, args, network))
        elif form == "nccl" and (args.output is not None or not args.json):
            machine = _write_nccl(args)
            if args.json:
                print_json(_document(machine))
        else:
            machine = read_machine(source)
            content, document = partial(_content, machine), partial(_document, machine)
            _give(args, form, content, document, partial(_show_text, args, machine))
            if args.output is not None and form in (None, "json"):
                tell(f"Next: toposeat map TRAFFIC -t {quoted(args.output)} -o app.place")
        return 0


def _give(
    args: argparse.Namespace,
    form: str | None,
    content: Callable[[str], str],
    document: Callable[[], dict[str, Any]],
    show_text: Callable[[], None],
) -> None:
    """Save where a file is named, else show; JSON is printed beside a file if `--json` says so."""
    if args.output is not None:
        write_atomically(args.output, content(form or "json"), overwrite=args.force)
        tell(f"Wrote {args.output}")
    if args.json or (args.output is None and form == "json"):
        print_json(document())
    elif args.output is None and form in (None, "text"):
        show_text()
    elif args.output is None:
        write_result(content(form or "json").encode(errors="replace"))


def _write_nccl(args: argparse.Namespace) -> Topology:
    """Write the topology as NCCL's file, and say what that does not hold."""
    machine = _machine_for_nccl(args)
    text, notes = topology.nccl_xml(machine)
    if args.output is None:
        write_result(text)
    else:
        write_atomically(args.output, text, overwrite=args.force)
    tell(*(f"Note: {note}" for note in notes))
    if args.output is not None:
        tell(f"Wrote {args.output}", f"Next: export NCCL_TOPO_FILE={quoted(args.output.resolve())}")
    return machine


def _machine_for_nccl(args: argparse.Namespace) -> Topology:
    """The machine, under the bus ids of a guest where the last source lists those."""
    source = args.topology or "this"
    found = topology.with_guest(sources_in(source))
    if found is None:
        return read_machine(source)
    host, machine = found
    left_out = len(host.devices) - len(machine.devices)
    if left_out:
        tell(f"Note: {left_out} of the host's {len(host.devices)} GPUs are not in the guest")
    return machine


def _document(machine: Topology) -> dict[str, Any]:
    """The machine, and what is known of it."""
    members, known = topology.topology_document(machine), topology.knowledge_of(machine)
    return report.document(members["schema"], members, knowledge=known)


def _content(machine: Topology, form: str) -> str:
    """The machine as a topology file, a picture, a page or text."""
    if form == "json":
        return topology.topology_text(machine)
    if form == "text":
        return report.render_topology_text(machine)
    if form == "html":
        return page_text([report.Section(machine)], title=machine.name)
    return report.topology_svg(machine, created=today())


def _show_text(args: argparse.Namespace, machine: Topology) -> None:
    """The machine as text: an overview, or with -v everything."""
    lines = None if args.verbose else _LINES
    known = topology.knowledge_of(machine)
    show(sys.stdout, partial(report.render_topology_text, knowledge=known, lines=lines), machine)
    if lines is not None:
        words = "" if args.topology is None else source_words(args.topology)
        tell(f"Next: toposeat doctor{words}; -v says more")


def _list(*, as_json: bool) -> None:
    from toposeat.model.shape_text import KNOWN_SHAPES  # noqa: PLC0415

    machines: list[tuple[Topology, Path | None]] = [
        (topology.read_topology(path), None) for path in topology.built_in_machines().values()
    ]
    for name, path in topology.own_machines().items():
        try:
            topology.machine_path(name)  # refuses a name that the catalogue has
            machines.append((topology.read_topology(path), path))
        except ToposeatError as error:
            tell(f"warning: {error.message}", f"hint: {error.hint}")
    networks = tuple(KNOWN_SHAPES.values())
    if not as_json:
        show(sys.stdout, partial(report.render_catalogue_text, networks=networks), machines)
        return
    entries = [
        {
            "name": machine.name,
            "description": machine.description,
            "devices": [device.name for device in machine.devices],
            "link_kinds": sorted({link.kind.value for link in machine.links}),
            "sources": list(machine.sources),
            "remarks": report.remarks(machine),
            "where": "built in" if path is None else str(path),
        }
        for machine, path in machines
    ]
    print_json(
        {
            "schema": "toposeat/catalogue/1",
            "machines": [machine.name for machine, _ in machines],
            "entries": entries,
            "networks": [
                {
                    "name": each.name,
                    "description": each.description,
                    "shape": each.shape,
                    "hosts": each.hosts,
                    "sources": list(each.sources),
                    "remarks": [f"assumed: {each.assumed}"],
                }
                for each in networks
            ],
        }
    )


def _show_network(args: argparse.Namespace, network: Network) -> None:
    """A network of hosts as text: levels, hosts, capacities."""
    lines = None if args.verbose else _LINES
    show(sys.stdout, partial(report.render_network_text, lines=lines), network)
    if lines is not None:
        tell(f"Next: toposeat map TRAFFIC -t {quoted(args.topology)} --node SRC; -v says more")


def _network_content(network: Network, form: str) -> str:
    """A network as a picture, a page, text or JSON."""
    from toposeat import mapping  # noqa: PLC0415

    if form == "json":
        return report.json_text(report.document("toposeat/network/1", network))
    if form == "text":
        return report.render_network_text(network)
    stages, assumed = mapping.stages_of_network(network)
    if form == "html":
        section = report.Section(network=network, stages=stages, text="; ".join(assumed))
        return page_text([section], title=network.name)
    return report.network_file(network, stages, [*assumed], created=today())
