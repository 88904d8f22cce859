"""One rank of a job of `strict_jobs.txt`: `fooled.py HOW...`.

It takes the device of its local rank, or
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

LOCAL_RANKS = (
    *("LOCAL_RANK", "MPI_LOCALRANKID", "OMPI_COMM_WORLD_LOCAL_RANK", "SLURM_LOCALID"),
    "TOPOSEAT_RANK",
)


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
