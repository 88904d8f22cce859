"""Placement -> command line, environment and bindings of a running job, and the proof of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toposeat.door import door

if TYPE_CHECKING:
    from toposeat.launch.allocation import all_here, allocation_of
    from toposeat.launch.borrow import (
        borrowed_line,
        hosts_of_ranks,
        run_borrowed,
        seat_words,
        verified,
    )
    from toposeat.launch.child import StopSignals, answer_of, run_child
    from toposeat.launch.export import export_placement, rank_environment
    from toposeat.launch.installations import (
        GpuAwareMpi,
        MpiInstallation,
        find_gpu_aware_mpi,
        find_installations,
        require_installations,
    )
    from toposeat.launch.launchers import EXPORTERS
    from toposeat.launch.launchers.launcher import LauncherKind, LaunchLine
    from toposeat.launch.launchers.seats import Allocation, Export
    from toposeat.launch.launchers.wrappers import Command, unwrapped
    from toposeat.launch.ledger import deciding_worlds, refuse_fewer, worlds_fault
    from toposeat.launch.lending import lend
    from toposeat.launch.lent_files import (
        asked,
        borrowing,
        choosing,
        lent_devices,
        lent_folder,
        write_borrowed,
    )
    from toposeat.launch.line import (
        TASK_FILE,
        check_ready,
        hand_on,
        identify_launcher,
        launcher_named,
        launcher_within,
        parse_launch_line,
        script_of,
        torchrun_below,
        wrap_with_exec,
        wrapped_tasks,
    )
    from toposeat.launch.microbench import (
        MICROBENCH,
        MOST_SIZES,
        MicrobenchAnswer,
        MicrobenchOptions,
        compiled_microbench,
        microbench_arguments,
        parse_microbench,
    )
    from toposeat.launch.moving import move_borrowers
    from toposeat.launch.per_node import node_answers
    from toposeat.launch.realise import oversubscribes, refusal_of
    from toposeat.launch.reorder import reorder_words, reordering
    from toposeat.launch.requests import requests_for
    from toposeat.launch.run import check_exists, run_placed, run_reordered
    from toposeat.launch.servers import server_of
    from toposeat.launch.stack import (
        conflict,
        for_devices,
        named_stack,
        stack_of,
        why_not_gpu_aware,
        with_rule,
    )
    from toposeat.launch.stack_rules import NVLINK_GPU, device_rule
    from toposeat.launch.verification import read_reports, verify
    from toposeat.launch.visibility import (
        VISIBILITIES,
        visibility_of,
        visibility_words,
        with_visibility,
    )
else:
    __getattr__ = door(__name__, __file__)
