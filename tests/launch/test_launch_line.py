"""Finding launcher, program and ranks in a launch line."""

import os

import pytest

from tests.support.processes import executable
from toposeat.errors import InputError, UsageError
from toposeat.launch import (
    LauncherKind,
    parse_launch_line,
    wrap_with_exec,
    wrapped_tasks,
)

KINDS = {
    "ompirun": LauncherKind.OPENMPI,
    "hydra": LauncherKind.MPICH,
    "impi": LauncherKind.INTEL,
    "srun": LauncherKind.SRUN,
    "flux": LauncherKind.FLUX,
    "torchrun": LauncherKind.TORCHRUN,
}


def parse(words):
    argv = words.split() if isinstance(words, str) else words
    return parse_launch_line(argv, identify=lambda name: KINDS.get(name, LauncherKind.NONE))


@pytest.mark.parametrize(
    ("text", "ranks"),
    [
        ("ompirun -n 8 | ./app -n 3", 8),
        ("ompirun -np 8 --oversubscribe -x FOO --mca a b | ./app args", 8),
        ("ompirun --np 4 -x FOO=bar -mca btl ^openib --map-by ppr:2:node | ./app", 4),
        ("ompirun --map-by core --bind-to core -H a:2,b:2 -c 4 | app", 4),
        ("ompirun --np=4 --prtemca x y --display map | app", 4),
        ("ompirun -n 4 -- | app", 4),
        ("ompirun --hostfile hosts -N 2 | app", None),
        ("ompirun | app", None),
        ("hydra -n 4 -genv A B -genvall -ppn 2 -hosts a,b | app -genv", 4),
        ("hydra -np=4 -l -outfile-pattern out.%r | app", 4),
        ("hydra --n 4 -env A B -bind-to core:2 -map-by hwthread | app", 4),
        ("hydra -f hosts -n 3 -rankmap 0,1,0 -print-all-exitcodes | app", 3),
        ("impi -n 4 -perhost 2 -genvlist A,B -genv I_MPI_PIN 0 -trace | app", 4),
        ("srun -n 8 | app", 8),
        ("srun -n8 -N2 --gpus-per-node=4 | app -n 1", 8),
        ("srun -ln8 -u | app", 8),
        ("srun -lun 8 | app", 8),
        ("srun --ntasks 8 --mpi=pmix --cpu-bind=none --exclusive | app", 8),
        ("srun -N 2 --ntasks-per-node 4 --pty | app", 8),
        ("srun -N 1-2 --ntasks-per-node=4 | app", None),
        ("srun --hint nomultithread -t 10 -A acct | app", None),
        ("flux run -n 8 -o cpu-affinity=off -g1 -c 2 | app", 8),
        ("flux mini run -N 2 --tasks-per-node=4 | app", None),
        ("torchrun --nproc-per-node=8 | train.py --nnodes 3", 8),
        ("torchrun --nproc_per_node 4 --nnodes 2 --rdzv-backend c10d | train.py", 8),
        ("torchrun --standalone --nproc-per-node gpu | train.py", None),
        ("torchrun --nnodes 1:4 --nproc-per-node 8 | train.py", None),
        ("torchrun | train.py", 1),
        ("python3 -m torch.distributed.run --nproc-per-node 2 -m | pkg.train x", 2),
        ("| ./app -n 8 --flag", 1),
    ],
)
def test_launcher_program_and_ranks_are_found(text, ranks):
    before, _, after = text.partition("|")
    line = parse(before.split() + after.split())
    assert line.launcher == tuple(before.split())
    assert line.program == tuple(after.split())
    assert line.ranks == ranks
    assert line.argv == tuple(before.split() + after.split())


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ("", "no command"),
        ("ompirun", "no program after ompirun"),
        ("ompirun -n 8", "no program after ompirun"),
        ("ompirun -n", "needs an argument"),
        ("ompirun --mca a", "needs an argument"),
        ("ompirun -n eight app", "positive integer, not 'eight'"),
        ("ompirun -n 0 app", "positive integer, not '0'"),
        ("ompirun -n -4 app", "positive integer, not '-4'"),
        ("ompirun -n 2 a : -n 3", "no program behind ':'"),
        ("ompirun -n 2 a : -n three b", "positive integer, not 'three'"),
        ("ompirun --app /no/such/file", "no such file"),
        ("ompirun --app", "needs an argument"),
        ("ompirun --app /dev/stdin -n 1 a", "the line names a as well"),
        ("hydra -n 2 : -n 3 b", "no program after hydra"),
        ("srun -n 2 --multi-prog /no/such/file", "no such file"),
        ("srun -n 2 --multi-prog /dev/null", "a device, not a file"),
        ("srun -n 2 a : -n 1 b", "nodes of its own"),
        ("flux run --cc 1-4 app", "several jobs"),
        ("flux submit -n 8 app", "does not start ranks itself"),
        ("flux", "does not start ranks itself"),
        ("ompirun --brand-new-option value ./app", "unknown option '--brand-new-option'"),
        ("srun -y 3 app", "unknown option '-y'"),
    ],
)
def test_what_cannot_be_taken_apart_is_refused_with_a_hint(text, cause):
    with pytest.raises((UsageError, InputError)) as caught:
        parse(text)
    assert cause in caught.value.message
    assert caught.value.hint


@pytest.mark.parametrize("launcher", ["ompirun", "hydra", "impi"])
def test_several_programs_have_their_ranks_in_order(launcher):
    text = f"{launcher} -n 2 ./a -n 9 : -n 3 -wdir /tmp ./b x : -n 1 ./c"
    line = parse(text)
    assert line.argv == tuple(text.split())
    assert line.programs == (("./a", "-n", "9"), ("./b", "x"), ("./c",))
    assert (line.ranks, line.program_ranks) == (6, (range(2), range(2, 5), range(5, 6)))
    assert (
        wrap_with_exec(line, ["EXEC", "-o"])
        == (
            f"{launcher} -n 2 EXEC -o -- ./a -n 9 : -n 3 -wdir /tmp EXEC -o -- ./b x"
            " : -n 1 EXEC -o -- ./c"
        ).split()
    )
    added = f"{launcher} --first {text.partition(' ')[2]}".split()
    assert line.changed(["--first"]).argv == tuple(added)


def test_programs_by_task_are_wrapped_in_a_file_of_their_own(tmp_path):
    file = tmp_path / "conf"
    file.write_text("# three\n0-1,4 ./a 'one word' %t\n\n 2\tb \\\n  x\n* /bin/c\n")
    line = parse(["srun", "-n", "6", "--multi-prog", str(file), "ignored"])
    assert line.argv == ("srun", "-n", "6", "--multi-prog", str(file), "ignored")
    assert [words[0] for words in line.programs] == ["./a", "b", "/bin/c"]
    exec_args = ["/EXEC", "-E", "A=b c"]
    assert wrap_with_exec(line, exec_args, "/f/own") == [*line.launcher, "/f/own", "ignored"]
    assert wrapped_tasks(line, exec_args) == (
        "0-1,4 /EXEC -E 'A=b c' -- ./a 'one word' %t\n"
        "2 /EXEC -E 'A=b c' -- b x\n"
        "* /EXEC -E 'A=b c' -- /bin/c\n"
    )
    assert wrapped_tasks(parse("srun -n 6 a"), exec_args) is None
    file.write_text("0 ./a\nb ./b\n")
    with pytest.raises(InputError, match="conf:2: it does not say tasks"):
        parse(["srun", "-n", "6", "--multi-prog", str(file)])


def test_the_number_of_ranks_is_known_only_if_all_programs_say_theirs():
    line = parse("ompirun -n 2 a : b")
    assert (line.ranks, line.program_ranks) == (None, None)


@pytest.mark.parametrize(
    ("option", "launcher"),
    [
        ("--app", "ompirun"),
        ("--app=", "ompirun"),
        ("-configfile", "hydra"),
        ("-configfile", "impi"),
    ],
)
def test_programs_of_a_file_are_written_out(option, launcher, tmp_path):
    file = tmp_path / "programs"
    file.write_text("# two\n-n 2 ./a 'one word' :\n\n-n 1 ./b\n")
    words = [f"{option}{file}"] if option.endswith("=") else [option, str(file)]
    line = parse([launcher, "-v", *words])
    assert line.argv == (launcher, "-v", "-n", "2", "./a", "one word", ":", "-n", "1", "./b")
    assert line.ranks == 3
    for content, cause in (("", "names no program"), ("-n 1 'a", "programs:1: No closing")):
        file.write_text(content)
        with pytest.raises(InputError, match=cause):
            parse([launcher, *words])


@pytest.mark.parametrize(
    ("middle", "count"),
    [("--brand-new", 1), ("--brand-new far", 2), ("--brand-new=far", 1), ("--brand-new -n 2", 1)],
)
def test_an_unknown_option_is_passed_over_where_only_one_reading_is_possible(middle, count):
    line = parse(f"ompirun {middle} sh -c x")
    assert line.program == ("sh", "-c", "x")
    assert len(line.options) == len(middle.split()) - count + 1 - (middle.count("-n 2"))


# ---- wrapping ----


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "torchrun --nproc-per-node=2 t.py x",
            "torchrun --nproc-per-node=2 --no_python TE -- python3 -u t.py x",
        ),
        ("torchrun -m pkg.mod x", "torchrun --no_python TE -- python3 -u -m pkg.mod x"),
        ("torchrun --no-python ./app x", "torchrun --no_python TE -- ./app x"),
        (
            "/py/python3 -m torch.distributed.run -m pkg x",
            "/py/python3 -m torch.distributed.run --no_python TE -- /py/python3 -u -m pkg x",
        ),
    ],
)
def test_torchrun_starts_the_wrapper_instead_of_python(text, expected):
    assert wrap_with_exec(parse(text), ["TE"]) == expected.split()


def test_torchruns_own_interpreter_is_kept(tmp_path, monkeypatch):
    executable(tmp_path / "torchrun", "#!/opt/venv/bin/python3.12\n")
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    assert wrap_with_exec(parse("torchrun t.py"), ["TE"])[4:] == [
        "/opt/venv/bin/python3.12",
        "-u",
        "t.py",
    ]
