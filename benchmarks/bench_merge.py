"""Cost of merging the records of large jobs: time per rank, memory, file sizes.

The records are synthetic (no job of that size ran here), laid out as the interposer writes them.
Every job is merged in a fresh process, whose peak resident memory is printed beside that of a
process that only imports toposeat. Usage: python -m benchmarks.bench_merge [RANKS ...]
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.machine import describe
from benchmarks.synthetic_records import write_job

SIZES = (16, 1024, 16384)

_CHILD = """
import json, resource, sys, time
from pathlib import Path
from toposeat.model.traffic_file import load_traffic, save_traffic
from toposeat.profile import merge_records
out = {}
if len(sys.argv) > 1:
    start, cpu = time.perf_counter(), time.process_time()
    traffic = merge_records(sys.argv[1])
    out["merge"], out["cpu"] = time.perf_counter() - start, time.process_time() - cpu
    out["merge_rss"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start = time.perf_counter()
    save_traffic(traffic, sys.argv[2])
    out["save"] = time.perf_counter() - start
    out["pairs"] = len(traffic.table())
    out["events"], out["report"] = len(traffic.collectives), list(traffic.report)
    assert len(traffic.rank_info) == traffic.ranks
    del traffic
    start = time.perf_counter()
    again = load_traffic(sys.argv[2])
    out["load"] = time.perf_counter() - start
    assert len(again.table()) == out["pairs"]
out["rss"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(json.dumps(out))
"""


def child(*arguments: str) -> dict[str, float]:
    """Measure in a fresh process; memory is in KiB."""
    done = subprocess.run(
        [sys.executable, "-c", _CHILD, *arguments], stdout=subprocess.PIPE, check=True
    )
    return dict(json.loads(done.stdout))


def report(ranks: int) -> None:
    """Print one row."""
    with tempfile.TemporaryDirectory(prefix="toposeat-bench-") as folder:
        records = Path(folder) / "records"
        records.mkdir()
        start = time.perf_counter()
        write_job(records, ranks)
        written = time.perf_counter() - start
        sizes = [path.stat() for path in records.iterdir()]
        target = Path(folder) / "job.prof"
        found = child(str(records), str(target))
        print(
            f"{ranks:6}  {len(sizes):6}"
            f"  {sum(s.st_size for s in sizes) / ranks / 2**20:9.1f}"
            f"  {sum(s.st_blocks for s in sizes) * 512 / ranks / 2**10:8.0f}"
            f"  {found['merge'] / ranks * 1e3:8.2f}  {found['cpu'] / ranks * 1e3:8.2f}"
            f"  {found['merge']:8.1f}  {found['save']:6.1f}  {found['load']:6.1f}"
            f"  {found['rss'] / 1024:7.0f}  {target.stat().st_size / 2**20:8.2f}"
            f"  {found['pairs']:9.0f}  {found['events']:8.0f}",
            flush=True,
        )
        for line in found["report"]:  # type: ignore[attr-defined]
            print(f"        says: {line}")
        print(f"        (writing the records took {written:.1f} s)", file=sys.stderr)


def main(arguments: list[str]) -> None:
    """Print the table."""
    print(describe())
    print("synthetic records, one merge per row; memory is the peak of the merging process")
    nothing = child()["rss"] / 1024
    print(f"a process that only imports toposeat: {nothing:.0f} MiB")
    print(
        " ranks   files  MiB/rank  KiB/rank  ms/rank   cpu ms  merge s  save s  load s"
        "      MiB  SQL MiB      pairs    events"
    )
    print("                 apparent   on disk                                               RSS")
    for ranks in [int(each) for each in arguments] or SIZES:
        report(ranks)


if __name__ == "__main__":
    main(sys.argv[1:])
