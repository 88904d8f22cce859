"""--borrow: which devices a rank is told of, and where its OpenCL loader looks."""

import os
import random
import socket
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

HERE = socket.gethostname()
LIBRARY = "/opt/lib/libtoposeat-cl.so"


@pytest.fixture
def listening(tmp_path):
    """A socket of a proxy on this node."""
    path = str(tmp_path / "proxy")
    with socket.socket(socket.AF_UNIX) as proxy:
        proxy.bind(path)
        yield path


def devices_of(launcher, words, rank=None, local_rank=None):
    """What a rank's program is told, and the warnings."""
    env = {"TOPOSEAT_BORROW": words}
    if rank is not None:
        env |= {"PMI_RANK": str(rank), "PMI_SIZE": "9"}
    if local_rank is not None:
        env |= {"MPI_LOCALRANKID": str(local_rank), "MPI_LOCALNRANKS": "9"}
    done = launcher.run("--borrow", LIBRARY, "--", "env", "-0", env=env)
    assert "TOPOSEAT_BORROW" not in done.variables
    return done.variables.get("TOPOSEAT_CL_DEVICES"), done.warnings


def test_the_loader_is_pointed_to_the_library_alone(launcher):
    given = {"TOPOSEAT_BORROW": "n9,,1.2.3.4:5,0|*=0", "OCL_ICD_VENDORS": "/mine"}
    seen = launcher.run("--borrow", LIBRARY, "--", "env", "-0", env=given).variables
    names = ("OCL_ICD_VENDORS", "OCL_ICD_FILENAMES", "OPENCL_VENDOR_PATH")
    assert [seen[name] for name in names] == [LIBRARY] * 3
    assert seen["TOPOSEAT_RANK"] == "0"


def test_a_rank_takes_its_own_seat_however_its_host_numbers_it(launcher):
    words = f"a,,1.1.1.1:1,0 b,,2.2.2.2:2,1|{HERE}=0;1"
    assert devices_of(launcher, words, 1, 0) == ("tcp:2.2.2.2:2#1", [])
    assert devices_of(launcher, words, 0, 1) == ("tcp:1.1.1.1:1#0", [])


def test_where_its_host_is_not_known_it_takes_that_of_its_rank(launcher):
    words = "a,,1.1.1.1:1,0 b,,2.2.2.2:2,1|far=0 *=1;0"
    assert devices_of(launcher, words, 1, 0)[0] == "tcp:2.2.2.2:2#1"
    assert devices_of(launcher, words, 2, 0)[0] == "tcp:1.1.1.1:1#0"
    devices, warnings = devices_of(launcher, words, 0, 0)  # expected far away, and not here
    assert devices is None
    assert f"9 ranks run on {HERE}, where 0 were expected" in warnings[0]


def dealt(launcher, planned, really, *, told=True):
    """The seat of each rank of a job, where each rank's host is a letter."""
    words = " ".join(f"d,,1.1.1.1:1,{rank}" for rank in range(len(planned)))
    words += "|" + " ".join(f"{host}={rank}" for rank, host in enumerate(planned))

    def start(rank):
        host = really[rank]
        env = {"TOPOSEAT_BORROW": f"{words}|{really}{os.getpid()}", "PMI_HOSTNAME": host}
        env["MPI_LOCALRANKID"] = str(really[:rank].count(host))
        if told:
            env["MPI_LOCALNRANKS"] = str(really.count(host))
        env |= {"PMI_RANK": str(rank), "PMI_SIZE": str(len(really))}
        seen = launcher.run("--borrow", LIBRARY, "--", "env", "-0", env=env)
        device = seen.variables.get("TOPOSEAT_CL_DEVICES")
        assert (device is None) == bool(seen.warnings), seen.warnings
        return None if device is None else int(device.rpartition("#")[2])

    with ThreadPoolExecutor(len(really)) as pool:
        return list(pool.map(start, range(len(really))))


def test_no_two_ranks_have_a_seat_however_they_are_dealt_out(launcher):
    assert dealt(launcher, "BAA", "AAB") == [2, 1, 0]
    assert dealt(launcher, "AABB", "ABAB") == [0, 2, 1, 3]
    assert dealt(launcher, "AABB", "ABAB", told=False) == [0, 1, 2, 3]
    source = random.Random(46)
    for _ in range(12):
        planned = source.choices("ABC", k=source.randrange(2, 7))
        really = source.sample(planned, len(planned))
        if source.random() < 0.5:
            really = source.choices("ABCD", k=len(planned))
        seats = dealt(launcher, "".join(planned), "".join(really))
        taken = [seat for seat in seats if seat is not None]
        assert len(taken) == len(set(taken)), (planned, really, seats)
        for rank, seat in enumerate(seats):
            if planned[rank] == really[rank]:
                assert seat == rank
            if seat is not None:
                assert planned[seat] == really[rank]
        for host in "ABCD":
            here = sum(really[rank] == host and s is not None for rank, s in enumerate(seats))
            assert here == min(really.count(host), planned.count(host))


def test_on_its_own_node_a_device_is_reached_by_its_socket(launcher, listening):
    words = f"{HERE},{listening},1.1.1.1:1,3|*=0"
    assert devices_of(launcher, words) == (f"unix:{listening}#3", [])
    gone = f"{HERE},{listening}.gone,1.1.1.1:1,3|*=0"  # in a container, say
    assert devices_of(launcher, gone) == ("tcp:1.1.1.1:1#3", [])
    elsewhere = f"n9,{listening},1.1.1.1:1,3|*=0"
    assert devices_of(launcher, elsewhere) == ("tcp:1.1.1.1:1#3", [])


def test_what_cannot_be_reached_is_said_and_the_program_starts(launcher, listening):
    devices, warnings = devices_of(launcher, f"n9,{listening},,0|*=0")
    assert devices is None
    assert len(warnings) == 1
    assert "n9 cannot be reached" in warnings[0]


@pytest.mark.parametrize(
    "words",
    [
        "",
        "|",
        "a,,1.1.1.1:1,0",
        "a,,1.1.1.1:1,0|",
        "a,,1.1.1.1:1,0|*",
        "a,,1.1.1.1:1,0|*=",
        "a,,1.1.1.1:1,0|*=x",
        "a,,1.1.1.1:1,0|*=1",
        "a,,1.1.1.1:1,0|*=-1",
        "a,,1.1.1.1:1,0|*=99999999999999999999",
        "a,,1.1.1.1:1|*=0",
        "a,,1.1.1.1:1,0,0|*=0",
        "a|*=0",
        ",,,|*=;;;",
    ],
)
def test_damaged_words_give_no_device_and_one_warning(launcher, words):
    devices, warnings = devices_of(launcher, words, 0, 0)
    assert devices is None
    assert len(warnings) == 1
    assert "no borrowed device" in warnings[0]


def test_a_rank_too_many_is_told_so(launcher):
    devices, warnings = devices_of(launcher, f"a,,1.1.1.1:1,0|{HERE}=0", 1, 1)
    assert devices is None
    assert "more ranks" in warnings[0]


def test_local_too_lists_the_nodes_own_vendors_in_a_folder_of_the_job(launcher, tmp_path):
    vendors, job = tmp_path / "vendors", tmp_path / "job"
    vendors.mkdir()
    job.mkdir(mode=0o700)
    (vendors / "mine.icd").write_text("libmine.so\n")
    (vendors / "toposeat.icd").write_text("another\n")
    (vendors / "notes.txt").write_text("no vendor\n")
    env = {"TOPOSEAT_BORROW": "n9,,1.1.1.1:1,0|*=0", "OCL_ICD_VENDORS": str(vendors)}
    env["OCL_ICD_FILENAMES"] = "/other.so"
    words = ("--borrow", LIBRARY, "--local-too", job, "--", "env", "-0")
    seen = launcher.run(*words, env=env).variables
    folder = Path(seen["OCL_ICD_VENDORS"])
    assert folder.parent == job
    assert seen["OPENCL_VENDOR_PATH"] == str(folder)
    assert "OCL_ICD_FILENAMES" not in seen
    assert sorted(path.name for path in folder.iterdir()) == ["mine.icd", "toposeat.icd"]
    assert (folder / "toposeat.icd").read_text() == f"{LIBRARY}\n"
    assert (folder / "mine.icd").read_text() == "libmine.so\n"


def test_a_folder_that_others_may_enter_is_not_used(launcher, tmp_path):
    job = tmp_path / "job"
    job.mkdir()
    os.chmod(job, 0o755)  # noqa: PTH101
    env = {"TOPOSEAT_BORROW": "n9,,1.1.1.1:1,0|*=0"}
    done = launcher.run("--borrow", LIBRARY, "--local-too", job, "--", "env", "-0", env=env)
    assert "own OpenCL devices are not shown" in done.warnings[0]
    assert done.variables["OCL_ICD_VENDORS"] == LIBRARY
    assert list(job.iterdir()) == []
