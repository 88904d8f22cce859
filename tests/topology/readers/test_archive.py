"""Archives of somebody else: unpacked inside a folder, within limits, or refused."""

from __future__ import annotations

import io
import random
import tarfile
from pathlib import Path

import pytest

from toposeat.errors import InputError
from toposeat.topology.readers import archive
from toposeat.topology.readers.archive import looks_like_archive, opened


def pack(path: Path, entries: list[tarfile.TarInfo | tuple[str, bytes]], mode: str = "w") -> Path:
    with tarfile.open(path, mode) as tar:  # type: ignore[call-overload]
        for entry in entries:
            if isinstance(entry, tarfile.TarInfo):
                tar.addfile(entry)
                continue
            info = tarfile.TarInfo(entry[0])
            info.size = len(entry[1])
            tar.addfile(info, io.BytesIO(entry[1]))
    return path


def link(name: str, target: str, kind: bytes = tarfile.SYMTYPE) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, target
    return info


@pytest.mark.parametrize("mode", ["w", "w:gz", "w:bz2", "w:xz"])
def test_files_and_links_that_stay_inside(tmp_path: Path, mode: str) -> None:
    path = pack(
        tmp_path / "node",
        [
            ("top/sys/devices/a/vendor", b"0x1002\n"),
            link("top/sys/bus/one", "../devices/a"),
            link("top/sys/bus/two", "/sys/devices/a"),  # of the recorded machine
            link("top/sys/bus/none", "../devices/gone"),
        ],
        mode,
    )
    assert looks_like_archive(path)
    with opened(path) as folder:
        for name in ("one", "two"):
            assert (folder / "top/sys/bus" / name / "vendor").read_text() == "0x1002\n"
            resolved = (folder / "top/sys/bus" / name).resolve()
            assert resolved.is_relative_to(folder.resolve())
        assert not (folder / "top/sys/bus/none").exists()
        kept = folder
    assert not kept.exists()


@pytest.mark.parametrize(
    "entries",
    [
        [("../evil", b"x")],
        [("a/../../evil", b"x")],
        [link("a/b", "../../../etc")],
        [link("a", "../../../../../../etc/passwd")],
    ],
)
def test_what_leads_out_is_refused(
    tmp_path: Path, entries: list[tarfile.TarInfo | tuple[str, bytes]]
) -> None:
    path = pack(tmp_path / "evil.tar", entries)
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(InputError, match="leads out"), opened(path):
        pass
    assert sorted(tmp_path.rglob("*")) == before


def test_no_file_is_written_through_a_link(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    path = pack(
        tmp_path / "evil.tar",
        [link("door", str(outside)), ("door/planted", b"x"), link("hard", "/etc/passwd", b"1")],
    )
    with opened(path) as folder:
        assert not list(outside.iterdir())
        assert (folder / "door/planted").read_bytes() == b"x"  # a folder of the archive's own
        assert not (folder / "hard").exists()
        assert (folder / "door").resolve().is_relative_to(folder.resolve())


def test_devices_and_fifos_are_not_made(tmp_path: Path) -> None:
    path = pack(tmp_path / "x.tar", [link("null", "", tarfile.CHRTYPE), link("f", "", b"6")])
    with opened(path) as folder:
        assert list(folder.iterdir()) == []


def test_an_archive_that_explodes_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archive, "MAX_UNPACKED_BYTES", 1 << 20)
    path = pack(tmp_path / "bomb.tar.bz2", [("zeros", bytes(8 << 20))], "w:bz2")
    assert path.stat().st_size < 10_000
    with pytest.raises(InputError, match="unpacks to more than 1 MiB"), opened(path):
        pass


def test_too_many_entries_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive, "MAX_ENTRIES", 50)
    path = pack(tmp_path / "many.tar", [(f"f{i}", b"") for i in range(60)])
    with pytest.raises(InputError, match="more than 50 files"), opened(path):
        pass


@pytest.mark.parametrize("cut", [100, 600, 4000])
def test_a_cut_archive_is_refused(tmp_path: Path, cut: int) -> None:
    whole = pack(
        tmp_path / "x.tar.gz", [("a", random.Random(1).randbytes(5000))], "w:gz"
    ).read_bytes()
    path = tmp_path / "cut.tar.gz"
    path.write_bytes(whole[:-cut])
    with pytest.raises(InputError, match="damaged archive"), opened(path):
        pass


def test_a_folder_with_a_link_that_leads_out_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "tree"
    folder.mkdir()
    (folder / "in").symlink_to(".")
    (folder / "circle").symlink_to("circle")
    with opened(folder) as same:
        assert same == folder
    (folder / "out").symlink_to("/etc")
    with pytest.raises(InputError, match="the link 'out' leads out of the folder"), opened(folder):
        pass
