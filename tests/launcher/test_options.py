"""Command line, exit codes and the plain services: variables, preload, exec."""

import os
import signal
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from tests.launcher.support import Exec, node_tree, placement_text, seat_line
from tests.support.processes import LONGEST_S, ran


def test_without_a_placement_it_sets_variables_and_becomes_the_program(launcher):
    done = launcher.run("-E", "A=1=2", "-E", "B=", "--", "env", "-0", env={"KEPT": "yes"})
    assert done.stderr == ""
    assert done.variables.items() >= {"A": "1=2", "B": "", "KEPT": "yes"}.items()


def test_options_behind_the_program_belong_to_the_program(launcher):
    done = launcher.run("echo", "-m", "--strict", "--", "x")
    assert done.stdout == "-m --strict -- x\n"


def test_the_process_stays_the_same(exec_program):
    child = subprocess.Popen(
        [exec_program, "-E", "A=1", "sh", "-c", "echo $$ $PPID"], stdout=subprocess.PIPE, text=True
    )
    out, _ = child.communicate(timeout=LONGEST_S)
    assert out.split() == [str(child.pid), str(os.getpid())]


@pytest.mark.parametrize("code", [0, 3, 255])
def test_the_exit_code_is_the_programs(launcher, code):
    assert launcher.run("sh", "-c", f"exit {code}", check=False).code == code


def test_a_signal_reaches_the_program_itself(launcher):
    done = launcher.run("sh", "-c", "kill -TERM $$", check=False)
    assert done.code == -signal.SIGTERM


def test_a_missing_program_is_127_and_one_that_cannot_start_126(launcher, tmp_path):
    done = launcher.run("no-such-program", check=False)
    assert (done.code, done.stderr.count("\n")) == (127, 1)
    assert "cannot start no-such-program: No such file or directory" in done.stderr
    (tmp_path / "data").write_text("not a program")
    done = launcher.run(tmp_path / "data", check=False)
    assert done.code == 126
    assert "Permission denied" in done.stderr


def test_a_limit_on_file_sizes_does_not_end_the_rank(launcher, tmp_path):
    """A report beyond it would, by SIGXFSZ, be it at the start or by the probe at the end."""
    limited = Exec(Path("/bin/sh"), launcher.folder, launcher.base)
    line = 'ulimit -f 0; exec "$0" --report "$1" -- sh -c "exit 7"'
    done = limited.run("-c", line, launcher.program, tmp_path, check=False)
    assert done.code == 7, done.stderr
    assert "cannot write the report" in done.stderr
    assert "File too large" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "cause"),
    [
        ([], "no program to start"),
        (["-m"], "--placement needs a value"),
        (["--visibility=both", "x"], "--visibility must be permute, mask, rotate or cpu-only"),
        (["--ids", "name", "x"], "--ids must be auto, integer or uuid"),
        (["--memory-policy", "far", "x"], "--memory-policy must be preferred, bind or none"),
        (["-E", "A", "x"], "-E needs KEY=VALUE"),
        (["-E", "=1", "x"], "-E needs KEY=VALUE"),
        (["--report=", "x"], "--report needs a value"),
        (["--colour", "x"], "unknown option '--colour'"),
        (["--placements", "x"], "unknown option '--placements'"),
    ],
)
def test_wrong_usage_is_2_with_one_line_of_cause(launcher, arguments, cause):
    done = launcher.run(*arguments, check=False)
    assert done.code == 2
    assert cause in done.stderr
    assert done.stderr.count("\n") == 1


def test_help_and_version_are_results(launcher):
    assert launcher.run("--help").stdout.startswith("usage: toposeat-exec")
    assert launcher.run("--version").stdout.startswith("toposeat-exec 0.")


@pytest.fixture(scope="module")
def libraries(tmp_path_factory):
    """Two libraries that announce themselves when they are loaded."""
    folder = tmp_path_factory.mktemp("preload")
    found = []
    for name in ("first", "second"):
        source = folder / f"{name}.c"
        source.write_text(
            "#include <unistd.h>\n__attribute__((constructor)) static void load(void)"
            f'{{ if (write(2, "{name}\\n", {len(name) + 1}) < 0) _exit(9); }}\n'
        )
        library = folder / f"{name}.so"
        compiler = (sysconfig.get_config_var("CC") or "cc").split()[0]
        subprocess.run([compiler, "-shared", "-fPIC", "-o", library, source], check=True)
        found.append(library)
    return found


def test_a_preloaded_library_comes_before_inherited_ones(launcher, libraries):
    first, second = libraries
    done = launcher.run(
        "-E", f"LD_PRELOAD={second}", "--preload", first, "sh", "-c", "echo $LD_PRELOAD"
    )
    assert done.stdout == f"{first}:{second}\n"
    assert sorted(done.stderr.split()) == ["first", "second"]


@pytest.mark.parametrize(
    ("words", "loaded"),
    [
        (("LD_PRELOAD={second}",), "{first}:{second}"),
        (("-u", "NONE", "-C", "/", "A=b", "LD_PRELOAD={second}"), "{first}:{second}"),
        (("--unset=NONE", "A=b"), "{first}:{third}"),
        (("LD_PRELOAD=",), ""),
        (("-u", "LD_PRELOAD"), ""),
        (("sh", "-c", "echo LD_PRELOAD=$LD_PRELOAD LD_PRELOAD={second}"), "{first}:{third}"),
    ],
)
def test_an_env_that_sets_the_preload_anew(launcher, libraries, words, loaded):
    """Ours stay in front of what it sets, and what was inherited goes, as without toposeat."""
    first, second = libraries
    names = {"first": first, "second": second, "third": "libm.so.6"}
    shell = ("sh", "-c", "echo LD_PRELOAD=$LD_PRELOAD") if "sh" not in words else ()
    program = [word.format(**names) for word in ("env", *words, *shell)]
    done = launcher.run("-E", "LD_PRELOAD=libm.so.6", "--preload", first, *program)
    assert done.stdout.splitlines()[0].split()[0] == f"LD_PRELOAD={loaded}".format(**names)


def test_several_libraries_are_preloaded_in_the_order_given(launcher, libraries):
    first, second = libraries
    done = launcher.run(
        *("-E", "LD_PRELOAD=", "--preload", first, f"--preload={second}"),
        *("sh", "-c", "echo $LD_PRELOAD"),
    )
    assert done.stdout == f"{first}:{second}\n"


def test_a_library_that_cannot_be_preloaded_is_named_and_the_program_runs(
    launcher, libraries, tmp_path
):
    spaced = tmp_path / "a b.so"
    spaced.write_bytes(libraries[0].read_bytes())
    for library, cause in ((spaced, "a space or a colon"), (tmp_path / "no.so", "does not exist")):
        done = launcher.run("--preload", library, "echo", "ran")
        assert done.stdout == "ran\n"
        assert cause in done.stderr
        strict = launcher.run("--strict", "--preload", library, "echo", "ran", check=False)
        assert (strict.code, strict.stdout) == (98, "")


def test_a_dry_run_shows_what_would_be_done_and_does_nothing(launcher, tmp_path):
    text = placement_text([seat_line(0, 2, cpus="0", node="0", nic="mlx5_3")])
    done = launcher.run(
        "-m",
        launcher.place(text),
        "--dry-run",
        "--",
        "touch",
        tmp_path / "ran",
        env={
            "ROCR_VISIBLE_DEVICES": "0",
            **node_tree(tmp_path / "tree", nics={"mlx5_3": ("4: ACTIVE", "200 Gb/sec")}),
        },
    )
    assert not (tmp_path / "ran").exists()
    assert done.stdout.splitlines()[1:] == [
        "  set CUDA_VISIBLE_DEVICES=2",
        "  set CUDA_DEVICE_ORDER=PCI_BUS_ID",
        "  unset ROCR_VISIBLE_DEVICES",
        "  set UCX_NET_DEVICES=mlx5_3:1",
        "  set PSM3_NIC=mlx5_3",
        "  bind to CPUs 0",
        "  prefer memory of NUMA node 0",
        f"  exec touch {tmp_path / 'ran'}",
    ]


def test_it_needs_no_python_and_no_shared_library_of_ours(exec_program):
    done = ran(
        [exec_program, sys.executable, "-c", "print('ok')"],
        env={"PATH": "", "LD_LIBRARY_PATH": ""},
        check=True,
    )
    assert done.stdout == "ok\n"
