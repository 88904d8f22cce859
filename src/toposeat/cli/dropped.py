"""What earlier versions took on the command line: each is refused by name, with what to use now."""

from __future__ import annotations

import re
from collections.abc import Sequence

from toposeat.errors import UsageError

# A pattern of the words of a call, what it asks for, and what to type instead.
_DROPPED: tuple[tuple[str, str, str], ...] = (
    (
        r"--solver[ =]multilevel\b",
        "--solver multilevel",
        "leave it out: `auto` has this search among its own",
    ),
    (
        r"^bench .*--on[ =](model|smpi)\b",
        "bench --on",
        "toposeat map PATTERN predicts; in a clone SimGrid does: python -m benchmarks.papers",
    ),
    (
        r"^bench\b",
        "bench",
        "toposeat compare PATTERN -- mpirun -n 16",
    ),
    (
        r"^map .*--stack[ =]per-pair\b",
        "map --stack per-pair",
        "--stack NAME predicts for what an MPI does; `toposeat advise` clocks what it could do",
    ),
    (
        r" --solver[ =]scotch\b",
        "--solver scotch",
        "leave it out: the search of our own finds placements that cost less on average",
    ),
    (
        r" (?:levels|topograph):",
        "a network's source levels:FILE or topograph:FILE",
        "write Slurm's topology.conf (SwitchName=leaf1 Nodes=n[1-16]) and give -t slurm:FILE",
    ),
    (
        r"^(?:discover|report) .*(?<= )--format[ =]png\b",
        "--format png",
        "-o F.svg writes the picture; a browser shows it, rsvg-convert makes a PNG of it",
    ),
    (
        r"^report .*(?<= )--format[ =](?:csv|treematch|npy)\b",
        "a matrix by report --format",
        "its file's name says the form: report F -o F.csv, -o F.npy",
    ),
    (
        r"^advise .*(?<= )(?:-t|--topology|--traffic|--tries)\b",
        "advise with -t, --traffic or --tries",
        "leave them out: every setting is clocked, so nothing is predicted",
    ),
    (
        r"^measure .*(?<= )--(protocols|raw)\b",
        "measure with --protocols or --raw",
        "leave them out: the receiver reads, and a pair that cannot copies through host memory",
    ),
    (
        r"^emulate .*(?<= )--(truth|engines|reads|hide)\b",
        "emulate with --truth, --engines, --reads or --hide",
        "leave them out; TOPOSEAT_EMULATED_HIDDEN=2,3 in the command's environment hides devices",
    ),
    (
        r"^discover .*(?<= )--rename-by\b",
        "discover --rename-by",
        "the last of several -t is the guest's list: -t HOST -t guest.csv --format nccl",
    ),
    (
        r"^tune .*(?<= )--(html|force|metric|solver|seed)\b",
        "tune with --html, --force, --metric, --solver or --seed",
        "toposeat map PROFILE has them: tune prints the profile's name",
    ),
    (
        r"^map .*(?<= )--seed\b",
        "map --seed",
        "leave it out: the same call gives the same answer, and MapOptions(seed=2) another search",
    ),
    (
        r" --traceback\b",
        "--traceback",
        "TOPOSEAT_TRACEBACK=1 in the environment shows where an error comes from",
    ),
    (
        r"^doctor .*--config\b",
        "doctor --config",
        "what a settings file decided is named below every answer; `env` shows the variables",
    ),
    (
        r"^profile .*--watch\b",
        "profile --watch",
        "leave it out: `toposeat report F` shows what the whole run sent",
    ),
    (
        r"^profile .*(?<= )(?:-t|--topology)\b",
        "profile with -t",
        "leave it out: name the machine afterwards, with `toposeat map F -t SRC`",
    ),
    (
        r"^profile (?:.* )?--merge(?= -|$)",
        "profile --merge without a folder",
        "name the folders of the records: record with --keep-records DIR, then --merge DIR -o F",
    ),
    (
        r"^export .*--launcher[ =](?:accelerate|deepspeed|vllm|sglang|ray)\b",
        "export for accelerate, DeepSpeed, vLLM, SGLang and Ray",
        "--launcher env gives the line of variables for each node, --launcher script a seat.sh",
    ),
    (
        r"^export .*--launcher[ =]torchrun-toposeat\b",
        "a rendezvous of ours for torchrun",
        "use c10d, whose order of nodes `run` and --launcher torchrun-c10d lead by --local-addr",
    ),
    (
        r"^export .*--manifest\b",
        "export --manifest",
        "leave it out: --launcher kubernetes writes pods that are bound to their nodes; their"
        " nodeSelector and variables can be copied into a manifest",
    ),
)


def refuse_dropped(words: Sequence[str]) -> None:
    """Refuse a call that only an earlier version took."""
    line = " ".join(words)
    for mark, what, instead in _DROPPED:
        if re.search(mark, line):
            raise UsageError(f"{what} is no longer there", hint=instead)
