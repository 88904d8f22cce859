"""Every recorded machine: what of it is told, inferred and untold, drawn, and doctor's word on it.

    python -m tests.topology.recorded_knowledge             the table
    python -m tests.topology.recorded_knowledge --write     renew recorded_knowledge.tsv

The expectation of `test_untold.py`: a changed judgement shows as a changed line.
"""

import csv
import sys
from collections import Counter
from pathlib import Path

from toposeat.errors import ToposeatError
from toposeat.model.health import Health, Severity
from toposeat.topology import facts_of, findings_of, knowledge_of, read_topology, wiring_of

EXPECTED = Path(__file__).with_name("recorded_knowledge.tsv")
# Trees of thousands of files, which take seconds to unpack: `test_sysfs_snapshot.py` does, and has
# them refused.
NO_MACHINES = {"40intel64-4n10c+pci-conflicts.tar.bz2", "nvidia-dgx-gb10.tar.bz2"}
HEAD = (
    "file", "pairs", "told", "inferred", "untold", "affinities untold", "open facts",
    "wiring", "verdict", "doubts", "links", "routes",
)  # fmt: skip


def rows(machines):
    """One of each file of the index that is a machine of several GPUs."""
    with (machines / "INDEX.tsv").open(newline="") as handle:
        names = [row["file"] for row in csv.DictReader(handle, delimiter="\t", quoting=3)]
    for name in names:
        if Path(name).name in NO_MACHINES:
            continue
        try:
            machine = read_topology(machines / name)
        except ToposeatError:
            continue
        if len(machine.devices) < 2:
            continue
        known = knowledge_of(machine)
        findings = findings_of(machine)
        health = Health(wiring=wiring_of(machine), findings=findings)
        assert health.wiring is not None
        yield (
            name,
            str(known.pairs),
            str(known.told),
            ", ".join(f"{n} {what}" for what, n in known.inferred.items()) or "0",
            str(len(known.untold_pairs)),
            str(len(known.untold_affinities)),
            ", ".join(f"{len(fact.choices)} of {fact.what}" for fact in facts_of(machine)),
            health.wiring.shape.value,
            health.verdict.value,
            ", ".join(sorted({f.code for f in findings if f.severity is not Severity.INFO})),
            _counted(link.kind for link in machine.links),
            _counted(route.path_class for route in machine.routes),
        )


def _counted(words):
    return ", ".join(f"{count} {word}" for word, count in sorted(Counter(words).items()))


def table(machines):
    """All rows as TSV."""
    return "".join("\t".join(row) + "\n" for row in (HEAD, *rows(machines)))


if __name__ == "__main__":
    text = table(Path(__file__).resolve().parents[3] / "shared" / "machines")
    if "--write" in sys.argv:
        EXPECTED.write_text(text)
    else:
        print(text, end="")
