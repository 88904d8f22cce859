"""Random programs whose process moves between two proxies: they find what they find natively.

python -m tests.virtual.random_moves PROGRAM [COUNT [FIRST]]   PROGRAM: programs/random.c, compiled
"""

import json
import os
import subprocess
import sys
from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from tests.support.lent import NATIVE, TIMEOUT_S, Proxy, run
from toposeat.installed import native_path

AT_ONCE = 250  # programs of a process


@dataclass
class Tally:
    """What came of it."""

    programs: int = 0
    wrong: list[str] = field(default_factory=list)
    moved: int = 0
    refused: Counter[str] = field(default_factory=Counter)


def try_some(program, count, first=0, *, moves=True, over="unix"):
    """`count` programs from number `first` on, natively and borrowed `over` unix or tcp."""
    tally = Tally()
    with ExitStack() as stack:
        one = stack.enter_context(Proxy("--address", "127.0.0.1"))
        two = stack.enter_context(Proxy("--address", "127.0.0.1", key=one.key))
        homes = [_Home(one, over), _Home(two, over)]
        for begin in range(first, first + count, AT_ONCE):
            number = min(AT_ONCE, first + count - begin)
            native = run([program, str(begin), str(number)], NATIVE)
            assert native.returncode == 0, native.stderr
            lines = list(_borrowed(program, begin, number, homes, tally if moves else None))
            expected = native.stdout.splitlines()
            tally.programs += len(lines)
            tally.wrong += [
                f"{borrowed!r}, natively {line!r}"
                for line, borrowed in zip(expected, lines, strict=False)
                if line != borrowed
            ]
            if len(lines) != len(expected):
                tally.wrong.append(f"ended behind {lines[-1:]}, before {begin + number}")
    return tally


def _borrowed(program, first, count, homes, tally):
    """What the programs say; they move from one of the proxies to the other, as `tally` counts."""
    asked, ask = os.pipe()
    answered, answer = os.pipe()
    words = [program, str(first), str(count), *((str(ask), str(answered)) if tally else ())]
    with subprocess.Popen(
        words,
        env=homes[0].proxy.client(homes[0].endpoint),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        pass_fds=(ask, answered),
        text=True,
    ) as process:
        os.close(ask)
        os.close(answered)
        at = 0
        while tally and os.read(asked, 1):  # until the process ends
            told = _move(homes[at], homes[1 - at])
            tally.moved += told["moved"]
            tally.refused.update(told["refused"])
            at = 1 - at if told["moved"] else at
            os.write(answer, b"m")
        yield from process.stdout.read().splitlines()
    os.close(asked)
    os.close(answer)


class _Home:
    """Where a client may be."""

    def __init__(self, proxy, over):
        self.proxy = proxy
        self.endpoint = proxy.endpoint(over)


def _move(source, into):
    done = run(
        [native_path("bin/toposeat-clproxy"), "--move", source.endpoint, into.endpoint],
        {**NATIVE, "TOPOSEAT_CL_KEY": source.proxy.key},
        timeout=TIMEOUT_S,
    )
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout))


if __name__ == "__main__":
    print(try_some(Path(sys.argv[1]), *map(int, sys.argv[2:4])))
