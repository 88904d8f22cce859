"""Wrappers before a launcher and between it and its program, and lines that are typed wrongly.

`tests/cli/typed_lines.txt` has them. There launchers are imitated, and all wrappers that are not
part of every Linux, so that each machine says the same: a shell script drops its own words and
starts the rest. Debian's own and those of PyPI, where they are installed, are run below as they
are; apptainer, enroot, shifter, conda and pixi are in neither, and imitated alone.
"""

import os
import shlex
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.launch.test_export import placement
from tests.support.processes import executable, ran
from tests.support.typed_lines import lines
from toposeat.cli.main import main
from toposeat.errors import UsageError
from toposeat.installed import native_path
from toposeat.launch import run_placed, unwrapped
from toposeat.launch.python_hook import own_folders
from toposeat.model.placement_file import save_placement
from toposeat.model.traffic_file import load_traffic

TOPOSEAT = Path(sys.executable).with_name("toposeat")
LAUNCHERS = {"mpirun": "mpirun (Open MPI) 4.1.4", "srun": "slurm 22.05.8", "torchrun": "torchrun"}
# Starts what begins at the first word that is known; answers as a launcher where it is one.
WRAPPER = """#!/bin/sh
while [ $# -gt 0 ]; do
  case "${1##*/}" in sh|mpirun|srun|torchrun|python|app) exec "$@" ;; esac
  shift
done
exit 9
"""
IMITATED = (
    "time ionice chrt numactl uv pixi poetry pipenv conda mamba micromamba apptainer singularity"
    " enroot shifter docker podman site-run pinned profiler nsys sbatch salloc"
)
HERE = socket.gethostname()
EXEC = str(native_path("bin/toposeat-exec"))


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """A folder with a program, a placement for four ranks of this host, and imitations on PATH."""
    folder = tmp_path_factory.mktemp("site")
    tools = folder / "bin"
    tools.mkdir()
    for name, answer in LAUNCHERS.items():
        _script(tools / name, f"#!/bin/sh\necho '{answer}'\n")
    for name in IMITATED.split():
        _script(tools / name, WRAPPER)
    for name in ("unnamed", "strace"):  # no scripts, which might start ranks themselves
        shutil.copy("/bin/true", tools / name)
    (tools / "python").symlink_to(sys.executable)
    (folder / "app").symlink_to("/bin/true")
    (folder / "train.py").write_text("")
    _script(folder / "job.sh", "#!/bin/bash\nset -e\nmpirun -n 4 ./app\n")
    left_out = ("SLURM_", "OMPI_", "PMI_", "TOPOSEAT_")
    environment = {name: v for name, v in os.environ.items() if not name.startswith(left_out)}
    environment |= {
        "PATH": f"{tools}{os.pathsep}/usr/bin{os.pathsep}/bin",
        "TOPOSEAT_WRAPPERS": "site-run pinned=1 profiler=1",
        "TMPDIR": str(folder),
        "HOME": str(folder),
    }
    (folder / ".bash_profile").write_text(f"PATH={tools}:$PATH\n")  # what a login shell reads
    words = ["map", "llm:tp=4", "-t", "rtx-4-crossed-bridges", "-o", "p.place"]
    subprocess.run([TOPOSEAT, *words], cwd=folder, env=environment, check=True, capture_output=True)
    return folder, environment


def _script(path, text):
    executable(path, text)


@pytest.mark.parametrize(("verb", "line", "expected"), [*lines("run"), *lines("profile")])
def test_line(*, verb, line, expected, site, monkeypatch, capfdbinary):  # fmt: skip
    folder, environment = site
    own = (
        ["-p", "p.place", "--other-machine"]
        if verb == "run" and not line.startswith("p.place")
        else []
    )
    monkeypatch.chdir(folder)
    for name in {*os.environ, *environment}:
        if environment.get(name) != os.environ.get(name):
            monkeypatch.delenv(name, raising=False)
            monkeypatch.setenv(name, environment[name]) if name in environment else None
    before = [verb, *own, "--dry-run"]
    code = main([*before, *shlex.split(line)])
    out, err = (text.decode() for text in capfdbinary.readouterr())
    if expected.startswith("! "):
        assert code in (1, 2, 127), out
        assert "\nhint:  " in f"\n{err}", err
        assert expected[2:] in err
        return
    assert code == 0, err
    launched = _shortened(shlex.split(out.splitlines()[-1]), folder)
    assert shlex.join(launched).find(_as_words(expected)) >= 0, launched


def _as_words(text):
    return shlex.join(shlex.split(text))


def _shortened(words, folder):
    """With EXEC for toposeat-exec's own words, BIND for a container's folders, PATH for ours."""
    if EXEC in words:
        at = words.index(EXEC)
        words = [*words[:at], "EXEC", *words[words.index("--", at) + 1 :]]
    shown = ("--bind=/", "--mount=/", "--volume=/")
    binds = [at for at, word in enumerate(words) if word.startswith(shown)]
    if binds:
        folders = [words[at].partition("=")[2].partition(":")[0] for at in binds]
        assert str(Path(EXEC).parents[1]) in folders
        assert binds == list(range(binds[0], binds[-1] + 1))
        words = [*words[: binds[0]], "BIND", *words[binds[-1] + 1 :]]
    return [word.replace(str(folder / "bin"), "PATH") for word in words]


@pytest.mark.mpi
@pytest.mark.parametrize(
    ("before", "between"),
    [
        ("env A=1 nohup nice -n 1 timeout 60", "env B=2 nice stdbuf -oL taskset -c 0"),
        ('bash -c \'cd . && exec "$0" "$@"\'', 'sh -c \'exec "$0" "$@"\''),
        ("time -p", ""),
        ("setsid -w", "numactl --localalloc"),
        ("uv run --no-project", "uv run --no-project"),
    ],
)
def test_real_wrappers_are_recorded_through(before, between, mpi, probe, tmp_path):
    """Debian's own and uv: every rank is recorded as without them."""
    for text in (before, between):
        name = (text.split() or ["sh"])[0]
        if shutil.which(name) is None:
            pytest.skip(f"{name} is not installed")
    line = [*shlex.split(before), str(mpi.mpirun), *mpi.run_flags, "-n", "2"]
    done = ran(
        [TOPOSEAT, "profile", "-o", tmp_path / "a.prof", *line, *shlex.split(between), probe],
        cwd=tmp_path,
        env=mpi.env,
    )
    assert done.returncode == 0, done.stderr
    assert load_traffic(tmp_path / "a.prof").ranks == 2


@pytest.mark.parametrize("tool", ["poetry", "pipenv"])
def test_a_tool_of_python_starts_what_is_behind_it(tool, tmp_path):
    if shutil.which(tool) is None:
        pytest.skip(f"{tool} is not installed")
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "a"\nversion = "1"\n')
    (tmp_path / "Pipfile").write_text("")
    done = ran(
        [TOPOSEAT, "profile", "--dry-run", tool, "run", "python", "-c", "pass"],
        cwd=tmp_path,
        env={**os.environ, "PIPENV_VENV_IN_PROJECT": "1", "POETRY_VIRTUALENVS_IN_PROJECT": "1"},
    )
    assert done.returncode == 0, done.stderr
    assert f"{tool} run python -c pass" in done.stdout


@pytest.mark.mpi
@pytest.mark.parametrize("before", ["", "singularity exec a.sif"])
def test_ranks_in_containers_are_recorded(before, mpi, probe, tmp_path):
    """Imitated: what is mounted must exist, and toposeat-exec stands behind the image."""
    check = """#!/bin/sh
shift
while [ "$1" != a.sif ]; do
  case $1 in --bind=*) test -e "${1#--bind=}" || exit 9 ;; esac
  shift
done
shift
exec "$@"
"""
    for name in ("apptainer", "singularity"):
        _script(tmp_path / name, check)
    line = [*before.split(), str(mpi.mpirun), *mpi.run_flags, "-n", "2"]
    line += [] if before else ["apptainer", "exec", "--nv", "a.sif"]
    done = ran(
        [TOPOSEAT, "profile", "-o", tmp_path / "a.prof", *line, probe],
        env={**mpi.env, "PATH": f"{tmp_path}{os.pathsep}{mpi.env['PATH']}"},
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    assert load_traffic(tmp_path / "a.prof").ranks == 2


@pytest.mark.parametrize("host", ["n1", HERE])
def test_containers_are_shown_what_their_node_has(host, tmp_path):
    """Files of a run are here alone: a container elsewhere that mounts them would not start."""
    for name in ("srun", "apptainer"):
        _script(tmp_path / name, "#!/bin/sh\n")
    place = tmp_path / "p.place"
    save_placement(plan := placement([host] * 2, [0, 1], [None] * 2), place)
    job = {
        "SLURM_JOB_NODELIST": host,
        "SLURM_MPI_TYPE": "pmix",
        "PATH": f"{tmp_path}:/usr/bin:/bin",
    }
    line = [str(tmp_path / "srun"), *["-n", "2", "apptainer", "exec", "a.sif", "./app"]]
    words = run_placed(line, plan, place, environment=job, tell=lambda *_: None).launched
    files = [str(place), words[words.index("--report") + 1]] if host == HERE else []
    shown = [word.removeprefix("--bind=") for word in words if word.startswith("--bind=")]
    assert shown == [*map(str, own_folders()), *files]


def test_what_a_command_starts():
    command = unwrapped(
        ("env", "A=1", "numactl", "-l", "apptainer", "exec", "a.sif", "./app", "-x")
    )
    assert command.before == ("env", "A=1", "numactl", "-l", "apptainer", "exec", "a.sif")
    assert command.program == ("./app", "-x")
    assert (command.contained, command.bound_by) == (True, ("numactl",))
    assert unwrapped(("uv", "pip", "install", "x")).before == ()
    assert unwrapped(("./app", "env", "x")).program == ("./app", "env", "x")


def test_the_users_own(monkeypatch):
    monkeypatch.setenv("TOPOSEAT_WRAPPERS", "with-modules, pin=2")
    assert unwrapped(("pin", "0", "1", "with-modules", "./app")).program == ("./app",)
    monkeypatch.setenv("TOPOSEAT_WRAPPERS", "pin=x")
    with pytest.raises(UsageError, match="pin=x"):
        unwrapped(("pin", "./app"))


def test_cpus_of_a_wrapper_are_said(site):
    folder, environment = site
    words = "run -p p.place --other-machine --json --no-verify"
    line = "taskset -c 0 mpirun -n 4 taskset -c 0 ./app"
    done = ran([TOPOSEAT, *words.split(), *line.split()], cwd=folder, env=environment)
    assert "taskset of the line binds every rank itself" in done.stdout, done.stderr
