"""ibrun of TACC, which starts ranks in blocks over the hosts of a job. Never run."""

from __future__ import annotations

from toposeat.errors import UsageError
from toposeat.launch.launchers.launcher import Launch, Launcher, OptionTable, arities
from toposeat.launch.launchers.seats import Exporter, HostWords, RankHosts, in_natural_order

_TABLE = OptionTable(
    arity=arities({0: "", 1: "n np o"}),
    ranks=frozenset({"n", "np"}),
    ends_options=False,
)


def _words(launch: Launch, plan: RankHosts) -> HostWords:
    """Nothing: it deals blocks out over the job's hosts."""
    order = launch.order_in_job(plan.hosts) or in_natural_order(plan.hosts)
    if not (plan.in_blocks and plan.hosts == order):
        raise UsageError(
            "ibrun starts ranks in blocks over the job's hosts, and this plan is in another order",
            hint=f"start the job's MPI itself: toposeat run -p PLACE -- mpiexec -n {plan.ranks}",
        )
    return HostWords()


LAUNCHERS = (Launcher(kind="ibrun", names=("ibrun",), table=_TABLE, words=_words),)
EXPORTS: dict[str, Exporter] = {}
