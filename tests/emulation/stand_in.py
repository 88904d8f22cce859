"""Running test programs on the stand-in node."""

import os
import sys
import textwrap
from pathlib import Path

import pytest

from tests.support.processes import ran
from toposeat.emulation import emulated_node, machine_text
from toposeat.topology import read_topology

_ROOT = Path(__file__).resolve().parents[2]
_PRELUDE = """
import ctypes, json, os, signal, sys, time
from ctypes import byref, c_int, c_size_t, c_uint, c_uint64, c_void_p
from tests.emulation.driver import Driver, Handle
driver = Driver()
"""


def run_on_node(command, *, machine="k80-16", scale=0.05, environment=None, timeout=60):
    """Run a command on a stand-in of a machine."""
    if Path("/proc/driver/nvidia/version").exists():
        pytest.skip("this node has a real NVIDIA driver: the stand-in refuses to load beside it")
    with emulated_node(machine_text(read_topology(machine), scale=scale)) as node:
        return ran(
            command,
            env={**node.environment(os.environ), "PYTHONPATH": str(_ROOT), **(environment or {})},
            timeout=timeout,
        )


def run_program(program, **options):
    """Run a Python program with `driver` at hand on a stand-in of a machine."""
    return run_on_node([sys.executable, "-c", _PRELUDE + textwrap.dedent(program)], **options)


def output_of(program, **options):
    """What a program that must succeed prints."""
    done = run_program(program, **options)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()
