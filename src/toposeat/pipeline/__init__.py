"""The only place that chains topology, profile, mapping and launch: tune, demo and compare."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toposeat.door import door

if TYPE_CHECKING:
    from toposeat.pipeline.advice import AdviceCase, clocked_advice, settings_to_try
    from toposeat.pipeline.borrowing import BorrowOptions, borrow, lent
    from toposeat.pipeline.choosing import choose_for_traffic
    from toposeat.pipeline.clocked import Candidate, ClockPlan, clock_placements, clocked_line
    from toposeat.pipeline.command_words import program_name
    from toposeat.pipeline.demonstration import DemoMachine, DemoOutcome, demo
    from toposeat.pipeline.emulated_demo import emulated_gain, emulated_mpi
    from toposeat.pipeline.gain import possible_gains
    from toposeat.pipeline.job_machine import (
        JobMachine,
        MachineSource,
        devices_of_job,
        machine_of_job,
    )
    from toposeat.pipeline.own_ids import with_own_ids
    from toposeat.pipeline.pattern_plan import PatternPlan, plan_pattern
    from toposeat.pipeline.pattern_runs import clock_pattern, pattern_lines
    from toposeat.pipeline.placing import (
        map_traffic,
        nominal_ids,
        open_machine,
        placement_of,
        positions_in,
    )
    from toposeat.pipeline.rehosting import rehosted
    from toposeat.pipeline.saved import result_of_saved
    from toposeat.pipeline.stack_path import (
        StackPath,
        assess,
        check_gpu_aware,
        map_on_path,
        path_of_stack,
    )
    from toposeat.pipeline.transport import as_nccl_is_set, transport_of
    from toposeat.pipeline.tuned import (
        Tuned,
        tune,
        tuned_placement_path,
        why_not_realised,
        with_script,
    )
else:
    __getattr__ = door(__name__, __file__)
