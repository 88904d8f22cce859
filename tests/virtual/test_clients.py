"""Clients that others wrote say of a borrowed device what they say of the node's own, by name."""

import os
import re
import shutil
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from tests.support.lent import NATIVE, run

HEADER = Path(__file__).parents[2] / "third_party" / "opencl-headers" / "CL" / "cl.h"
CLBLAST = ("xaxpy", "xdot", "xgemv", "xger", "xomatcopy", "xscal")
PYOPENCL = Path(sys.prefix, "share", "pyopencl", "test")  # of its sdist: tools/setup.sh test
# On platforms whose vendor is not PoCL this one asks for an attribute that pyopencl does not have.
OF_POCL_ONLY = {"test_wrapper.test_get_info[]"}
# It gives a thread 50 ms to hear of an event; programs/events.c asks the same without a clock.
CLOCKED = {"test_wrapper.test_user_event[]"}
# Memory is not shared, native and built-in kernels stay at home, and nothing is newer than 1.2.
OTHERWISE = {
    "CL_DEVICE_BUILT_IN_KERNELS",
    "CL_DEVICE_EXECUTION_CAPABILITIES",
    "CL_DEVICE_EXTENSIONS",
    "CL_DEVICE_HOST_UNIFIED_MEMORY",
    "CL_DEVICE_OPENCL_C_VERSION",
    "CL_DEVICE_VERSION",
}


def installed(program):
    if shutil.which(program) is None:
        pytest.skip(f"no {program}: packaging/apt.txt says what brings it")
    return program


def facts(environment):
    """What clinfo says of the first device."""
    done = run(["clinfo", "--raw"], environment)
    assert done.returncode == 0, done.stderr
    found = re.findall(r"^\[\w*/0\] +(CL_\w+) *(.*)$", done.stdout, re.MULTILINE)
    return {name: value.strip() for name, value in found}


def names_until_1_2():
    """The device's facts that the header has for OpenCL 1.2 and before."""
    old, newer = set(), 0
    for line in HEADER.read_text().splitlines():
        if newer:
            newer += line.startswith("#if") - line.startswith("#endif")
        elif re.match(r"#ifdef CL_VERSION_[23]", line):
            newer = 1
        elif found := re.match(r"#define (CL_DEVICE_\w+) +0x10[0-4]", line):
            old.add(found[1])
    return old


@pytest.mark.parametrize("over", ["unix", "tcp"])
def test_clinfo_says_the_same(proxy, over):
    native, remote = facts(NATIVE), facts(proxy.client(proxy.endpoint(over)))
    absent, old = set(native) - set(remote), names_until_1_2()
    assert len(old & set(native)) > 60
    assert not absent & old, "what OpenCL 1.2 has is not there"
    assert not {name for name in remote if name in native and native[name] != remote[name]} - (
        OTHERWISE
    )
    assert remote["CL_DEVICE_VERSION"].startswith("OpenCL 1.2 ")
    assert remote["CL_DEVICE_OPENCL_C_VERSION"].startswith("OpenCL C 1.2 ")
    assert remote["CL_DEVICE_HOST_UNIFIED_MEMORY"] == "CL_FALSE"
    assert remote["CL_DEVICE_EXECUTION_CAPABILITIES"] == "CL_EXEC_KERNEL"
    extensions = set(remote["CL_DEVICE_EXTENSIONS"].split())
    assert extensions <= set(native["CL_DEVICE_EXTENSIONS"].split())
    assert {"cl_khr_fp64", "cl_khr_byte_addressable_store"} <= extensions
    assert not any(re.search("svm|subgroup|il_program|spir|command_buffer", e) for e in extensions)


@pytest.mark.deep  # a minute of both cores
def test_clpeak_clocks_the_same(proxy):
    line = [installed("clpeak"), "--kernel-latency", "--transfer-bandwidth"]
    told = []
    for environment in (NATIVE, proxy.client()):
        done = run(line, environment)
        assert done.returncode == 0, done.stdout + done.stderr
        told.append(re.findall(r"^ +(\S.*?) +: [0-9.]+", done.stdout, re.MULTILINE))
    assert told[0] == told[1]
    assert len(told[0]) > 8


def clblast(test, environment):
    """What came of each routine's tests, e.g. "SAXPY 'regular behaviour' for 'default'"."""
    done = run([installed(f"clblast_test_{test}")], environment)
    text = re.sub(r"\x1b\[[0-9;]*m", "", done.stdout)
    found, routine = {}, ""
    for line in text.splitlines():
        if named := re.search(r"tests for the '(\w+)' routine", line):
            routine = named[1]
        elif named := re.search(r"Testing (.*):$", line):
            part = named[1]
        elif passed := re.search(r"Pass rate .*: (.*)", line):
            found[f"{routine} {part}"] = passed[1]
        elif "All tests skipped" in line:
            found[routine] = line.strip()
    return {**found, "exit code": str(done.returncode)}


@pytest.mark.parametrize("test", CLBLAST)
def test_clblast_computes_the_same(proxy, test):
    native = clblast(test, NATIVE)
    assert native["exit code"] == "0"
    assert sum(" 0 failed" in value for value in native.values()) >= 2
    assert clblast(test, proxy.client(proxy.endpoint("tcp"))) == native


def pyopencl(files, environment, folder):
    """What came of each test of these files of pyopencl's sdist."""
    result = folder / "results.xml"
    options = ["-p", "no:cacheprovider", "-q", "--junit-xml", str(result)]
    tests = [PYOPENCL / name for name in files]
    line = [sys.executable, "-m", "pytest", "-c", os.devnull, *options, *tests]
    run(line, {"OCL_ICD_VENDORS": "/etc/OpenCL/vendors", **environment}, cwd=folder, timeout=1800)
    return {
        re.sub(r"\[<.*>", "[", f"{case.get('classname')}.{case.get('name')}"): (
            case[0].tag if len(case) else "passed"
        )
        for case in ET.parse(result).iter("testcase")
    }


def test_pyopencl_passes_what_it_passes_natively(proxy, tmp_path, capfd):
    if not PYOPENCL.is_dir():
        pytest.skip("no pyopencl: tools/setup.sh test brings it")
    files = [f"test_{name}.py" for name in ("enqueue_copy", "arrays_in_structs", "wrapper")]
    native = pyopencl(files, NATIVE, tmp_path)
    remote = pyopencl(files, proxy.client(), tmp_path)
    if "PTHREAD ERROR in pocl" in capfd.readouterr().err:
        # PoCL 6 ended the process that served this client: once in sixteen runs of Debian 13.
        remote = pyopencl(files, proxy.client(), tmp_path)
    assert set(native) == set(remote)
    assert "passed" in native.values()
    worse = {name: remote[name] for name, was in native.items() if was == "passed"}
    assert {name for name, now in worse.items() if now == "failure"} <= OF_POCL_ONLY | CLOCKED
    for file in files:
        own = [now for name, now in worse.items() if name.startswith(f"{Path(file).stem}.")]
        assert "passed" in own
        assert own.count("skipped") <= len(own) // 4
