"""`toposeat tune`: discover, profile and map in one step."""

from __future__ import annotations

import argparse

from toposeat import launch, pipeline, report
from toposeat.cli.command import (
    Command,
    add_everyday_group,
    add_flag,
    add_goal_options,
    add_network_options,
    add_stack_option,
    add_topology_option,
    map_options,
    print_json,
    require_launch,
    show_decided,
    show_mapping,
    tell,
)
from toposeat.cli.constraints import add_constraint_options, add_device_options, constraints_of
from toposeat.cli.progress import progress_bar, search_bar
from toposeat.cli.settings import decided_words
from toposeat.model.shell_words import shell_line


class TuneCommand(Command):
    """Discover the machine of a job, profile its command and find its placement, in one step."""

    name = "tune"
    wraps = True
    needs_line = True
    usage = "toposeat tune [-t SRC] [options] [--] LAUNCH..."

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare this verb's options."""
        everyday = add_everyday_group(parser)
        add_topology_option(everyday, required=False)
        add_flag(everyday, "--again", "profile again even if a profile is cached")
        add_device_options(everyday)
        add_goal_options(everyday)
        add_stack_option(everyday)
        add_network_options(parser)
        add_constraint_options(parser)

    def run(self, args: argparse.Namespace) -> int:
        """Tune, show, say how to run."""
        command = require_launch(args, self.name)
        with progress_bar("merging records") as merging:
            tuned = pipeline.tune(
                command,
                source=pipeline.MachineSource(
                    topology=args.topology,
                    node=args.node,
                    hosts=args.hosts,
                    reserved=args.reserve_cpus,
                ),
                profile_again=args.again,
                options_for=lambda machine: map_options(
                    args, constraints=constraints_of(args, machine)
                ),
                progress=tell,
                stack=args.stack,
                settings=decided_words(args),
                merging=merging,
                searching=search_bar("placing the ranks", args.budget or 0),
            )
        says = launch.visibility_words(tuned.placement)
        wrote = [*filter(None, [says]), f"Wrote {tuned.placement_path}"]
        result, topology, traffic = tuned.result, tuned.topology, tuned.traffic
        if args.json:
            files = {"placement": str(tuned.placement_path), "profile": str(tuned.profile_path)}
            document = report.mapping_json(result, topology, traffic)
            print_json(document | report.form_of({"stack": tuned.path.stack, **files}), args)
        else:
            show_mapping(result, topology, traffic, verbose=args.verbose)
            show_decided(args)
        refusal = pipeline.why_not_realised(command, tuned.placement)
        next_line = f"Next: toposeat run -- {shell_line(command)}"
        tell(*wrote, *(refusal or [next_line]))
        return tuned.exit_code
