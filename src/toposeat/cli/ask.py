"""`toposeat ask`: what to request from a scheduler, before it chooses the nodes of a job."""

from __future__ import annotations

import argparse
import sys
from functools import partial

from toposeat.cli.command import (
    Command,
    add_network_options,
    add_topology_option,
    print_json,
    read_machine,
    show,
    show_decided,
    source_words,
    tell,
)
from toposeat.cli.machine import network_of
from toposeat.errors import UsageError
from toposeat.model.shell_words import shell_word


class AskCommand(Command):
    """Say how near each other the nodes of a job have to be, in the scheduler's own words."""

    name = "ask"

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare this verb's options."""
        parser.add_argument(
            "traffic",
            metavar="LAYOUT",
            help="what the job's ranks send each other, as for `map`: a pattern"
            " (llm:tp=8,pp=4,dp=16, stencil3d:8x8x8), a profile or a matrix",
        )
        add_topology_option(
            parser, help="the network of the whole cluster, or of the part that the job may use"
        )
        add_network_options(parser)

    def run(self, args: argparse.Namespace) -> int:
        """Predict, show."""
        from toposeat import launch, mapping, pipeline, profile, report, topology  # noqa: PLC0415
        from toposeat.model.shape_text import is_shape  # noqa: PLC0415

        if not (topology.is_network(args.topology) or is_shape(args.topology)):
            raise UsageError(
                f"{args.topology} is no network of hosts",
                hint="give that of the cluster with -t: kubectl get nodes -o json, Slurm's"
                " topology.conf, ...; what is inside a node with --node",
            )
        if args.node is None:
            raise UsageError(
                "what is inside a node is not said",
                hint="give it with --node: this, a topology file of one node, or a catalogue name",
            )
        network = network_of(args)
        node, traffic = read_machine(args.node), profile.read_traffic(args.traffic)
        asked = mapping.ask(network, node, traffic)
        devices: list[str] = []
        if traffic.ranks < len(node.devices) and len(node.hosts) == 1:
            chosen = pipeline.choose_for_traffic(node, traffic).devices
            devices = [node.devices[each].pci_bus_id or "" for each in chosen]
        requests = launch.requests_for(asked, devices=devices if all(devices) else ())
        if args.json:
            words = {each.scheduler: each.words for each in requests}
            print_json(report.document("toposeat/asked/1", asked, requests=words), args)
            return 0
        render = partial(report.render_asked_text, verbose=args.verbose)
        show(sys.stdout, render, asked, requests)
        show_decided(args)
        if network.links and not network.rates.bandwidths_bytes_per_s and network.rates.taper == 1:
            tell(
                "Note: the source does not say what uplinks carry, so they carry all: -t"
                f" {args.topology},taper=2 (or bandwidth=) says it"
            )
        again = f"{shell_word(args.traffic)}{source_words(args.topology)}"
        node_words = source_words(args.node).replace(" -t ", " --node ")
        tell(f"Next: in the job, toposeat map {again}{node_words} --hosts job -o job.place")
        return 0
