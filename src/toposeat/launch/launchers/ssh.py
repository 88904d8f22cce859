"""ssh, which starts a command on one host: proxies of lent devices, never the ranks of a job.

It hands no variable on unless both sides are configured to, so secrets go through its standard
input. It is found by no name: other verbs say that they know neither its nodes nor its end.
"""

from __future__ import annotations

from collections.abc import Sequence

from toposeat.launch.launchers.launcher import (
    Launcher,
    LauncherKind,
    Option,
    OptionTable,
    Words,
    arities,
)
from toposeat.launch.launchers.seats import Exporter

# ssh(1) of OpenSSH 9.
_TABLE = OptionTable(
    arity=arities(
        {
            0: "4 6 A a C f G g K k M N n q s T t V v X x Y y",
            1: "B b c D E e F I i J L l m O o P p Q R S W w",
        }
    ),
    hosts=frozenset({"host"}),
    output=frozenset({"f", "N", "n"}),  # they take its input or output away
    attached=True,
    single_dash_long=False,
)


def _operands(words: Words, options: Sequence[Option]) -> list[Option]:
    """`[USER@]HOST`, or `ssh://[USER@]HOST[:PORT]`."""
    del options
    if not words:
        return []
    name = words[0].removeprefix("ssh://") if words[0].startswith("ssh://") else words[0]
    host = name.rpartition("@")[2]
    if name != words[0]:
        host = host.partition(":")[0]
    return [Option("host", (host,), words[:1])]


LAUNCHERS = (
    Launcher(
        kind=LauncherKind.SSH,
        table=_TABLE,
        operands=_operands,
        count=lambda _: 1,
    ),
)
EXPORTS: dict[str, tuple[str, Exporter]] = {}
