"""Real applications of the Debian archive, each with an input small enough for tests."""

import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

_HPCC_EXAMPLE = Path("/usr/share/doc/hpcc/examples/_hpccinf.txt")
_PREPARE_SECONDS = 300

_LENNARD_JONES = """\
units lj
atom_style atomic
lattice fcc 0.8442
region box block 0 {cells} 0 {cells} 0 {cells}
create_box 1 box
create_atoms 1 box
mass 1 1.0
velocity all create 1.44 87287 loop geom
pair_style lj/cut 2.5
pair_coeff 1 1 1.0 1.0 2.5
neighbor 0.3 bin
neigh_modify delay 0 every 20 check no
fix 1 all nve
run {steps}
"""

_CHARGES = """\
units lj
atom_style charge
lattice fcc 0.6
region box block 0 {cells} 0 {cells} 0 {cells}
create_box 2 box
create_atoms 1 box
set group all type/fraction 2 0.5 1234
mass * 1.0
set type 1 charge 1.0
set type 2 charge -1.0
velocity all create 1.0 87287 loop geom
pair_style lj/cut/coul/long 2.5
pair_coeff * * 1.0 1.0
kspace_style pppm 1.0e-4
neighbor 0.3 bin
fix 1 all nve
fix 2 all temp/rescale 1 1.0 1.0 0.1 1.0
timestep 0.001
run {steps}
"""

_WATER_TOPOLOGY = """\
#include "oplsaa.ff/forcefield.itp"
#include "oplsaa.ff/spc.itp"
[ system ]
water
[ molecules ]
"""

_WATER_RUN = """\
integrator = md
nsteps = {steps}
dt = 0.001
cutoff-scheme = Verlet
coulombtype = PME
rcoulomb = 0.9
rvdw = 0.9
gen-vel = yes
"""

_HYDROGEN_ATOM = """\
 &input
   title='H', zed=1., rel=1, config='1s1 2p0', iswitch=3, dft='PBE'
 /
 &inputp
   lloc=-1, pseudotype=1, file_pseudopw='H.UPF', rcloc=1.0
 /
1
1S 1 0 1.00 0.00 1.00 1.00 0.0
"""

_HYDROGEN_CRYSTAL = """\
&control
 calculation='scf', prefix='h', pseudo_dir='.', outdir='./out'
/
&system
 ibrav=1, celldm(1)={edge}, nat=4, ntyp=1, ecutwfc=25, nbnd=8
/
&electrons
 electron_maxstep=60, conv_thr=1e-8
/
ATOMIC_SPECIES
H 1.0 H.UPF
ATOMIC_POSITIONS alat
H 0 0 0
H 0.18 0 0
H 0.5 0.5 0.5
H 0.68 0.5 0.5
K_POINTS automatic
1 1 1 1 1 1
"""


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


def _lennard_jones(folder, size):
    (folder / "in.lj").write_text(_LENNARD_JONES.format(cells=16, steps=40 * size))


def _charges(folder, size):
    (folder / "in.pppm").write_text(_CHARGES.format(cells=10, steps=10 * size))


def _water(folder, size):
    (folder / "topol.top").write_text(_WATER_TOPOLOGY)
    (folder / "md.mdp").write_text(_WATER_RUN.format(steps=30 * size))
    box = ["-cs", "spc216.gro", "-box", "4", "4", "4", "-p", "topol.top", "-o", "conf.gro"]
    _run(folder, ["gmx", "solvate", *box])
    _run(folder, ["gmx", "grompp", "-f", "md.mdp", "-c", "conf.gro", "-maxwarn", "5"])


def _hydrogen(folder, size):
    # No pseudopotential is packaged: the suite's own generator makes one.
    _run(folder, ["ld1.x"], text=_HYDROGEN_ATOM)
    edge = 8 * size ** (1 / 3)  # the work grows about as the volume
    (folder / "pw.in").write_text(_HYDROGEN_CRYSTAL.format(edge=f"{edge:.1f}"))


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
