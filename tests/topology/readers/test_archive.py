"""Archives of somebody else: unpacked within limits, or refused; nothing is written elsewhere."""

import io
import random
import tarfile

import pytest

from toposeat.errors import InputError
from toposeat.topology import read_topology
from toposeat.topology.readers import archive
from toposeat.topology.readers.archive import looks_like_archive, opened


def pack(path, entries, mode="w"):
    with tarfile.open(path, mode) as tar:  # type: ignore[call-overload]
        for entry in entries:
            if isinstance(entry, tarfile.TarInfo):
                tar.addfile(entry)
                continue
            info = tarfile.TarInfo(entry[0])
            info.size = len(entry[1])
            tar.addfile(info, io.BytesIO(entry[1]))
    return path


def link(name, target, kind=tarfile.SYMTYPE):
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, target
    return info


def unpack(path):
    with opened(path):
        pass


@pytest.mark.parametrize("mode", ["w", "w:gz", "w:bz2", "w:xz"])
def test_files_and_links_that_stay_inside(tmp_path, mode):
    path = pack(
        tmp_path / "node",
        [
            ("top/sys/devices/a/vendor", b"0x1002\n"),
            link("top/sys/bus/one", "../devices/a"),
            link("top/sys/bus/two", "one"),
            link("top/sys/bus/none", "../devices/gone"),
        ],
        mode,
    )
    assert looks_like_archive(path)
    with opened(path) as top:
        bus = top / "top/sys/bus"
        for name in ("one", "two"):
            assert (bus / name / "vendor").read_bytes() == b"0x1002\n"
            assert (bus / name).resolve() == top / "top/sys/devices/a"
        assert not (bus / "none").exists()
    assert not top.exists()


@pytest.mark.parametrize("name", ["../evil", "a/../../evil"])
def test_a_name_that_leads_out_is_refused(tmp_path, name):
    path = pack(tmp_path / "evil.tar", [(name, b"x")])
    with pytest.raises(InputError, match="leads out"):
        unpack(path)


@pytest.mark.parametrize(
    "links",
    [
        {"door": "../../../.."},
        {"door": "/etc"},
        {"deep/s": "../*n", "door": "deep/s/../.."},
        {"a/b/c": "..", "a/b/d": "c/../..", "door": "a/b/d/.."},  # each looks as if it stayed
        {"a/b/up": "../..", "door": "a/b/up/../x"},
        {"door": "door"},
        {"door": "p", "p": "q", "q": "door"},
        {"p": "door/x", "door": "p/y"},
        {f"l{i}": f"l{i + 1}" for i in range(60)} | {"l60": ".", "door": "l0"},
    ],
)
def test_links_that_lead_out_or_in_circles_lead_nowhere(tmp_path, links):
    members = [link(name, target) for name, target in links.items()]
    path = pack(tmp_path / "evil.tar", [("*n/file", b""), ("a/b/file", b""), *members])
    with opened(path) as top:
        assert not (top / "door" / "etc").exists()
        assert not (top / "door" / "passwd").exists()
        assert not any(leads_out(each, top) for each in top.rglob("*"))


def leads_out(path, top):
    try:
        return not path.resolve().is_relative_to(top)
    except (OSError, RuntimeError):  # a circle of links
        return False


def test_links_under_links_write_nothing_outside(tmp_path):
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
    with opened(path) as top:
        assert (top / "door/planted").read_bytes() == b"x"  # a folder of the archive's own
    with pytest.raises(InputError, match="no tree of sysfs or KFD in it"):
        read_topology(path)
    assert not list(home.iterdir())
    assert sorted(p.name for p in tmp_path.iterdir()) == ["evil.tar", "home"]


def test_devices_and_fifos_are_not_made(tmp_path):
    kinds = {"null": tarfile.CHRTYPE, "pipe": tarfile.FIFOTYPE, "hard": tarfile.LNKTYPE}
    path = pack(tmp_path / "x.tar", [link(name, "/etc/passwd", k) for name, k in kinds.items()])
    with opened(path) as top:
        assert list(top.iterdir()) == []


def test_a_file_is_no_folder(tmp_path):
    path = pack(tmp_path / "x.tar", [("a", b"1"), ("a/b", b"2"), ("c/d", b"3"), ("c", b"")])
    with opened(path) as top:
        assert (top / "a").read_bytes() == b"1"
        assert (top / "c/d").read_bytes() == b"3"


def test_too_many_folders_inside_each_other_are_refused(tmp_path):
    path = pack(tmp_path / "x.tar", [("a/" * 70 + "f", b"")])
    with pytest.raises(InputError, match="more than 64 folders inside each other"):
        unpack(path)


def test_an_archive_that_explodes_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(archive, "MAX_UNPACKED_BYTES", 1 << 20)
    path = pack(tmp_path / "bomb.tar.bz2", [("zeros", bytes(8 << 20))], "w:bz2")
    assert path.stat().st_size < 10_000
    with pytest.raises(InputError, match="unpacks to more than 1 MiB"):
        unpack(path)


def test_too_many_entries_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(archive, "MAX_ENTRIES", 50)
    for names in ([f"f{i}" for i in range(60)], [f"a/{i}/b/c" for i in range(17)]):
        path = pack(tmp_path / "many.tar", [(name, b"") for name in names])
        with pytest.raises(InputError, match="more than 50 files"):
            unpack(path)


@pytest.mark.parametrize("cut", [100, 600, 4000])
def test_a_cut_archive_is_refused(tmp_path, cut):
    whole = pack(
        tmp_path / "x.tar.gz", [("a", random.Random(1).randbytes(5000))], "w:gz"
    ).read_bytes()
    path = tmp_path / "cut.tar.gz"
    path.write_bytes(whole[:-cut])
    with pytest.raises(InputError, match="damaged archive"):
        unpack(path)


def test_a_folder_with_a_link_that_leads_out_is_refused(tmp_path):
    folder = tmp_path / "tree"
    folder.mkdir()
    (folder / "in").symlink_to(".")
    (folder / "circle").symlink_to("circle")
    unpack(folder)
    (folder / "out").symlink_to("/etc")
    with pytest.raises(InputError, match="the link 'out' leads out of the folder"):
        unpack(folder)
