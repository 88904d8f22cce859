"""`lend` and `borrow` on this machine, with PoCL's device."""

import ctypes.util
import io
import json
import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import ExitStack, contextmanager, redirect_stdout, suppress
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.cluster import toposeat
from tests.support.processes import executable, ran
from toposeat.cli.main import main
from toposeat.model.files import encode_json
from toposeat.model.lent import (
    BORROWED_SCHEMA,
    Borrowed,
    BorrowedDevice,
    BorrowedSeat,
    DeviceUse,
    MeasuredWay,
)
from toposeat.model.runs import SeatVerdict
from toposeat.report import render_borrowed_text

COPY = Path(__file__).resolve().parents[1] / "support" / "opencl_copy.py"
_SECONDS = 300.0

pytestmark = pytest.mark.skipif(
    ctypes.util.find_library("pocl") is None or ctypes.util.find_library("OpenCL") is None,
    reason="no PoCL (Debian: pocl-opencl-icd ocl-icd-libopencl1)",
)


def environment_of(cache):
    return {**os.environ, "TOPOSEAT_CACHE_DIR": str(cache)}


@pytest.fixture
def environment(tmp_path):
    return environment_of(tmp_path / "cache")


RECORD = Borrowed(
    command=("./a",),
    launched=("./a",),
    seats=(
        BorrowedSeat(
            rank=0,
            host="a",
            run_s=2.0,
            devices=(
                BorrowedDevice(
                    id="a/0",
                    host="a",
                    name="d",
                    measured=MeasuredWay(
                        round_trip_s=1e-5, to_bytes_per_s=1e9, from_bytes_per_s=1e9
                    ),
                    use=DeviceUse(bytes_to=1e6, bytes_from=1e6, calls=10, waits=5),
                ),
            ),
        ),
    ),
)


@contextmanager
def lenders(environment):
    """Starts `lend` with a line, and waits until it lends; all end with the block."""
    with ExitStack() as stack:

        def start(*line, proxies=1, share=1, **more):
            lender = subprocess.Popen(
                [
                    *(toposeat(), "lend", "--json", "--share", str(share)),
                    *(("--", *line) if line else ()),
                ],
                env={**environment, **more},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            stack.callback(end, lender)
            for _ in range(proxies):
                assert json.loads(lender.stdout.readline())["devices"]
            return lender

        yield start


def end(process):
    """Its pipes are closed and it is waited for, also where it does not end when it is asked."""
    with process:
        process.terminate()
        try:
            process.communicate(timeout=_SECONDS)
        except BaseException:
            process.kill()
            raise


@pytest.fixture
def lend(environment):
    with lenders(environment) as start:
        yield start


@pytest.fixture(scope="module")
def lent(tmp_path_factory):
    """The environment of whoever may borrow: one device, for all tests that leave it as it was."""
    environment = environment_of(tmp_path_factory.mktemp("lent"))
    with lenders(environment) as start:
        start()
        yield environment


def run(environment, *words):
    return ran([toposeat(), *map(str, words)], env=dict(environment), timeout=_SECONDS)


def borrowed(environment, *words):
    """The lines of JSON of a `borrow` that succeeds: those of ranks, and last its own."""
    done = run(environment, "borrow", "--json", *words)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_a_program_uses_a_borrowed_device_as_its_own(lent):
    rank, result = borrowed(lent, "--", sys.executable, COPY, "100000", "3")
    assert rank["same"]
    assert rank["endpoints"][0].startswith("unix:/")
    (seat,) = result["seats"]
    assert (seat["verdict"], seat["differences"]) == ("as placed", [])
    (device,) = seat["devices"]
    assert device["name"] == rank["device"]
    assert device["measured"]["to_bytes_per_s"] > 0
    assert device["use"]["bytes_to"] >= 300_000
    assert device["use"]["bytes_from"] >= 300_000
    assert seat["run_s"] > 0


def test_every_device_is_a_different_one_and_a_busy_one_is_nobodys(environment, lend):
    lend(POCL_DEVICES="pthread pthread")
    lend()
    listed = run(environment, "borrow").stdout.splitlines()
    assert [line.split()[-1] for line in listed[1:]] == ["free"] * 3
    _, result = borrowed(environment, "--devices", "2", "--", sys.executable, COPY, "1000")
    assert len({each["id"] for each in result["seats"][0]["devices"]}) == 2
    inner = [toposeat(), "borrow", "--devices", "2", "--", "true"]
    done = run(environment, "borrow", "--devices", "2", "--", *inner)
    assert done.returncode == 2
    assert "2 devices for every rank, and 1 of 3 are free" in done.stderr


def test_each_rank_of_an_mpi_job_has_a_device_of_its_own(environment, lend, mpi):
    own = {**mpi.env, **environment, "PATH": mpi.env["PATH"]}
    line = (str(mpi.mpirun), *mpi.run_flags, "-n", "2")
    lend(*line, proxies=2, **own)
    *ranks, result = borrowed(own, "--", *line, sys.executable, COPY, "1000")
    assert sorted(rank["rank"] for rank in ranks) == [0, 1]
    assert len({rank["endpoints"][0] for rank in ranks}) == 2
    assert [seat["verdict"] for seat in result["seats"]] == ["as placed"] * 2


def test_the_whole_of_what_is_lent_can_be_taken(lent):
    done = run(lent, "borrow", "--", toposeat(), "borrow", "--", "true")
    assert done.returncode == 1
    assert "all lent devices are borrowed" in done.stderr
    assert run(lent, "borrow", "--", "true").returncode == 0


def test_a_recorded_run_is_priced_for_another(lent, tmp_path):
    record = tmp_path / "app.borrowed"
    borrowed(lent, "-o", record, "--", sys.executable, COPY, "100000")
    (result,) = borrowed(lent, "--dry-run", "-p", record, "--", "true")
    assert 0 < result["price"]["share"] == result["price"]["added_s"] / result["price"]["run_s"]
    done = run(lent, "borrow", "--dry-run", "-p", record, "--", "true")
    assert "borrowing adds" in done.stdout
    assert done.stdout.splitlines()[-1].endswith("-- true")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"run_s": ', '"run_s": -'),
        ('"to_bytes_per_s": ', '"to_bytes_per_s": 0e'),
        ('"waits": ', '"waits": -1'),
        ("toposeat/borrowed/1", "toposeat/borrowed/9"),
    ],
)
def test_a_damaged_record_is_refused(tmp_path, capsys, old, new):
    text = encode_json(RECORD, schema=BORROWED_SCHEMA)
    assert old in text
    path = tmp_path / "app.borrowed"
    path.write_text(text.replace(old, new))
    assert main(["borrow", "--dry-run", "-p", str(path), "--", "true"]) == 1
    told = capsys.readouterr().err
    assert told.startswith(f"error: {path}")
    assert told.count("\n") == 2


def test_a_run_that_borrows_records_no_key(lent, tmp_path):
    record = tmp_path / "app.run"
    place = tmp_path / "app.place"
    assert main(["map", "ring:2", "-t", "dgx-1v", "-o", str(place)]) == 0
    inner = [toposeat(), "run", "-p", place, "--other-machine", "-o", record, "--"]
    run(lent, "borrow", "--", *inner, sys.executable, "-c", "pass")
    text = record.read_text()
    assert "TOPOSEAT_CL_DEVICES" in text
    assert "TOPOSEAT_CL_KEY" not in text


def test_a_program_without_opencl_is_not_checked_and_its_code_is_passed_on(lent):
    done = run(lent, "borrow", "--json", "--", "sh", "-c", "exit 7")
    assert done.returncode == 7
    (seat,) = json.loads(done.stdout)["seats"]
    assert seat["verdict"] == "not checked"


def test_a_wrapper_with_nothing_behind_it_is_a_program(lent):
    done = run(lent, "borrow", "--", "env")
    assert (done.returncode, done.stdout.count("\nTOPOSEAT_CL_DEVICES=")) == (0, 1)


def test_the_platform_says_whose_it_stands_for(lent):
    ask = (
        "import ctypes; cl = ctypes.CDLL('libOpenCL.so.1'); p = ctypes.c_void_p();"
        "cl.clGetPlatformIDs(1, ctypes.byref(p), None); text = ctypes.create_string_buffer(256);"
        "cl.clGetPlatformInfo(p, 0x902, 256, text, None); print(text.value.decode())"
    )
    native = ran([sys.executable, "-c", ask]).stdout
    done = run(lent, "borrow", "--", sys.executable, "-c", ask)
    assert (done.stdout, done.returncode) == (f"toposeat: {native}", 0), done.stderr


def test_the_nodes_own_devices_can_be_seen_as_well(lent):
    count = (
        "import ctypes; cl = ctypes.CDLL('libOpenCL.so.1'); n = ctypes.c_uint();"
        "cl.clGetPlatformIDs(0, None, ctypes.byref(n)); print(n.value)"
    )
    for words, platforms in (((), "1"), (("--local-too",), "2")):
        done = run(lent, "borrow", *words, "--", sys.executable, "-c", count)
        assert done.stdout == f"{platforms}\n", done.stderr


def test_a_node_without_opencl_says_what_to_do(environment, tmp_path):
    (tmp_path / "empty").mkdir()
    none = {"OCL_ICD_VENDORS": str(tmp_path / "empty")}
    done = run(environment | none, "lend")
    assert done.returncode == 1
    cause, hint = done.stderr.splitlines()[-2:]
    assert cause.startswith("error: nothing is lent: ")
    assert hint.startswith("hint:  ")
    assert "Traceback" not in done.stderr


def test_without_a_lender_there_is_nothing_to_borrow(environment):
    assert run(environment, "borrow").stdout == "Nothing is lent\n"
    done = run(environment, "borrow", "--", "true")
    assert done.returncode == 1
    assert "toposeat lend" in done.stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_lender_that_ends_leaves_no_proxy_and_no_file(environment, lend, number):
    lender = lend()
    proxies = proxies_of(environment)
    assert len(proxies) == 1
    lender.send_signal(number)
    code = lender.wait(timeout=_SECONDS)
    assert code == (-signal.SIGKILL if number == signal.SIGKILL else 0)
    end = time.monotonic() + _SECONDS
    while proxies_of(environment) and time.monotonic() < end:
        time.sleep(0.05)
    assert proxies_of(environment) == []
    assert run(environment, "borrow").stdout == "Nothing is lent\n"
    assert list(Path(environment["TOPOSEAT_CACHE_DIR"]).glob("lent/.toposeat-*")) == []


@contextmanager
def holding(environment, *words):
    """A `borrow` whose job has said something."""
    with subprocess.Popen(
        [toposeat(), "borrow", "--json", *words],
        env=dict(environment),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as holder:
        try:
            assert holder.stdout.readline()
            yield holder
        except BaseException:
            holder.terminate()  # a test that fails does not wait for what it never ends
            raise


def test_a_lender_that_is_asked_to_end_waits_for_who_has_borrowed(environment, lend, tmp_path):
    lender = lend(POCL_DEVICES="pthread pthread")
    go_on = tmp_path / "go-on"
    with holding(environment, "--", sys.executable, str(COPY), "100000", "1", str(go_on)) as holder:
        lender.send_signal(signal.SIGTERM)
        while not (said := lender.stderr.readline()).startswith("note: "):
            pass
        assert f"process {holder.pid} on " in said
        (listed,) = devices(environment)
        assert listed["id"] in said
        done = run(environment, "borrow", "--", "true")
        assert "all lent devices are borrowed" in done.stderr
        assert lender.poll() is None
        go_on.touch()
        out, error = holder.communicate(timeout=_SECONDS)
        assert holder.returncode == 0, error
        rank, result = map(json.loads, out.splitlines())
        assert (rank["same"], result["seats"][0]["verdict"]) == (True, "as placed")
    assert lender.wait(timeout=_SECONDS) == 0
    assert proxies_of(environment) == []


@pytest.mark.parametrize("how", ["asked", "drained"])
def test_a_process_moves_with_what_it_has_written(environment, lend, tmp_path, how):
    first, _ = lend(), lend()
    go_on = tmp_path / "go-on"
    with holding(environment, "--", sys.executable, str(COPY), "100000", "1", str(go_on)) as holder:
        here, there = (each["id"] for each in devices(environment))
        if how == "asked":
            done = run(environment, "lend", "--json", "--move", f"{here}={there}")
            assert done.returncode == 0, done.stderr
            moved = json.loads(done.stdout)
            assert (moved["processes"], moved["refused"]) == (1, [])
            owners = {each["id"]: bool(each["borrowed_by"]) for each in devices(environment)}
            assert owners == {here: False, there: True}
        else:
            first.send_signal(signal.SIGTERM)
            _, error = first.communicate(timeout=_SECONDS)
            assert first.returncode == 0, error
            assert f"1 process from {here} to {there}" in error
        seat = seat_at_end(holder, go_on)
    assert (seat["verdict"], seat["differences"]) == ("as placed", [f"moved to {there}"])


def test_a_process_that_cannot_move_yet_is_asked_again(environment, lend, tmp_path):
    first = lend()
    go_on = tmp_path / "go-on"
    with holding(environment, "--", sys.executable, str(COPY), "100000", "1", str(go_on)) as holder:
        first.send_signal(signal.SIGTERM)
        while "no other device of its name is free" not in (said := first.stderr.readline()):
            assert said
        lend()
        _, error = first.communicate(timeout=_SECONDS)
        assert (first.returncode, error.count("no other device")) == (0, 0)
        assert "1 process from" in error
        seat = seat_at_end(holder, go_on)
    assert (seat["verdict"], seat["differences"][0][:9]) == ("as placed", "moved to ")


def seat_at_end(holder, go_on):
    """Lets a copying rank go on and end: it has what it wrote, and this is the word on its seat."""
    go_on.touch()
    out, error = holder.communicate(timeout=_SECONDS)
    assert holder.returncode == 0, error
    rank, result = map(json.loads, out.splitlines())
    assert rank["same"]
    (seat,) = result["seats"]
    return seat


def devices(environment):
    """What `borrow --json` lists."""
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(io.StringIO()) as out:
        patch.setenv("TOPOSEAT_CACHE_DIR", environment["TOPOSEAT_CACHE_DIR"])
        assert main(["borrow", "--json"]) == 0
    return json.loads(out.getvalue())["devices"]


@pytest.mark.parametrize("words", ["n1/0", "n1/0=", "=n1/0"])
def test_a_move_names_two_devices(capsys, words):
    assert main(["lend", "--move", words]) == 2
    told = capsys.readouterr()
    assert (told.out, "two devices" in told.err) == ("", True)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_second_signal_ends_a_lender_at_once(environment, lend, number):
    lender = lend()
    with holding(environment, "--", "sh", "-c", "echo started; exec sleep 100") as holder:
        lender.send_signal(signal.SIGTERM)
        while not lender.stderr.readline().startswith("note: "):
            pass
        lender.send_signal(number)
        assert lender.wait(timeout=_SECONDS) == 0
        holder.terminate()
        holder.communicate(timeout=_SECONDS)


# Uses its device, says so, waits for a file, and ends with 0 whatever has become of the device.
CARELESS = f"""
import os, sys
sys.argv = ["copy", "1000"]
exec(open({str(COPY)!r}).read())
while not os.path.exists(os.environ["GO_ON"]):
    pass
END
"""

# Its device stays lost, though another proxy of this user answers now.
NOTICED = """
cl, platform, device = ctypes.CDLL("libOpenCL.so.1"), ctypes.c_void_p(), ctypes.c_void_p()
cl.clGetPlatformIDs(1, ctypes.byref(platform), None)
cl.clGetDeviceIDs(platform, ctypes.c_uint64(ALL_DEVICES), 1, ctypes.byref(device), None)
there, error = ctypes.c_uint(1), ctypes.c_int()
while there.value:
    cl.clGetDeviceInfo(device, 0x1027, 4, ctypes.byref(there), None)
cl.clCreateContext(None, 1, ctypes.byref(device), None, None, ctypes.byref(error))
assert error.value == -2
os._exit(0)
"""


@pytest.mark.parametrize("end", ["", NOTICED])
def test_a_rank_that_lost_its_device_is_not_as_planned_whatever_it_ends_with(
    environment, lend, tmp_path, end
):
    go_on, record = tmp_path / "go-on", tmp_path / "app.borrowed"
    lend()
    job = [sys.executable, "-c", CARELESS.replace("END", end)]
    words = ["-o", str(record), *(["--strict"] if end else []), "--", *job]
    with holding(environment | {"GO_ON": str(go_on)}, *words) as holder:
        killed = proxies_of(environment)
        for pid in killed:
            with suppress(ProcessLookupError):  # of one whose parent went before
                os.kill(pid, signal.SIGKILL)
        while not all(map(has_ended, killed)):
            time.sleep(0.01)
        lend()
        go_on.touch()
        out, error = holder.communicate(timeout=_SECONDS)
    assert holder.returncode == (98 if end else 0), error
    (seat,) = json.loads(out)["seats"]
    assert seat["verdict"] == "lost its device"
    said = [line for line in error.splitlines() if "lost the borrowed device" in line]
    assert len(said) == 1 or not end
    assert all(f" of {socket.gethostname()}: " in line for line in said)
    assert seat["devices"][0]["is_lost"]
    assert "its proxy, or the way to it, ended" in seat["differences"][0]
    assert '"is_lost": true' in record.read_text()


def test_the_verdict_names_a_lost_device_first():
    seat = replace(RECORD.seats[0], verdict=SeatVerdict.AS_PLACED)
    lost = replace(seat.devices[0], is_lost=True)
    wrong = replace(seat, devices=(lost,), verdict=SeatVerdict.LOST, differences=("lost a/0",))
    shown = render_borrowed_text(replace(RECORD, seats=(seat, replace(wrong, rank=1))))
    assert shown.startswith("Borrowed  1 device for 2 ranks: 1 of them lost its device\n")


def test_a_device_that_does_not_answer_is_not_free(environment, lend, tmp_path):
    """One proxy of several has been killed, and their launcher goes on."""
    gone = tmp_path / "gone"
    with socket.socket(socket.AF_UNIX) as proxy:
        proxy.bind(str(gone))
    told = {"toposeat_clproxy": 1, "host": socket.gethostname(), "unix": str(gone)}
    said = json.dumps(told | {"devices": [{"index": 0, "name": "x"}]})
    executable(tmp_path / "srun", f"#!/bin/sh\necho '{said}'\nexec sleep 3600\n")
    lend("srun", PATH=f"{tmp_path}:{os.environ['PATH']}")
    assert [each["is_silent"] for each in devices(environment)] == [True]
    lend()
    assert [each["is_silent"] for each in devices(environment)] == [True, False]
    listed = run(environment, "borrow").stdout.splitlines()
    assert [line.rpartition("  ")[2].strip() for line in listed[1:]] == ["does not answer", "free"]
    _, result = borrowed(environment, "--strict", "--", sys.executable, COPY, "1000")
    assert result["seats"][0]["devices"][0]["id"] != devices(environment)[0]["id"]


def test_a_device_is_shared_by_as_many_jobs_as_its_lender_says(environment, lend, tmp_path):
    lend(share=2)
    go_on = tmp_path / "go-on"
    job = (sys.executable, str(COPY), "100000", "1", str(go_on))
    with holding(environment, "--share", "--", *job) as holder:
        (device,) = devices(environment)
        assert (device["share"], device["jobs"], device["room"]) == (2, 1, 1)
        assert "room for 1 more" in run(environment, "borrow").stdout
        alone = run(environment, "borrow", "--", "true")
        assert (alone.returncode, "--share takes" in alone.stderr) == (1, True)
        rank, result = borrowed(environment, "--share", "--", sys.executable, COPY, "1000")
        assert rank["same"]
        assert 100_000 <= result["seats"][0]["devices"][0]["others_bytes"] < 200_000
        assert any(f"process {holder.pid}" in note for note in result["notes"])
        inner = (toposeat(), "borrow", "--share", "--", "true")
        third = run(environment, "borrow", "--share", "--", *inner)
        assert "all lent devices are borrowed" in third.stderr
        go_on.touch()
        assert holder.wait(timeout=_SECONDS) == 0
    go_on.unlink()
    with holding(environment, "--", *job) as holder:
        assert [each["room"] for each in devices(environment)] == [0]
        assert run(environment, "borrow", "--share", "--", "true").returncode == 1
        go_on.touch()
        assert holder.wait(timeout=_SECONDS) == 0


def test_free_devices_come_before_shared_ones(environment, lend, tmp_path):
    lend(share=3)
    lend()
    first, second = (each["id"] for each in devices(environment))
    go_on = tmp_path / "go-on"
    job = (sys.executable, str(COPY), "1000", "1", str(go_on))
    with holding(environment, "--share", "--", *job) as holder:
        words = ("--share", "--dry-run", "--", "true")
        (result,) = borrowed(environment, *words)
        assert [each["id"] for each in result["seats"][0]["devices"]] == [second]
        (result,) = borrowed(environment, "--devices", "2", *words)
        assert {each["id"] for each in result["seats"][0]["devices"]} == {first, second}
        go_on.touch()
        assert holder.wait(timeout=_SECONDS) == 0


@pytest.mark.parametrize("words", [["--no-verify"], ["--dry-run"]])
def test_what_is_not_looked_at_cannot_be_judged(capsys, words):
    assert main(["borrow", "--strict", *words, "--", "true"]) == 2
    assert capsys.readouterr().out == ""


def test_a_program_that_used_no_device_cannot_be_judged(lent):
    done = run(lent, "borrow", "--strict", "--", "true")
    assert (done.returncode, "not checked (--strict)" in done.stderr) == (98, True)
    assert run(lent, "borrow", "--strict", "--", "false").returncode == 1


def has_ended(pid):
    """Whether a process is gone with all its threads, which share its sockets."""
    try:
        tasks = [each.name for each in Path(f"/proc/{pid}/task").iterdir()]
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        return tasks == [str(pid)] and state == "Z"
    except OSError:
        return True


def proxies_of(environment):
    """Processes of proxies that were started with this cache, but for their own children."""
    mark = f"TOPOSEAT_CACHE_DIR={environment['TOPOSEAT_CACHE_DIR']}".encode()
    found = []
    for entry in Path("/proc").iterdir():
        try:
            name = (entry / "comm").read_text().strip()
            is_own = mark in (entry / "environ").read_bytes().split(b"\0")
        except (OSError, ValueError):
            continue
        if entry.name.isdigit() and name.startswith("toposeat-clprox") and is_own:
            found.append(int(entry.name))
    return found
