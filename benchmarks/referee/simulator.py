"""Schedules of messages played by SimGrid's MPI simulator."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType

from benchmarks.referee.simgrid import compile_for_smpi, run_on_smpi

from toposeat.errors import InputError, ToposeatError
from toposeat.evaluation import network_arrays
from toposeat.model.pair_table import Schedule
from toposeat.model.topology import Topology

_MAX_MESSAGE_BYTES = 2**31 - 1  # an int of MPI
_ROUNDING = 1e-6


class Referee:
    """Simulates schedules with SMPI; a context, whose program is compiled once.

    Raises:
        UnavailableError: there is no SimGrid.
    """

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="toposeat-referee-")
        self._program = Path(self._folder.name) / "smpi_schedule"
        try:
            compile_for_smpi([Path(__file__).with_name("smpi_schedule.c")], self._program)
        except BaseException:
            self._folder.cleanup()
            raise

    def __enter__(self) -> Referee:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._folder.cleanup()

    def seconds(
        self,
        topology: Topology,
        schedule: Schedule,
        device_of_rank: Sequence[int],
        *,
        message_bytes: float | None = None,
    ) -> float:
        """Simulated seconds of a schedule without barriers; see `run_on_smpi` for `message_bytes`.

        A pair's bytes in a phase are one message. SMPI adds 16 bytes to each message.

        Raises:
            InputError: a message that MPI cannot count.
            ToposeatError: the simulator let flows exceed a link: it is no referee then.
        """
        messages = Path(self._folder.name) / "messages"
        messages.write_text("".join(_message_lines(schedule)))
        output = run_on_smpi(
            topology,
            device_of_rank,
            self._program,
            [str(messages)],
            message_bytes=message_bytes,
        )
        (line,) = [each for each in output.splitlines() if each.startswith("seconds ")]
        seconds = float(line.split()[1])
        check_simulated(topology, schedule, device_of_rank, seconds)
        return seconds


def check_simulated(
    topology: Topology, schedule: Schedule, device_of_rank: Sequence[int], seconds: float
) -> None:
    """Refuse simulated seconds in which some link would carry more than it can.

    SimGrid 3.32 with its default options has such a fault (see `simgrid`).

    Raises:
        ToposeatError: naming the link.
    """
    arrays = network_arrays(topology)
    table = schedule.table()
    device = [int(each) for each in device_of_rank]
    load = [[0.0, 0.0] for _ in topology.links]
    uses: list[list[tuple[int, bool]]] = [[] for _ in range(arrays.devices**2)]
    for pair, link, reverse in zip(
        arrays.use_pair.tolist(), arrays.use_link.tolist(), arrays.use_reverse.tolist(), strict=True
    ):
        uses[pair].append((link, reverse))
    for source, target, nbytes in zip(
        table.source.tolist(), table.target.tolist(), table.bytes.tolist(), strict=True
    ):
        for link, reverse in uses[device[source] * arrays.devices + device[target]]:
            load[link][reverse] += nbytes
    for number, (forward, backward) in enumerate(load):
        capacity = arrays.capacity[number]
        need = max(
            forward / capacity[0], backward / capacity[1], (forward + backward) / capacity[2]
        )
        if seconds < need * (1 - _ROUNDING):
            raise ToposeatError(
                f"the simulated {seconds:g} s are less than the {need:g} s that link "
                f"{topology.links[number].id!r} needs for its bytes",
                hint="this SimGrid is no referee: use 3.32 or later with network/optim:Full",
            )


def _message_lines(schedule: Schedule) -> list[str]:
    lines = []
    for number, phase in enumerate(schedule.phases * schedule.repeats):
        for source, target, nbytes in zip(
            phase.source.tolist(), phase.target.tolist(), phase.bytes.tolist(), strict=True
        ):
            if nbytes > _MAX_MESSAGE_BYTES:
                raise InputError(
                    f"a message of {nbytes} bytes is more than MPI can count in one",
                    hint="use smaller messages",
                )
            if source != target:
                lines.append(f"{number} {source} {target} {nbytes}\n")
    return lines
