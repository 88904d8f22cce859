"""Jobs whose ranks may not be where they are planned, and what `run --strict` must say of each.

As a program (`fooled.py HOW...`) it is one rank: it takes the device of its local rank, or
    other     that of another local rank
    zero      always device 0
    list      sets its list of devices itself before it begins
    again     starts itself anew first
    fork      uses the device in a child that is a fork
    _exit     ends without any handler
    killed    is killed once it has its device
    cleared   uses the device in a child from which LD_PRELOAD was taken
    helped    starts such a child that uses none first
    RANK=N    rank N alone does what follows, and the others do what came before
"""

import ctypes
import os
import signal
import subprocess
import sys
from dataclasses import dataclass
from types import MappingProxyType

LOCAL_RANKS = (
    *("LOCAL_RANK", "MPI_LOCALRANKID", "OMPI_COMM_WORLD_LOCAL_RANK", "SLURM_LOCALID"),
    "TOPOSEAT_RANK",
)
NOT_AS_PLANNED = 98
FEW = (
    *("honest", "a script with a list", "a finished sh", "one killed below a shell", "static"),
    *("a child without the probe", "with a helper that is not heard", "device 0"),
)


@dataclass(frozen=True)
class Fooled:
    """A program, the exit code of the job, and words that name the cause.

    `code` is None where it is the launcher's own, other than 0 and `NOT_AS_PLANNED`.
    """

    words: tuple[str, ...]
    code: int | None
    cause: str


def _rank(*how):
    return (sys.executable, "-S", __file__, *how)


def _shell(script, *how):
    return ("sh", "-c", script, "sh", *_rank(*how))


_CHANGED = "the program changed its device list (CUDA_VISIBLE_DEVICES=0; it was given 0,2"
_KILLED = "a process that it started was killed, and could not be asked"
_NO_PROBE = "the rank probe left no report: LD_PRELOAD was taken from the program"
_UNHEARD = "without LD_PRELOAD, so that could not be asked"
_RIGHT = "4 ranks as planned"
_NONE = "the program loaded no CUDA driver"
# {static} is a program that is linked statically.
JOBS = MappingProxyType(
    {
        "honest": Fooled(_rank(), 0, _RIGHT),
        "starts anew": Fooled(_rank("again"), 0, _RIGHT),
        "a fork": Fooled(_rank("fork"), 0, _RIGHT),
        "ends at once": Fooled(_rank("_exit"), 0, _RIGHT),
        "below a shell": Fooled(_shell('"$@"; true'), 0, _RIGHT),
        "in the background": Fooled(_shell('"$@" & wait'), 0, _RIGHT),
        "with a helper that is not heard": Fooled(_rank("helped"), 0, _RIGHT),
        "with a helper in an empty environment": Fooled(_shell('"$@" && env -i ls'), 0, _RIGHT),
        "a static helper that is not heard": Fooled(
            ("sh", "-c", 'LD_PRELOAD= "$0"; true', "{static}"), 0, _NONE
        ),
        "no driver": Fooled((sys.executable, "-c", "pass"), 0, _NONE),
        "a finished sh": Fooled(("sh", "-c", "true"), 0, _NONE),
        "a script with a list": Fooled(
            _shell('export CUDA_VISIBLE_DEVICES=0; exec "$@"'), NOT_AS_PLANNED, _CHANGED
        ),
        "a script with a list, and a shell": Fooled(
            _shell('CUDA_VISIBLE_DEVICES=0 "$@"; true'), NOT_AS_PLANNED, _CHANGED
        ),
        "a list of its own": Fooled(_rank("list"), NOT_AS_PLANNED, _CHANGED),
        "a list of its own, then anew": Fooled(_rank("list", "again"), NOT_AS_PLANNED, _CHANGED),
        "a list of its own in a fork": Fooled(_rank("list", "fork"), NOT_AS_PLANNED, _CHANGED),
        "no list": Fooled(
            ("env", "-u", "CUDA_VISIBLE_DEVICES", *_rank()),
            NOT_AS_PLANNED,
            "the program removed its device list",
        ),
        "swapped": Fooled(_rank("other"), NOT_AS_PLANNED, "the program took another one of its"),
        "device 0": Fooled(_rank("zero"), NOT_AS_PLANNED, "run it with --visibility mask"),
        "swapped in a fork": Fooled(_rank("other", "fork"), NOT_AS_PLANNED, "took another one"),
        "swapped, ends at once": Fooled(_rank("other", "_exit"), NOT_AS_PLANNED, "took another"),
        "one rank elsewhere": Fooled(_rank("RANK=1", "other"), NOT_AS_PLANNED, "took another one"),
        "without the probe": Fooled(
            ("env", "-u", "LD_PRELOAD", *_rank()), NOT_AS_PLANNED, _NO_PROBE
        ),
        "without any variable of toposeat": Fooled(
            _shell('unset LD_PRELOAD TOPOSEAT_PID TOPOSEAT_REPORT_DIR; exec "$@"'),
            NOT_AS_PLANNED,
            _NO_PROBE,
        ),
        "a child without the probe": Fooled(_rank("cleared"), NOT_AS_PLANNED, _UNHEARD),
        "a child with another device and without the probe": Fooled(
            _rank("RANK=1", "cleared", "other"), NOT_AS_PLANNED, _UNHEARD
        ),
        "a child of a shell without the probe": Fooled(
            _shell('LD_PRELOAD= "$@"; true'), NOT_AS_PLANNED, _UNHEARD
        ),
        "a child in an empty environment": Fooled(
            _shell('env -i LD_LIBRARY_PATH="$LD_LIBRARY_PATH" LOCAL_RANK=0 "$@"; true'),
            NOT_AS_PLANNED,
            _UNHEARD,
        ),
        "static": Fooled(("{static}",), NOT_AS_PLANNED, "linked statically"),
        "killed below a shell": Fooled(_shell('"$@"; true', "killed"), NOT_AS_PLANNED, _KILLED),
        "one killed below a shell": Fooled(
            _shell('"$@" || exit 0', "RANK=1", "killed"), NOT_AS_PLANNED, _KILLED
        ),
        "killed": Fooled(_rank("RANK=1", "killed"), None, "the rank was killed"),
        "fails": Fooled(("sh", "-c", "exit 7"), None, ""),
    }
)


def check(job, code, told, verdict):
    """What a job under `run --strict` ended with, told and recorded must be what its author says.

    Raises:
        AssertionError: it is not.
    """
    said = " ".join(told.split())
    assert job.cause in said, said
    if job.code is None:
        assert code not in (0, NOT_AS_PLANNED), said
        return
    assert code == job.code, said
    assert verdict in ({"as placed"} if code == 0 else {"mismatch", "not checked"})


def static_program(folder):
    """A program that loads no library."""
    source, program = folder / "static.c", folder / "static"
    source.write_text("int main(void) { return 0; }\n")
    subprocess.run(["cc", "-static", "-o", program, source], check=True)
    return str(program)


def _device(index):
    driver = ctypes.CDLL("libcuda.so.1")
    handle, count, context = ctypes.c_int(), ctypes.c_int(), ctypes.c_void_p()
    driver.cuInit(0)
    driver.cuDeviceGetCount(ctypes.byref(count))
    driver.cuDeviceGet(ctypes.byref(handle), index % count.value)
    driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), handle)
    driver.cuCtxSetCurrent(context)


def _use(how, local):
    _device(3 - local if "other" in how else 0 if "zero" in how else local)
    if "killed" in how:
        os.kill(os.getpid(), signal.SIGKILL)
    if "_exit" in how:
        os._exit(0)


def main(how):
    """Be a rank."""
    local = int(next(os.environ[name] for name in LOCAL_RANKS if name in os.environ))
    if how and how[0].startswith("RANK="):
        how = how[1:] if int(how[0].removeprefix("RANK=")) == local else []
    if "list" in how:
        os.environ["CUDA_VISIBLE_DEVICES"] = "0"
    if "again" in how:
        rest = [word for word in how if word not in ("again", "list")]
        os.execv(sys.executable, [sys.executable, "-S", __file__, *rest])
    if "cleared" in how:
        rest = " ".join(word for word in how if word != "cleared")
        os.system(f"LD_PRELOAD= {sys.executable} -S {__file__} {rest}")
        return
    if "helped" in how:
        subprocess.run(["ls", "/"], env={}, stdout=subprocess.DEVNULL, check=True)
    if "fork" not in how:
        _use(how, local)
    elif (child := os.fork()) == 0:
        _use(how, local)
        os._exit(0)
    else:
        os.waitpid(child, 0)


if __name__ == "__main__":
    main(sys.argv[1:])
