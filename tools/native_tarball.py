"""The C parts, for nodes without Python, as one folder that works wherever it is unpacked.

Usage: native_tarball.py FOLDER FILE.tar.gz, with toposeat's installed folder `_native`.
The notices of third parties lie beside it, where installers put licences.
"""

from __future__ import annotations

import gzip
import io
import sys
import tarfile
from pathlib import Path

_ROOT = Path(__file__).resolve().parents[1]
_PARTS = (
    "bin/toposeat-exec",
    "lib/libtoposeat_abi.so",
    "lib/libtoposeat_mpich.so",
    "lib/libtoposeat_ompi.so",
    "lib/libtoposeat_probe.so",
    "lib/libtoposeat_reorder.so",
)


def native_tarball(native: Path, archive: Path) -> None:
    """Write it; the same parts give the same bytes."""
    texts = {"README.md": "packaging/native/README.md"}
    texts |= {name: name for name in ("LICENSE-MIT", "LICENSE-APACHE")}
    files = {name: native / name for name in _PARTS}
    files |= {name: _ROOT / path for name, path in texts.items()}
    (notices,) = native.parents[1].glob("toposeat-*.dist-info/licenses/THIRD-PARTY-NOTICES")
    files[notices.name] = notices
    inside = archive.name.removesuffix(".tar.gz")
    with (
        archive.open("wb") as file,
        gzip.GzipFile(filename="", mode="wb", fileobj=file, mtime=0) as packed,
        tarfile.open(fileobj=packed, mode="w") as made,
    ):
        for name, path in sorted(files.items()):
            content = path.read_bytes()
            entry = tarfile.TarInfo(f"{inside}/{name}")
            entry.size = len(content)
            entry.mode = 0o755 if name in _PARTS else 0o644
            made.addfile(entry, io.BytesIO(content))


if __name__ == "__main__":
    native_tarball(Path(sys.argv[1]), Path(sys.argv[2]))
