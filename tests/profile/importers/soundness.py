"""What every importer does with damaged files: a sound `Traffic`, or an error that helps."""

from __future__ import annotations

from collections.abc import Callable

from toposeat.errors import ToposeatError
from toposeat.model.traffic import Traffic


def reads_or_refuses(read: Callable[[], Traffic]) -> None:
    """Whatever the file, there is a sound `Traffic` or an error that helps."""
    try:
        traffic = read()
    except ToposeatError as error:
        assert str(error)
        assert "\n" not in str(error)
        assert error.hint
    else:
        table = traffic.table()
        assert len(table) == 0 or max(table.source.max(), table.target.max()) < traffic.ranks
        assert len(table) == 0 or min(table.bytes.min(), table.messages.min()) >= 0
