"""Archives of somebody else: read in memory, within limits, or refused; nothing is written."""

from __future__ import annotations

import io
import random
import tarfile
from pathlib import Path

import pytest

from toposeat.errors import InputError
from toposeat.topology.readers import archive
from toposeat.topology.readers.archive import looks_like_archive, opened
from toposeat.topology.sources import read_topology


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
    bus = opened(path) / "top/sys/bus"
    for name in ("one", "two"):
        assert (bus / name / "vendor").read_bytes() == b"0x1002\n"
        assert (bus / name).resolve().parts == ("top", "sys", "devices", "a")
        assert [e.name for e in (bus / name).iterdir()] == ["vendor"]
        assert (bus / name).is_symlink()
        assert (bus / name).is_dir()
    assert not (bus / "none").exists()
    assert (bus / "none").resolve().parts == ("top", "sys", "devices", "gone")


@pytest.mark.parametrize("name", ["../evil", "a/../../evil"])
def test_a_name_that_leads_out_is_refused(tmp_path: Path, name: str) -> None:
    path = pack(tmp_path / "evil.tar", [(name, b"x")])
    with pytest.raises(InputError, match="leads out"):
        opened(path)


@pytest.mark.parametrize(
    "links",
    [
        {"door": "../../../.."},
        {"a/door": "/../../../.."},
        {"deep/s": "../*n", "door": "deep/s/../.."},
        {"a/b/c": "..", "a/b/d": "c/../..", "door": "a/b/d/.."},  # each looks as if it stayed
        {"a/b/up": "../..", "door": "a/b/up/../x"},
        {"door": "door"},
        {"door": "p", "p": "q", "q": "door"},
        {"p": "door/x", "door": "p/y"},
        {f"l{i}": f"l{i + 1}" for i in range(60)} | {"l60": ".", "door": "l0"},
    ],
)
def test_links_that_lead_out_or_in_circles_lead_nowhere(
    tmp_path: Path, links: dict[str, str]
) -> None:
    members = [link(name, target) for name, target in links.items()]
    path = pack(tmp_path / "evil.tar", [("*n/file", b""), ("a/b/file", b""), *members])
    before = sorted(tmp_path.rglob("*"))
    door = opened(path) / "door"
    assert not door.exists()
    assert not (door / "etc").is_dir()
    with pytest.raises(OSError, match=r"no regular file|no folder"):
        (door / "etc" / "passwd").read_bytes()
    assert sorted(tmp_path.rglob("*")) == before


def test_links_under_links_write_nothing_outside(tmp_path: Path) -> None:
    """Each link stays inside as its name is written, and leads out through the one before."""
    home = tmp_path / "home"
    home.mkdir()
    path = pack(
        tmp_path / "evil.tar",
        [
            link("deep/s", "../*n"),
            link("*n", "/"),
            link("deep/s/t", str(home)),
            link("deep/s/t/.bash_profile", "/payload"),
            ("deep/s/t/planted", b"x"),
            ("payload", b"echo gotcha"),
            link("door", str(home)),
            ("door/planted", b"x"),
        ],
    )
    top = opened(path)
    assert (top / "door/planted").read_bytes() == b"x"  # a folder of the archive's own
    assert (top / "deep/s/t/.bash_profile").read_bytes() == b"echo gotcha"  # from memory
    with pytest.raises(InputError, match="no tree of sysfs or KFD in it"):
        read_topology(path)
    assert not list(home.iterdir())
    assert sorted(p.name for p in tmp_path.iterdir()) == ["evil.tar", "home"]


def test_hard_links_have_the_content_of_a_member(tmp_path: Path) -> None:
    path = pack(
        tmp_path / "x.tar",
        [
            ("a/file", b"7"),
            link("a/same", "a/file", tarfile.LNKTYPE),
            link("passwd", "/etc/passwd", tarfile.LNKTYPE),
            link("folder", "a", tarfile.LNKTYPE),
            link("soft", "a/file"),
            link("of_a_link", "soft", tarfile.LNKTYPE),
            link("one", "other", tarfile.LNKTYPE),
            link("other", "one", tarfile.LNKTYPE),
        ],
    )
    top = opened(path)
    assert (top / "a/same").read_bytes() == b"7"
    assert [
        name for name in ("passwd", "folder", "of_a_link", "one") if (top / name).exists()
    ] == []
    evil = pack(tmp_path / "y.tar", [link("h", "../../etc/passwd", tarfile.LNKTYPE)])
    with pytest.raises(InputError, match="leads out"):
        opened(evil)


def test_devices_and_fifos_are_not_made(tmp_path: Path) -> None:
    path = pack(tmp_path / "x.tar", [link("null", "", tarfile.CHRTYPE), link("f", "", b"6")])
    assert list(opened(path).iterdir()) == []


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    top = opened(pack(tmp_path / "x.tar", [("a", b"1"), ("a/b", b"2"), ("c/d", b"3"), ("c", b"")]))
    assert (top / "a").read_bytes() == b"1"
    assert not (top / "a/b").exists()
    assert (top / "c/d").read_bytes() == b"3"
    with pytest.raises(NotADirectoryError):
        (top / "a").iterdir()


def test_too_many_folders_inside_each_other_are_refused(tmp_path: Path) -> None:
    path = pack(tmp_path / "x.tar", [("a/" * 70 + "f", b"")])
    with pytest.raises(InputError, match="more than 64 folders inside each other"):
        opened(path)


def test_an_archive_that_explodes_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archive, "MAX_UNPACKED_BYTES", 1 << 20)
    path = pack(tmp_path / "bomb.tar.bz2", [("zeros", bytes(8 << 20))], "w:bz2")
    assert path.stat().st_size < 10_000
    with pytest.raises(InputError, match="unpacks to more than 1 MiB"):
        opened(path)


def test_too_many_entries_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive, "MAX_ENTRIES", 50)
    for names in ([f"f{i}" for i in range(60)], [f"a/{i}/b/c" for i in range(17)]):
        path = pack(tmp_path / "many.tar", [(name, b"") for name in names])
        with pytest.raises(InputError, match="more than 50 files"):
            opened(path)


@pytest.mark.parametrize("cut", [100, 600, 4000])
def test_a_cut_archive_is_refused(tmp_path: Path, cut: int) -> None:
    whole = pack(
        tmp_path / "x.tar.gz", [("a", random.Random(1).randbytes(5000))], "w:gz"
    ).read_bytes()
    path = tmp_path / "cut.tar.gz"
    path.write_bytes(whole[:-cut])
    with pytest.raises(InputError, match="damaged archive"):
        opened(path)


def test_a_folder_with_a_link_that_leads_out_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "tree"
    folder.mkdir()
    (folder / "in").symlink_to(".")
    (folder / "circle").symlink_to("circle")
    assert opened(folder) == folder
    (folder / "out").symlink_to("/etc")
    with pytest.raises(InputError, match="the link 'out' leads out of the folder"):
        opened(folder)
