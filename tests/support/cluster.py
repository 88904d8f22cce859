"""The cluster of `../shared/testbed`: a login node and nodes in namespaces of this machine."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.support.mpi import NO_FABRICS
from tests.support.processes import ran
from toposeat.installed import native_path

VARIABLE = "TOPOSEAT_TEST_CLUSTER"
LOGIN = "tb0"
# By default `srun --mpi=pmix` of Slurm 22.05 lets ranks out of a fence too early, and MPI_Init of
# Open MPI 5.0.11 crashes: in 28 of 139 jobs without toposeat, and in 0 of 67 so.
_FENCE = {"SLURM_PMIX_FENCE": "ring"}
_ROOT = Path(__file__).resolve().parents[2]
_SECONDS = 300.0  # no command of a test takes so long, on a loaded machine either
# `sbatch --wait` looks at its job after up to 32 seconds.
_BATCH = """
job=$(sbatch --parsable "$@") || exit
while told=$(scontrol --oneliner show job "$job"); do
  case $told in
  *JobState=PENDING*|*JobState=CONFIGURING*|*JobState=RUNNING*|*JobState=COMPLETING*) sleep .3 ;;
  *) break ;;
  esac
done
code=${told##*ExitCode=}; code=${code%% *}
exit $((${code%:*} + ${code#*:}))
"""


@dataclass(frozen=True)
class Cluster:
    """A running cluster.

    Every node has a /tmp and a /dev/shm of its own. `share` is the one folder that all of them see,
    beside this checkout and its installation.
    """

    script: Path
    share: Path
    nodes: tuple[str, ...]

    def on(self, node, words, *, environment=None, cwd=None, seconds=_SECONDS):
        """Run a command on a node (`LOGIN`, or one of `nodes`) to its end.

        Args:
            node: where.
            words: the command.
            environment: of the command; this process's own by default.
            cwd: its folder, `share` by default; "/tmp" is another one on every node.
            seconds: after which it is killed, which is an error that says what ran on the node.
        """
        try:
            return ran(
                self._words(node, words),
                env=self._environment(environment),
                cwd=cwd or self.share,
                timeout=seconds,
            )
        except subprocess.TimeoutExpired as error:
            for each in (LOGIN, *self.nodes):
                running = ran(self._words(each, ["ps", "-eo", "stat,wchan:20,etimes,time,args"]))
                error.add_note(f"{each}:\n{running.stdout}")
            # what follows it must not find its jobs, nor its ports
            ran(self._words(LOGIN, ["scancel", "--user=root"]), env=self._environment(None))
            ran(self._words(LOGIN, ["pkill", "-9", "-f", toposeat()]))
            raise

    def batch(self, words, *, environment=None, cwd=None):
        """Run a job by `sbatch WORDS` to its end: its exit code."""
        return self.on(LOGIN, ["sh", "-c", _BATCH, "sh", *words], environment=environment, cwd=cwd)

    def start(self, node, words, *, environment=None, **more):
        """Start a command on a node, in `share`."""
        return subprocess.Popen(
            self._words(node, words),
            env=self._environment(environment),
            cwd=self.share,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            **more,
        )

    def on_all(self, words):
        """Run a command on the login node and all others, at the same time.

        Raises:
            RuntimeError: it failed on one.
        """
        started = [self.start(node, words) for node in (LOGIN, *self.nodes)]
        for each, (_, error) in [(each, each.communicate(timeout=_SECONDS)) for each in started]:
            if each.returncode != 0:
                raise RuntimeError(error)

    def bytes_sent(self):
        """Bytes that every node has sent into its leaf switch so far, by name of the node."""
        done = self.on(LOGIN, ["ip", "-s", "-j", "link"])
        sent = {link["ifname"]: link["stats64"]["rx"]["bytes"] for link in json.loads(done.stdout)}
        return {node: sent[f"v{node.removeprefix('tb')}"] for node in self.nodes}

    def emulated(self, machine):
        """This process's environment, with the GPUs of a machine emulated on every node.

        Each node has devices of its own, made once; a test may put another machine in their place.
        """
        folder = Path("/tmp/local")
        made, used = folder / f"{machine}.made", folder / machine
        make = f'test -s {made} || "$0" emulate -t {machine} --dry-run > {made}; cp {made} {used}'
        self.on_all(["sh", "-ec", make, toposeat()])
        libraries = native_path("emulator/libcuda.so.1").parent
        path = os.environ.get("LD_LIBRARY_PATH", "")
        return {
            **os.environ,
            "LD_LIBRARY_PATH": f"{libraries}:{path}" if path else str(libraries),
            "TOPOSEAT_EMULATED_MACHINE": str(used),
            "TOPOSEAT_EMULATOR_QUIET": "1",
            "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        }

    def _words(self, node, words):
        return [str(self.script), "on", node, *map(str, words)]

    def _environment(self, environment):
        own = os.environ if environment is None else environment
        return {**own, **_FENCE, "BED": str(self.share), "BED_SHARE": str(self.share)}


def as_users_start(mpi):
    """The environment in which Open MPI asks libfabric for networks, too: half of a short job."""
    return dict(mpi.env.items() - NO_FABRICS.items())


def toposeat():
    """The installed command."""
    return str(Path(sys.executable).with_name("toposeat"))


def why_not(script):
    """Why there can be no cluster here; empty if there can."""
    if os.environ.get(VARIABLE, "") in ("", "0"):
        return f"{VARIABLE}=1 starts a cluster in namespaces of this machine, as root"
    if os.geteuid() != 0:
        return "a cluster in namespaces needs root"
    if not script.exists():
        return "no ../shared/testbed beside the checkout"
    path = os.environ.get("PATH", "") + ":/usr/sbin"
    programs = ("srun", "slurmctld", "slurmd", "munged", "sshd", "ip", "nsenter")
    missing = [name for name in programs if shutil.which(name, path=path) is None]
    return f"not installed: {', '.join(missing)}" if missing else ""


@contextmanager
def running_cluster(script, *, nodes=4, gpus=4, leaves=2):
    """A cluster that exists as long as the block.

    Raises:
        RuntimeError: it does not come up.
    """
    share = Path(tempfile.mkdtemp(prefix="toposeat-bed-", dir="/tmp"))
    cluster = Cluster(script, share, tuple(f"tb{i}" for i in range(1, nodes + 1)))
    seen = {str(p) for p in (_ROOT, Path(sys.prefix).resolve()) if p.is_relative_to("/tmp")}
    environment = {
        **os.environ,
        "PATH": os.environ.get("PATH", "") + ":/usr/sbin",
        "BED": str(share),
        "BED_SHARE": str(share),
        "BED_ALSO": ":".join(sorted(seen)),
    }
    command = [str(script), "up", str(nodes), str(gpus), str(leaves)]
    log = share.with_name(share.name + ".log")
    try:
        # into a file: what runs on in the background would hold a pipe open
        with log.open("w") as stream:
            done = subprocess.run(
                command, env=environment, stdout=stream, stderr=stream, check=False, timeout=60
            )
        if done.returncode != 0:
            raise RuntimeError(f"the cluster does not come up: {log.read_text()}")
        yield cluster
    finally:
        subprocess.run([str(script), "down"], env=environment, check=False, capture_output=True)
        log.unlink(missing_ok=True)
        shutil.rmtree(share, ignore_errors=True)
