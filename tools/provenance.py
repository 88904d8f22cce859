"""Where the files of a release come from, and that they are these: provenance, digests, signature.

The provenance is an in-toto statement of SLSA's form 1.0: what the builder says of itself. Signed
with `SHA256SUMS` it is as good as the key's owner; what it does not prove stands in it.
"""

from __future__ import annotations

import hashlib
import subprocess
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

# What a signature is for (`ssh-keygen -Y`): the same key signs nothing else by it.
NAMESPACE = "toposeat-release"
_LOCKS = ("build", "release", "run")
_UNPROVEN = (
    "that nobody changed the files or this statement: check the signature of SHA256SUMS for that",
    "that the builder was clean: it is the machine of whoever ran `make release`, with its network",
    "that the same source gives the same bytes elsewhere: compare a build of your own",
    "what git's history, the locked packages or the compilers contain: it names them, no more",
)


def digest(path: Path) -> str:
    """SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def files_of(dist: Path) -> list[Path]:
    """All files of a release so far, by name."""
    return sorted(path for path in dist.rglob("*") if path.is_file())


def provenance(
    dist: Path,
    root: Path,
    *,
    machines: Iterable[str],
    pythons: Mapping[str, str],
    tools: Mapping[str, str],
    started: datetime,
) -> dict[str, Any]:
    """The statement about all files in `dist`.

    Args:
        dist: the folder of what was made.
        root: the repository.
        machines: what it was compiled for.
        pythons: the interpreters that built wheels: the tag of each with its whole version.
        tools: what compiled and packed, with versions.
        started: in UTC.
    """
    changed = _git(root, "status", "--porcelain", "--untracked-files=no") != ""
    inputs: list[dict[str, Any]] = [
        {
            "name": "the commit that was built",
            "digest": {"gitCommit": _git(root, "rev-parse", "HEAD")},
            "annotations": {"changed_after_the_commit": changed},
        }
    ]
    for each in _LOCKS:
        path = root / "packaging" / "lock" / f"{each}.txt"
        inputs.append({"name": str(path.relative_to(root)), "digest": {"sha256": digest(path)}})
    return {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [
            {"name": str(path.relative_to(dist)), "digest": {"sha256": digest(path)}}
            for path in files_of(dist)
        ],
        "predicateType": "https://slsa.dev/provenance/v1",
        "predicate": {
            "buildDefinition": {
                "buildType": "toposeat:make-release/1",
                "externalParameters": {"machines": list(machines)},
                "internalParameters": {"pythons": dict(pythons)},
                "resolvedDependencies": inputs,
            },
            "runDetails": {
                "builder": {
                    "id": "toposeat:the-machine-of-who-ran-make-release",
                    "version": dict(tools),
                },
                "metadata": {"startedOn": _time(started), "finishedOn": _time(datetime.now(UTC))},
            },
            "toposeat_does_not_prove": list(_UNPROVEN),
        },
    }


def write_digests(dist: Path, key: Path | None) -> None:
    """SHA256SUMS of all files in `dist`; with a key of SSH, SHA256SUMS.sig too."""
    sums = dist / "SHA256SUMS"
    lines = [f"{digest(path)}  {path.relative_to(dist)}\n" for path in files_of(dist)]
    sums.write_text("".join(lines))
    if key is not None:
        words = ["ssh-keygen", "-q", "-Y", "sign", "-n", NAMESPACE, "-f", str(key), str(sums)]
        subprocess.run(words, check=True)


def _git(root: Path, *words: str) -> str:
    done = subprocess.run(["git", "-C", root, *words], check=True, capture_output=True, text=True)
    return done.stdout.strip()


def _time(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")
