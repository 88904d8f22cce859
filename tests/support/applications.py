"""Real applications of the Debian archive, each with an input small enough for tests."""

import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

_HPCC_EXAMPLE = Path("/usr/share/doc/hpcc/examples/_hpccinf.txt")
_PREPARE_SECONDS = 300
_INPUTS = Path(__file__).with_name("inputs")


@dataclass(frozen=True)
class Application:
    """A program, its input, and the text that shows it really ran."""

    name: str
    programs: tuple[str, ...]  # all must be on PATH; from the Debian package `package`
    package: str
    prepare: Callable[[Path, int], None]  # writes the input into a folder, `size` times the small
    command: tuple[str, ...]  # run in that folder, after the launcher
    output: str  # file of the folder that holds `done` after a good run; "" is stdout
    done: str

    def missing(self):
        """Why it cannot run here, or None."""
        absent = [each for each in self.programs if shutil.which(each) is None]
        if absent:
            return f"{self.name}: no {absent[0]}; install the Debian package {self.package}"
        return None

    def ran(self, folder, stdout):
        """Whether the run that printed `stdout` in `folder` came to its end."""
        text = stdout if not self.output else (folder / self.output).read_text(errors="replace")
        return self.done in text


def _write(folder, name, **values):
    (folder / name).write_text((_INPUTS / name).read_text().format(**values))


def _lennard_jones(folder, size):
    _write(folder, "in.lj", cells=16, steps=40 * size)


def _charges(folder, size):
    _write(folder, "in.pppm", cells=10, steps=10 * size)


def _water(folder, size):
    _write(folder, "topol.top")
    _write(folder, "md.mdp", steps=30 * size)
    box = ["-cs", "spc216.gro", "-box", "4", "4", "4", "-p", "topol.top", "-o", "conf.gro"]
    _run(folder, ["gmx", "solvate", *box])
    _run(folder, ["gmx", "grompp", "-f", "md.mdp", "-c", "conf.gro", "-maxwarn", "5"])


def _hydrogen(folder, size):
    # No pseudopotential is packaged: the suite's own generator makes one.
    _run(folder, ["ld1.x"], text=(_INPUTS / "ld1.in").read_text())
    edge = 8 * size ** (1 / 3)  # the work grows about as the volume
    _write(folder, "pw.in", edge=f"{edge:.1f}")


def _hpcc(folder, _):
    shutil.copy(_HPCC_EXAMPLE, folder / "hpccinf.txt")


def _run(folder, command, text=""):
    subprocess.run(
        command,
        cwd=folder,
        input=text,
        text=True,
        capture_output=True,
        check=True,
        timeout=_PREPARE_SECONDS,
    )


APPLICATIONS = (
    Application(
        name="LAMMPS LJ",
        programs=("lmp",),
        package="lammps",
        prepare=_lennard_jones,
        command=("lmp", "-in", "in.lj", "-log", "none"),
        output="",
        done="Total wall time",
    ),
    Application(
        name="LAMMPS PPPM",
        programs=("lmp",),
        package="lammps",
        prepare=_charges,
        command=("lmp", "-in", "in.pppm", "-log", "none"),
        output="",
        done="Total wall time",
    ),
    Application(
        name="GROMACS PME",
        programs=("gmx", "gmx_mpi"),
        package="gromacs",
        prepare=_water,
        command=("gmx_mpi", "mdrun", "-s", "topol.tpr", "-ntomp", "1", "-deffnm", "md"),
        output="md.log",
        done="Finished mdrun",
    ),
    Application(
        name="Quantum ESPRESSO",
        programs=("pw.x", "ld1.x"),
        package="quantum-espresso",
        prepare=_hydrogen,
        command=("pw.x", "-in", "pw.in"),
        output="",
        done="JOB DONE",
    ),
    Application(
        name="HPCC",
        programs=("hpcc",),
        package="hpcc",
        prepare=_hpcc,
        command=("hpcc",),
        output="hpccoutf.txt",
        done="End of HPC Challenge tests",
    ),
)
