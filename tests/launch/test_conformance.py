"""What holds for every launcher: its line, its words for a plan, its exports, read back here.

Readers are written after each launcher's documentation. A new launcher needs one here.
"""

import re
import socket

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.launch.test_export import BY_NODE, placement
from tests.support.processes import executable
from toposeat.errors import InputError, ToposeatError, UsageError
from toposeat.launch import EXPORTERS, export_placement, hand_on, parse_launch_line, run_placed
from toposeat.launch.launchers import LAUNCHERS
from toposeat.model.hostlist import expand_hostlist
from toposeat.model.placement_file import save_placement

KINDS = [kind for kind in LAUNCHERS if kind not in ("none", "ssh")]  # ssh starts no ranks
ANSWERS = {
    "openmpi": "mpirun (Open MPI) 5.0.11",
    "mpich": "HYDRA build details:\n    Version: 4.3.0",
    "intel": "Intel(R) MPI Library for Linux* OS, Version 2021.18",
    "pals": "mpiexec version 1.4.0 (PALS)",
}
COMMAND = {"flux": ("run",)}
NATURAL = ("n1", "n2", "n10")
HERE = socket.gethostname()


def beginning(kind, ranks, hosts):
    """The line's words behind the launcher's name that start so many ranks, up to the program."""
    table = LAUNCHERS[kind].table
    name = min(table.ranks or table.per_host, key=len)
    words = [*COMMAND.get(kind, ()), f"-{name}" if len(name) == 1 else f"--{name}", str(ranks)]
    return words + (hosts if LAUNCHERS[kind].operands else [])


def parse(kind, words):
    return parse_launch_line([kind, *words], identify=lambda _: kind)


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=40)
@given(ranks=st.integers(1, 6), data=st.data())
def test_a_line_read_back_has_its_ranks_and_its_program(kind, ranks, data):
    table = LAUNCHERS[kind].table
    start = beginning(kind, ranks, ["n1"] * ranks)
    said = table.ranks | table.per_host | table.nodes | set(table.many) | table.by_task
    others = sorted(set(table.arity) - said - {"m", "module"})
    words = list(COMMAND.get(kind, ()))
    if others:
        for name in data.draw(st.lists(st.sampled_from(others), max_size=6)):
            words.append(f"-{name}" if len(name) == 1 else f"--{name}")
            values = st.sampled_from(["value", "3", "-1", "a=b", "--x"])
            size = table.arity[name]
            words += data.draw(st.lists(values, min_size=size, max_size=size))
    files = {f"{dash}{name}" for name in table.host_files for dash in ("-", "--")}
    if LAUNCHERS[kind].operands and files & set(words):
        start = start[:-ranks]
    words += start[len(COMMAND.get(kind, ())) :]
    program = ["./app", *data.draw(st.lists(st.sampled_from(["-n", "4", "--", "x"])))]
    line = parse(kind, [*words, *program])
    assert (line.program, line.ranks) == (tuple(program), ranks)
    assert line.argv == (kind, *words, *program)


@pytest.mark.parametrize("kind", KINDS)
@given(words=st.lists(st.text(max_size=6), max_size=6))
def test_any_words_give_a_line_or_a_clean_error(kind, words):
    words = [*COMMAND.get(kind, ()), *words]
    try:
        line = parse(kind, words)
    except ToposeatError as error:
        assert error.hint
    else:
        assert [*line.launcher, *line.program] == [kind, *words]


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_handed_on_is_named_and_its_value_is_not(kind):
    words = [*beginning(kind, 2, ["n1", "n1"]), "./app"]
    line = parse(kind, words)
    own, added = hand_on(line, ["KEY"], {"KEY": "secret"})
    assert "secret" not in " ".join((*own.argv, *added.values()))
    again = parse(kind, list(own.argv[1:]))
    assert (again.ranks, again.program, again.options[-1:]) == (2, ("./app",), line.options[-1:])


# ---- the words for a plan, read as the launcher would ----


class Said:
    """A line's words, its files and variables; the job's hosts with the number of its tasks."""

    def __init__(self, words, files, environment, job):
        self.words, self.files, self.environment, self.job = words, files, environment, job

    def value(self, *options):
        """What stands behind an option, as a word of its own or after `=`."""
        for at, word in enumerate(self.words):
            if word in options:
                return self.words[at + 1]
            if word.partition("=")[0] in options:
                return word.partition("=")[2]
        return None

    def number(self, *options):
        return int(self.value(*options) or 0)

    def file(self, path):
        """The lines of a file that the line names."""
        return self.files[(path or "").rpartition("/")[2]].splitlines()

    def renumbered(self, slots):
        """What Cray MPICH makes of its order of ranks, given the host of every process."""
        path = self.environment.get("MPICH_RANK_REORDER_FILE")
        if path is None:
            return slots
        assert self.environment["MPICH_RANK_REORDER_METHOD"] == "3"
        ranks = [int(rank) for line in self.file(path) for rank in line.split(",")]
        host = dict(zip(ranks, slots, strict=True))
        return [host[rank] for rank in range(len(slots))]


def blocks(hosts, each):
    return [host for host in hosts for _ in range(each)]


def by_openmpi(said, ranks):
    policy = said.value("--map-by") or ""
    rankfile = policy.partition("rankfile:file=")[2] or said.value("--rankfile")
    if not rankfile:
        return [line.split()[0] for line in said.file(said.value("--hostfile"))]
    pairs = [re.fullmatch(r"rank (\d+)=(\S+) slot=\S+", line) for line in said.file(rankfile)]
    host = {int(pair[1]): pair[2] for pair in pairs if pair}
    return [host[rank] for rank in range(ranks)]


def by_hydra(said, ranks):
    listed = [line.split(":") for line in said.file(said.value("-f", "-machinefile"))]
    numbers = said.value("-rankmap")
    if numbers is not None:
        return [listed[int(number)][0] for number in numbers.split(",")]
    # round after round, until all ranks are dealt out
    each = [name for name, count in listed for _ in range(int(count))]
    return (each * ranks)[:ranks]


def by_srun(said, ranks):
    way = said.value("-m")
    if way == "arbitrary":
        return said.file(said.environment["SLURM_HOSTFILE"])
    count = said.number("--ntasks-per-node")
    size = {"block": count, "cyclic": 1}.get(way or "") or int((way or "").removeprefix("plane="))
    hosts = sorted(expand_hostlist(said.value("-w") or ""), key=lambda name: int(name[1:]))
    assert ranks == len(hosts) * count
    rounds = range(0, count, size)
    slots = [h for first in rounds for h in hosts for _ in range(min(size, count - first))]
    return said.renumbered(slots)


def by_flux(said, ranks):
    taskmap = said.value("--taskmap")
    if taskmap is not None:
        return said.file(taskmap.removeprefix("hostfile:"))
    hosts = expand_hostlist((said.value("--requires") or "").removeprefix("host:"))
    assert len(hosts) == said.number("-N")
    return blocks(tuple(sorted(hosts, key=lambda name: int(name[1:]))), ranks // len(hosts))


def by_pals(said, ranks):
    hosts = tuple(said.file(said.value("--hostfile")))
    assert ranks == len(hosts) * said.number("--ppn")
    return said.renumbered(blocks(hosts, said.number("--ppn")))


READERS = {
    "openmpi": by_openmpi,
    "openmpi4": by_openmpi,
    "mpich": by_hydra,
    "intel": by_hydra,
    "srun": by_srun,
    "slurm": by_srun,
    "cray": by_srun,
    "flux": by_flux,
    "pals": by_pals,
}
# Those that number ranks node by node say no host of a rank, or leave it to a script of their own:
# tests/launch/test_export_nodes.py and test_export_pods.py run what they write.
OTHERS = (*BY_NODE, "env", "script")
# Launchers that have words for some orders only.
SOME_ORDERS = {"intel", "pals", "cray", "torchrun", "env", *BY_NODE}


@st.composite
def plans(draw):
    """The host of every rank: blocks, rounds or any order, on at least two of three hosts."""
    each, hosts = draw(st.integers(1, 3)), draw(st.permutations(NATURAL))
    hosts = hosts[: draw(st.integers(2, 3))]
    plan = draw(
        st.sampled_from(
            [
                blocks(tuple(h for h in NATURAL if h in hosts), each),
                blocks(tuple(hosts), each),
                list(hosts) * each,
            ]
        )
    )
    return draw(st.sampled_from([plan, draw(st.permutations(plan)), [*plan, hosts[0]]]))


def is_plain(hosts):
    """Blocks of one size over hosts in their natural order, which every launcher can start."""
    used = tuple(host for host in NATURAL if host in hosts)
    return hosts == blocks(used, len(hosts) // len(used))


@pytest.fixture(scope="session")
def programs(tmp_path_factory):
    """Every launcher as a program that only knows its version."""
    folder = tmp_path_factory.mktemp("launchers")
    for kind in KINDS:
        own = folder / kind
        own.mkdir()
        executable(
            own / (LAUNCHERS[kind].names or ("mpiexec",))[0],
            f"#!/bin/sh\ncat <<'END'\n{ANSWERS.get(kind, '')}\nEND\n",
        )
    return folder


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in OTHERS])
@given(hosts=plans())
@settings(max_examples=25, deadline=None)
def test_the_words_for_a_plan_give_the_plan(kind, hosts, programs):
    used = [host for host in NATURAL if host in hosts]
    job = {host: hosts.count(host) for host in used}
    counts = ",".join(map(str, job.values()))
    environment = {
        "PATH": "/usr/bin:/bin",
        "SLURM_JOB_NODELIST": ",".join(used),
        "SLURM_TASKS_PER_NODE": counts,
        "SLURM_JOB_CPUS_PER_NODE": counts,
        "SLURM_MPI_TYPE": "pmix",
    }
    place = placement(hosts, [0] * len(hosts), [str(rank) for rank in range(len(hosts))])
    path = programs / kind / "app.place"
    save_placement(place, path, overwrite=True)
    (program,) = (each for each in path.parent.iterdir() if each != path)
    argv = [str(program), *beginning(kind, len(hosts), sorted(hosts)), "app"]
    options = {"dry_run": True, "visibility": "mask", "environment": environment}
    try:
        record = run_placed(argv, place, path, **options)
    except InputError as error:
        assert kind in SOME_ORDERS
        assert not is_plain(hosts)
        assert error.hint
        return
    at = next(i for i, word in enumerate(record.launched) if word.endswith("toposeat-exec"))
    start = record.launched.index(str(program))
    variables = dict(word.split("=", 1) for word in record.launched[1:start])
    said = Said(record.launched[start:at], record.launch_files, variables, job)
    assert READERS[kind](said, len(hosts)) == hosts


@pytest.mark.parametrize("hosts", [["a", HERE, "b"], [HERE, "a"], ["a", "b", HERE]])
def test_torchrun_on_a_host_has_the_node_rank_of_its_ranks(hosts, programs):
    place = placement([host for host in hosts for _ in range(2)], [0, 1] * len(hosts), [None] * 6)
    path = programs / "torchrun.place"
    save_placement(place, path, overwrite=True)
    argv = [str(programs / "torchrun/torchrun"), "--nnodes", str(len(hosts))]
    argv += ["--nproc-per-node", "2", "app"]
    record = run_placed(argv, place, path, dry_run=True, environment={"PATH": "/usr/bin"})
    said = Said(record.launched, {}, {}, {})
    assert said.value("--node_rank") == str(hosts.index(HERE))
    assert (said.value("--rdzv_backend"), said.value("--master_addr")) == ("static", hosts[0])
    told = []
    argv[1:1] = ["--rdzv-backend", "c10d"]
    record = run_placed(
        argv,
        place,
        path,
        dry_run=True,
        environment={"PATH": "/usr/bin"},
        tell=lambda *lines: told.extend(lines),
    )
    said = Said(record.launched, {}, {}, {})
    node = hosts.index(HERE)
    assert said.value("--local_addr") == (f"{hosts[0]}~{node}" if node else HERE)
    assert said.value("--rdzv-backend") == "c10d"
    assert len(told) == (node == 0)  # once in the job


@pytest.mark.parametrize("launcher", [name for name in EXPORTERS if name not in OTHERS])
@given(hosts=plans())
@settings(max_examples=25, deadline=None)
def test_what_export_writes_gives_the_plan(launcher, hosts):
    used = [host for host in NATURAL if host in hosts]
    place = placement(hosts, [0] * len(hosts), [str(rank) for rank in range(len(hosts))])
    try:
        export = export_placement(place, launcher, visibility="mask")
    except UsageError as error:
        assert launcher in SOME_ORDERS
        assert not is_plain(hosts)
        assert error.hint
        return
    files = {file.name: file.text for file in export.files}
    job = {host: hosts.count(host) for host in used}
    said = Said(export.command, files, export.environment, job)
    assert READERS[launcher](said, len(hosts)) == hosts
    assert export.command[-1] == "./app"
