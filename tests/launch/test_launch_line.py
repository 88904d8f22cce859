"""Finding launcher, program and ranks in a launch line."""

import os
from pathlib import Path

import pytest

from tests.support.processes import executable
from tests.support.tables import rows
from toposeat.errors import InputError, UsageError
from toposeat.launch import (
    LauncherKind,
    parse_launch_line,
    wrap_with_exec,
    wrapped_tasks,
)

LINES = Path(__file__).with_name("lines.txt")
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


@pytest.mark.parametrize(("text", "ranks"), rows(LINES, "parsed"))
def test_launcher_program_and_ranks_are_found(text, ranks):
    before, _, after = text.partition("|")
    line = parse(before.split() + after.split())
    assert line.launcher == tuple(before.split())
    assert line.program == tuple(after.split())
    assert str(line.ranks) == ranks
    assert line.argv == tuple(before.split() + after.split())


@pytest.mark.parametrize(("text", "cause"), rows(LINES, "refused"))
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


@pytest.mark.parametrize(("text", "expected"), rows(LINES, "torchrun"))
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
