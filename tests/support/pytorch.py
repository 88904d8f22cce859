"""PyTorch for tests: a Python that has it, named by TOPOSEAT_TEST_TORCH, else this one."""

import importlib.util
import os
import sys
from pathlib import Path

VARIABLE = "TOPOSEAT_TEST_TORCH"
PROGRAM = Path(__file__).with_name("torch_program.py")


def why_no_torch():
    """Why there is no PyTorch here; empty if there is."""
    if VARIABLE in os.environ:
        return "" if Path(os.environ[VARIABLE]).exists() else f"{VARIABLE} names no file"
    has = importlib.util.find_spec("torch") is not None
    return "" if has else f"no torch: name a Python that has it in {VARIABLE}"


def python_with_torch():
    """The interpreter."""
    return os.environ.get(VARIABLE, sys.executable)


def torchrun(*words, ranks=4):
    """A job on this host: `words` are the script and its arguments."""
    return [
        *(python_with_torch(), "-m", "torch.distributed.run", "--standalone"),
        *("--nproc-per-node", str(ranks), *map(str, words)),
    ]
