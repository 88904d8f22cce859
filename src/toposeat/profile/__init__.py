"""Traffic from real runs, other tools' files and named patterns."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toposeat.door import door

if TYPE_CHECKING:
    from toposeat.profile.importers.formats import holds_traffic
    from toposeat.profile.importers.matrices import traffic_of_array, traffic_of_edges
    from toposeat.profile.pattern.patterns import (
        EXCHANGE_FORMS,
        PATTERNS,
        grid_exchange,
        pattern_traffic,
    )
    from toposeat.profile.recording.library import (
        choose_abi,
        choose_library,
        has_own_mpi,
    )
    from toposeat.profile.recording.run import (
        MIN_WINDOW_S,
        PHASES_BY_MARK,
        MissingRecordsError,
        NothingRecordedError,
        Recording,
        merge_records,
        profile_line,
        profile_run,
    )
    from toposeat.profile.records.merge import read_folders, read_records
    from toposeat.profile.schedules import (
        ALGORITHMS,
        collective_schedule,
        default_algorithm,
        exchange_schedule,
        schedule_traffic,
    )
    from toposeat.profile.sources import read_traffic
else:
    __getattr__ = door(__name__, __file__)
