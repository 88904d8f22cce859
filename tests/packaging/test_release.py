"""A release can be checked: digests, their signature, provenance, and its list of parts."""

import hashlib
import importlib
import json
import shutil
import subprocess
from datetime import UTC, datetime
from pathlib import Path

import pytest
from tools.provenance import NAMESPACE, provenance, write_digests

from tests.support.processes import ran

ROOT = Path(__file__).parents[2]
LOCKS = ("build", "release", "run")


@pytest.fixture
def dist(tmp_path):
    folder = tmp_path / "dist"
    (folder / "spack_repo").mkdir(parents=True)
    (folder / "toposeat-0.1.0.tar.gz").write_bytes(b"source")
    (folder / "spack_repo" / "repo.yaml").write_text("repo:\n")
    return folder


def new_key(folder, name="key"):
    if shutil.which("ssh-keygen") is None:
        pytest.skip("ssh-keygen is not installed (openssh-client)")
    key = folder / name
    line = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", name, "-f", key]
    subprocess.run(line, check=True)
    return key


def verified(dist, key):
    """By the commands of docs/how-to/install.md, with the public half of `key`."""
    page = (ROOT / "docs" / "how-to" / "install.md").read_text()
    section = page.partition("## Check a release")[2].partition("\n## ")[0]
    commands = [line[4:] for line in section.splitlines() if line.startswith("    ")]
    assert len([line for line in commands if line.startswith(("ssh-keygen", "sha256sum"))]) == 2
    assert f"-n {NAMESPACE} " in "\n".join(commands)
    shutil.copy(key.with_suffix(".pub"), dist.parent / "toposeat-release.pub")
    script = "\n".join(["set -e", *commands]).replace("~/", f"{dist.parent}/")
    done = subprocess.run(["sh", "-c", script], cwd=dist, capture_output=True, check=False)
    return done.returncode == 0


def test_what_is_signed_is_verified_as_the_page_says(dist, tmp_path):
    key, other = new_key(tmp_path), new_key(tmp_path, "other")
    write_digests(dist, key)
    assert verified(dist, key)
    assert not verified(dist, other)


@pytest.mark.parametrize("name", ["toposeat-0.1.0.tar.gz", "spack_repo/repo.yaml", "SHA256SUMS"])
def test_whatever_is_changed_is_found(dist, tmp_path, name):
    key = new_key(tmp_path)
    write_digests(dist, key)
    with (dist / name).open("ab") as file:
        file.write(b"\n")
    assert not verified(dist, key)


def test_a_key_signs_for_one_purpose(dist, tmp_path):
    key = new_key(tmp_path)
    write_digests(dist, key)
    (dist / "SHA256SUMS.sig").unlink()
    line = ["ssh-keygen", "-q", "-Y", "sign", "-n", "git", "-f", key, dist / "SHA256SUMS"]
    subprocess.run(line, check=True)
    assert not verified(dist, key)


def test_without_a_key_nothing_is_signed(dist):
    write_digests(dist, None)
    assert {path.name for path in dist.iterdir() if path.is_file()} == {
        "SHA256SUMS",
        "toposeat-0.1.0.tar.gz",
    }


@pytest.fixture
def repository(tmp_path):
    """A commit of the lock files."""
    if shutil.which("git") is None:
        pytest.skip("git is not installed")
    root = tmp_path / "repository"
    (root / "packaging" / "lock").mkdir(parents=True)
    for each in LOCKS:
        shutil.copy(ROOT / "packaging" / "lock" / f"{each}.txt", root / "packaging" / "lock")
    who = ("-c", "user.name=x", "-c", "user.email=x@example.org")
    for words in (("init", "-q"), ("add", "."), (*who, "commit", "-qm", "x: y")):
        subprocess.run(["git", "-C", root, *words], check=True)
    return root


def test_provenance_names_files_commit_and_inputs(dist, repository):
    started = datetime(2026, 12, 1, 8, tzinfo=UTC)

    def told():
        return provenance(
            dist,
            repository,
            machines=["x86_64"],
            pythons={"311": "3.11.2"},
            tools={"ziglang": "0.17.1"},
            started=started,
        )

    statement = json.loads(json.dumps(told()))
    assert statement["_type"] == "https://in-toto.io/Statement/v1"
    assert statement["predicateType"] == "https://slsa.dev/provenance/v1"
    assert {each["name"]: each["digest"]["sha256"] for each in statement["subject"]} == {
        "toposeat-0.1.0.tar.gz": hashlib.sha256(b"source").hexdigest(),
        "spack_repo/repo.yaml": hashlib.sha256(b"repo:\n").hexdigest(),
    }
    definition = statement["predicate"]["buildDefinition"]
    source, *locks = definition["resolvedDependencies"]
    head = ran(["git", "-C", repository, "rev-parse", "HEAD"], check=True).stdout.strip()
    assert source["digest"] == {"gitCommit": head}
    assert source["annotations"] == {"changed_after_the_commit": False}
    assert {each["name"]: each["digest"]["sha256"] for each in locks} == {
        f"packaging/lock/{each}.txt": hashlib.sha256(
            (ROOT / "packaging" / "lock" / f"{each}.txt").read_bytes()
        ).hexdigest()
        for each in LOCKS
    }
    assert definition["externalParameters"] == {"machines": ["x86_64"]}
    run = statement["predicate"]["runDetails"]
    assert run["builder"]["version"] == {"ziglang": "0.17.1"}
    assert run["metadata"]["startedOn"] == "2026-12-01T08:00:00Z"
    assert statement["predicate"]["toposeat_does_not_prove"]

    (repository / "packaging" / "lock" / "run.txt").write_text("numpy==0\n")
    source, *_ = told()["predicate"]["buildDefinition"]["resolvedDependencies"]
    assert source["annotations"] == {"changed_after_the_commit": True}


def test_the_list_of_parts_holds_what_is_compiled_in(tmp_path, monkeypatch):
    pytest.importorskip("cyclonedx", reason="cyclonedx-bom is not installed: make setup-release")
    monkeypatch.syspath_prepend(ROOT / "tools")
    release = importlib.import_module("release")
    third_party = importlib.import_module("third_party")
    zig = tmp_path / "ziglang"
    (zig / "lib" / "libcxx" / "include").mkdir(parents=True)
    config = zig / "lib" / "libcxx" / "include" / "__config"
    config.write_text("#  define _LIBCPP_VERSION 220108\n")
    (tmp_path / "links").mkdir()
    (tmp_path / "links" / "_ext.so.map").write_text(
        f"# ziglang {zig}\nld.lld -o _ext.so bindings/libnanobind-static-abi3.a /zig/o/1/libc++.a\n"
    )
    found = third_party.find_parts(tmp_path)
    path = tmp_path / "toposeat.cdx.json"
    release.write_list_of_parts([found, found], "1.2.3", path)
    told = json.loads(path.read_text())
    whole = told["metadata"]["component"]
    assert (whole["name"], whole["version"]) == ("toposeat", "1.2.3")
    parts = {each["name"]: each for each in told["components"]}
    assert {"nanobind", "robin-map", "libc++", "numpy"} <= set(parts)
    assert parts["libc++"]["version"] == "22.1.8"
    assert parts["libc++"]["purl"] == "pkg:github/llvm/llvm-project@llvmorg-22.1.8#libcxx"
    assert parts["libc++"]["licenses"] == [{"expression": "Apache-2.0 WITH LLVM-exception"}]
    assert parts["robin-map"]["purl"].startswith("pkg:github/tessil/robin-map@v1.")
    assert parts["nanobind"]["properties"] == [
        {"name": "toposeat:compiled-into", "value": "_ext.so"}
    ]
    assert "properties" not in parts["numpy"]
