"""The ranks of a node meet, and start together or not at all."""

import ctypes
import os
import re
import signal
import subprocess
import time

import pytest

from tests.launcher.support import (
    PCI,
    UUID,
    Outcome,
    node_tree,
    placement_text,
    seat_line,
)
from tests.support.processes import LONGEST_S
from toposeat.launch.home import Home
from toposeat.launch.home_job import Decision, Expected
from toposeat.launch.verification import parse_seat_report, refusal_error, refusal_lines

FOUR = placement_text([seat_line(rank, 3 - rank) for rank in range(4)])
NOWHERE = "9:1:127.0.0.1"  # nobody listens at the port of `discard`
KEY = {"TOPOSEAT_HOME_KEY": "0" * 64}
PROBES = Expected(name=re.compile(r"rank-(?P<rank>[0-9]+)-[0-9]+-[0-9]+\.probe"), ranks=4)


def job(rank, local_rank=None, **variables):
    own = rank if local_rank is None else local_rank
    fixed = {"PMI_RANK": rank, "PMI_SIZE": 4, "MPI_LOCALRANKID": own, "MPI_LOCALNRANKS": 4}
    return {**{name: str(value) for name, value in fixed.items()}, **variables}


def start(launcher, words, ranks):
    tree = launcher.folder / "tree"
    base = {"PATH": os.environ["PATH"]}
    base |= {"TOPOSEAT_SYSROOT": str(tree)} if tree.exists() else node_tree(tree)
    return [
        subprocess.Popen(
            [str(launcher.program), *map(str, words)],
            env={**base, **own},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        for own in ranks
    ]


def wait(children):
    done = []
    for child in children:
        out, err = child.communicate(timeout=LONGEST_S)
        done.append(Outcome(child.returncode, out.decode(), err.decode()))
    return done


def meet(launcher, folder, ranks, *options, text=FOUR, program=("env", "-0")):
    """Start ranks whose placement is at home only."""
    with Home(folder, placement=text.encode(), ranks=4, expected=PROBES) as home:
        words = ["-m", "/no/such.place", "--home", home.words, *options, *program]
        done = wait(start(launcher, words, [{**home.environment, **each} for each in ranks]))
    return done, home


def test_four_ranks_get_their_seats_from_home_and_report_there(launcher, tmp_path, probe_library):
    done, home = meet(launcher, tmp_path, [job(i) for i in range(4)], "--probe", str(probe_library))
    assert [each.code for each in done] == [0] * 4, done
    assert {each.variables["CUDA_VISIBLE_DEVICES"] for each in done} == {"3,2,1,0"}
    assert {each.stderr for each in done} == {""}
    assert home.decision is Decision.GO
    names = {path.name.split("-")[1] for path in tmp_path.glob("rank-*.probe")}
    assert names == {"0", "1", "2", "3"}
    assert set(home.verdicts.reports) == {0, 1, 2, 3}


def test_a_home_that_is_busy_hears_all_probes(launcher, tmp_path, probe_library):
    """Ranks that end while it does nothing for a second."""
    with Home(tmp_path, placement=FOUR.encode(), ranks=4, expected=PROBES) as home:
        words = ["-m", "/no/such.place", "--home", home.words, "--probe", probe_library]
        ranks = [{**home.environment, **job(rank)} for rank in range(4)]
        children = start(launcher, [*words, "sleep", "0.3"], ranks)
        while home.decision is Decision.OPEN:
            time.sleep(0.01)
        ctypes.PyDLL(None).usleep(1_200_000)  # holds the lock of the interpreter
        wait(children)
    names = {path.name.split("-")[1] for path in tmp_path.glob("rank-*.probe")}
    assert names == {"0", "1", "2", "3"}


def test_a_launcher_that_numbers_local_ranks_its_own_way_gets_a_list_for_it(launcher, tmp_path):
    ranks = [job(rank, local) for rank, local in enumerate([2, 0, 3, 1])]
    done, _ = meet(launcher, tmp_path, ranks)
    assert [each.code for each in done] == [0] * 4, done
    lists = {each.variables["CUDA_VISIBLE_DEVICES"] for each in done}
    # local rank 0 is rank 1, on device 2; local rank 1 is rank 3, on device 0; and so on
    assert lists == {"2,0,3,1"}


def test_local_ranks_that_nobody_tells_are_counted(launcher, tmp_path):
    ranks = [{"PMIX_RANK": str(i), "PMI_SIZE": "4"} for i in range(4)]
    done, home = meet(launcher, tmp_path, ranks)
    assert [each.code for each in done] == [0] * 4, done
    report = parse_seat_report(home.verdicts.reports[2])
    assert report["local_rank"] == ("2",)
    assert report["local_rank_source"] == ("meeting the other ranks of the node",)


def test_one_rank_that_misses_its_device_keeps_all_from_starting(launcher, tmp_path):
    ranks = [job(i) for i in range(3)] + [job(3, CUDA_VISIBLE_DEVICES="1,2,3")]
    done, home = meet(launcher, tmp_path, ranks, "--visibility", "mask")
    assert [each.code for each in done] == [125] * 4
    assert {each.stdout + each.stderr for each in done} == {""}
    assert refusal_lines(home.verdicts, 4) == [
        "Not started: 1 of 4 ranks cannot be seated as placed",
        "  rank 3: the placement needs device 0000:1a:00.0, and this process sees"
        " 0000:3d:00.0, 0000:88:00.0, 0000:b1:00.0 only",
    ]


@pytest.mark.parametrize("program", ["no-such-program", "/no/such/program"])
def test_a_program_that_is_not_there_is_said_once(launcher, tmp_path, program):
    done, home = meet(launcher, tmp_path, [job(i) for i in range(4)], program=[program])
    assert {(each.code, each.stdout + each.stderr) for each in done} == {(125, "")}
    assert refusal_lines(home.verdicts, 4) == [
        "Not started: 4 of 4 ranks cannot be seated as placed",
        f"  ranks 0-3: {program} is not found, or cannot be executed",
    ]
    hint = refusal_error(home.verdicts, 4).hint
    assert hint == "check the name of the program, or load its module"


@pytest.mark.parametrize("missing", ["", PCI[1], UUID[1]])
def test_an_emulated_machine_has_the_devices_of_its_text_only(launcher, tmp_path, missing):
    lines = [f"device {at} {PCI[at]} {UUID[at]} 70 3 16 1 1 name" for at in range(4)]
    text = ";".join(["toposeat-emulated-machine 1", "name four", *lines, "end"])
    machine = {
        "TOPOSEAT_EMULATED_MACHINE": "/no/such/file",
        "TOPOSEAT_EMULATED_TEXT": text.replace(missing, "other") if missing else text,
    }
    done, home = meet(launcher, tmp_path, [job(i, **machine) for i in range(4)])
    assert [each.code for each in done] == [125 if missing else 0] * 4, done
    assert bool(home.verdicts.unseated) == bool(missing)


def test_what_is_left_out_is_refused_only_if_strict(launcher, tmp_path):
    text = placement_text([seat_line(i, i, cpus="4000") for i in range(4)])
    ranks = [job(i) for i in range(4)]
    done, _ = meet(launcher, tmp_path, ranks, text=text)
    assert [each.code for each in done] == [0] * 4
    assert {each.stderr for each in done} == {""}
    done, home = meet(launcher, tmp_path, ranks, "--strict", text=text)
    assert [each.code for each in done] == [125] * 4
    assert "CPUs 4000 are not among those" in refusal_lines(home.verdicts, 4)[1]


def test_without_home_the_ranks_of_a_node_agree_among_themselves(launcher, tmp_path):
    words = ["-m", launcher.place(FOUR), "--home", NOWHERE]
    four = [job(i, **KEY) for i in range(4)]
    done = wait(start(launcher, [*words, "env", "-0"], four))
    assert [each.code for each in done] == [0] * 4, done
    assert {each.variables["CUDA_VISIBLE_DEVICES"] for each in done} == {"3,2,1,0"}
    (said,) = (each.stderr for each in done if each.stderr)
    assert said.startswith(
        "toposeat-exec: note: rank 0: started and unverified: the host that started this job did"
        " not answer at 127.0.0.1, port 9, within 1 s; seats are checked on this node"
    )
    assert "TOPOSEAT_PORTS=FROM-TO" in said
    bad = [job(i, **KEY) for i in range(3)] + [job(3, CUDA_VISIBLE_DEVICES="1,2,3", **KEY)]
    done = wait(start(launcher, [*words, "--visibility", "mask", "true"], bad))
    assert [each.code for each in done] == [125] * 4
    assert not any("started" in each.stderr.replace("not started", "") for each in done)
    assert sum("the placement needs device" in each.stderr for each in done) == 1
    assert sum("not started: a rank of this node" in each.stderr for each in done) == 1
    done = wait(start(launcher, [*words, "--strict", "true"], four))
    assert [each.code for each in done] == [125] * 4
    (said,) = (each.stderr for each in done if each.stderr)
    assert "not started: the host that started this job did not answer at 127.0.0.1" in said
    assert "let that port through, or name open ones on that host: TOPOSEAT_PORTS" in said


def test_a_launcher_that_hands_no_key_on_is_named_as_the_cause(launcher, tmp_path):
    words = ["-m", launcher.place(FOUR), "--home", NOWHERE, "true"]
    done = wait(start(launcher, words, [job(i) for i in range(4)]))
    assert [each.code for each in done] == [0] * 4
    (said,) = (each.stderr for each in done if each.stderr)
    assert "cannot be asked: the launcher did not hand on TOPOSEAT_HOME_KEY" in said


def test_a_rank_that_is_killed_does_not_keep_the_others_waiting(launcher, tmp_path):
    with Home(tmp_path, placement=FOUR.encode(), ranks=5) as home:  # one never comes
        words = ["-m", "/no/such.place", "--home", home.words, "true"]
        children = start(launcher, words, [job(i, **home.environment) for i in range(4)])
        deadline = time.monotonic() + LONGEST_S
        while len(home.verdicts.reports) < 4:
            assert time.monotonic() < deadline
            time.sleep(0.02)
        for child in children[:2]:  # perhaps the one that speaks for all
            child.send_signal(signal.SIGKILL)
        wait(children)


def test_home_that_ends_leaves_the_decision_to_the_node(launcher, tmp_path):
    with Home(tmp_path, placement=FOUR.encode(), ranks=5) as home:
        words = ["-m", "/no/such.place", "--home", home.words, "true"]
        children = start(launcher, words, [job(i, **home.environment) for i in range(4)])
        deadline = time.monotonic() + LONGEST_S
        while len(home.verdicts.reports) < 4:
            assert time.monotonic() < deadline
            time.sleep(0.02)
    done = wait(children)
    assert [each.code for each in done] == [0] * 4
    assert sum("started and unverified" in each.stderr for each in done) == 1
    assert sum("this job has gone" in each.stderr for each in done) == 1


@pytest.mark.parametrize(
    "words", ["x", "1:", "99999:1:127.0.0.1", "1::127.0.0.1", "5:0:127.0.0.1", "5:1:b,,c:d,"]
)
def test_words_that_lead_nowhere_are_no_home(launcher, words):
    text = placement_text([seat_line(0, 2)])
    alone = {"PMI_RANK": "0", "PMI_SIZE": "1", "MPI_LOCALRANKID": "0"}
    alone |= {**node_tree(launcher.folder / "tree"), **KEY}
    done = launcher.run("-m", launcher.place(text), "--home", words, "env", "-0", env=alone)
    assert done.variables["CUDA_VISIBLE_DEVICES"] == "2"
    assert done.stderr.count("started and unverified") == 1
