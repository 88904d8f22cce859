"""Completions, as a real bash answers with them."""

import shutil

import pytest

from tests.support.processes import ran
from toposeat.cli.main import VERBS, main
from toposeat.topology import catalogue_names

# What bash would do at the end of the words that are typed so far.
ASK = """
source "$1"; shift
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMP_LINE="$*"; COMP_POINT=${#COMP_LINE}
_shtab_toposeat; printf '%s\\n' "${COMPREPLY[@]}"
"""


def answers(script, *words):
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("no bash")
    done = ran([bash, "-c", ASK, "bash", str(script), *words], check=True)
    return done.stdout.split()


@pytest.fixture
def script(tmp_path, capsys):
    pytest.importorskip("shtab")
    assert main(["completion", "bash"]) == 0
    path = tmp_path / "toposeat.bash"
    path.write_text(capsys.readouterr().out)
    return path


def test_bash_completes_verbs_and_options(script):
    assert set(answers(script, "toposeat", "")) >= set(VERBS)
    assert answers(script, "toposeat", "comp") == ["compare"]
    assert answers(script, "toposeat", "map", "--obj") == ["--objective"]
    assert set(answers(script, "toposeat", "map", "--objective", "")) == {
        "time",
        "congestion",
        "cost",
    }


def test_bash_completes_machines_and_files(script, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "dgx-2.json").touch()
    named = [name for name in catalogue_names() if name.startswith("dgx-2")]
    assert sorted(answers(script, "toposeat", "doctor", "-t", "dgx-2")) == sorted(
        [*named, "dgx-2.json"]
    )
    assert "dgx-2" in answers(script, "toposeat", "map", "ring:4", "--node", "dg")


def test_fish_shows_one_line_beside_each_value(tmp_path, capsys):
    pytest.importorskip("shtab")
    fish = shutil.which("fish")
    if fish is None:
        pytest.skip("no fish")
    assert main(["completion", "fish"]) == 0
    script = tmp_path / "toposeat.fish"
    script.write_text(capsys.readouterr().out)
    for words, values in (
        ("doctor -t dgx-", [name for name in catalogue_names() if name.startswith("dgx-")]),
        ("map --solver ", ["auto", "exact", "search", "default", "random"]),
        ("export --launcher ", ["openmpi", "torchrun", "script"]),
    ):
        ask = f'source {script}; complete -C "toposeat {words}"'
        lines = ran([fish, "-c", ask], cwd=tmp_path, check=True).stdout.splitlines()
        shown = dict(line.partition("\t")[::2] for line in lines)
        assert set(values) <= set(shown)
        assert all(len(text) < 100 for text in shown.values())


@pytest.mark.parametrize("shell", ["bash", "zsh", "tcsh", "fish"])
def test_every_shell_gets_every_verb(shell, capsys):
    pytest.importorskip("shtab")
    assert main(["completion", shell]) == 0
    text = capsys.readouterr().out
    assert all(verb in text for verb in VERBS)
