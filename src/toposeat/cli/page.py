"""The report page as the verbs write it: with a heading, the time, and what to type next."""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from toposeat.report import Section


def page_text(
    sections: Sequence[Section], *, title: str, subtitle: str = "", commands: Sequence[str] = ()
) -> str:
    """The HTML of `sections`, stamped with this host and the present time (UTC)."""
    from toposeat.report import html_page  # noqa: PLC0415

    now = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    return html_page(
        sections,
        title=title,
        subtitle=subtitle,
        created=f"{now} on {os.uname().nodename}",
        commands=commands,
    )
