"""Programs that tests start and wait for."""

import re
import subprocess
from pathlib import Path

LONGEST_S = 600.0  # a test that hangs ends some time


def ran(words, *, timeout=LONGEST_S, check=False, **more):
    """A program that has ended: its exit code, and what it wrote, as text."""
    return subprocess.run(
        words, capture_output=True, text=True, timeout=timeout, check=check, **more
    )


def lives(pid):
    """Whether it runs: who has ended stays listed where the first process reaps no orphans."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state not in "ZX"


def unfolded(said):
    """Remarks with the lines that a command was folded into as one."""
    return re.sub(r" \\\n +|(?<=;)\n {8}", " ", said)


def executable(path, text):
    """A script in a file that may be started."""
    path.write_text(text)
    path.chmod(0o755)
    return path
