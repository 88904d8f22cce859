"""Saved machine trees: members of sysfs and KFD changed one by one, as folders and as archives.

An input is JSON: each path of the tree with its content, `{"link": target}` for a link, `null` for
an empty folder, `{"pipe": 1}` for what never answers. One process keeps one folder and writes only
what differs from the input before.
"""

import io
import json
import os
import shutil
import tarfile
import tempfile
from pathlib import Path

from tests.fuzz.job_targets import scratch
from tests.fuzz.machine_targets import check_round_trip
from tests.fuzz.target import Target
from tests.support.mutations import HOSTILE_BYTES, HOSTILE_NUMBERS, damage
from tests.topology.live.fake_machine import (
    FakeSysfs,
    four_mi100,
    kfd_text,
    two_mi300x_in_four_parts,
)
from tests.topology.live.machine_text import MachineOfText
from toposeat.topology import read_topology

_TARGETS_OF_LINKS = (
    "..", ".", "/", "/etc/passwd", "/proc/self/fd", "../../../../..", "nowhere", "/sys/devices",
)  # fmt: skip


TREE_TARGETS = "saved tree, as a folder", "saved tree, as an archive", "saved tree, archive's bytes"


def tree_targets():
    """Folders, archives of damaged members, and archives damaged as bytes."""
    trees = [_seed(name, write) for name, write in _MACHINES.items()]
    seeds = tuple((Path(name), encoded(tree)) for name, tree in trees)
    tars = tuple((Path(name + ".tar"), _tar(tree)) for name, tree in trees)
    folder, archive, of_bytes = TREE_TARGETS
    return [
        Target(folder, seeds, read_folder, _drawn(trees)),
        Target(archive, seeds, _read_tar_of_tree, _drawn(trees)),
        Target(of_bytes, tars, _read_tar),
    ]


def encoded(tree):
    """A tree as an input."""
    return json.dumps(tree).encode()


# ---- machines to start from


_NVIDIA = """
node 0 0-7 0
pci 10:01.0/11:00.0/12:04.0/14:00.0 nvidia gpu node=0 cpus=0-7
pci 10:01.0/11:00.0/12:05.0/15:00.0 nvidia gpu node=0 cpus=0-7
pci 10:01.0/11:00.0/12:06.0/16:00.0 mellanox nic node=0 cpus=0-7
infiniband mlx5_0
node 1 8-15 1
pci 80:01.0/81:00.0/82:04.0/84:00.0 nvidia gpu node=1 cpus=8-15
pci 80:01.0/81:00.0/82:05.0/85:00.0 nvidia gpu node=1 cpus=8-15
pci 80:01.0/81:00.0/82:06.0/86:00.0 mellanox nic node=1 cpus=8-15
infiniband mlx5_1
"""
_INTEL = "node 0 0-7 0\n" + "".join(
    f"""pci {i}0:01.0/{i}a:00.0 intel display node=0 cpus=0-7
has drm/card{i}/gt/gt0/id 0
has drm/card{i}/gt/gt1/id 1
is drm/card{i}/device ../..
link class/drm/card{i} ../../devices/pci0000:{i}0/0000:{i}0:01.0/0000:{i}a:00.0/drm/card{i}
"""
    for i in (0, 1)
)


def _kfd_only(sysfs):
    sysfs.kfd(kfd_text("directions are kept"))


_MACHINES = {
    "nvidia": lambda sysfs: MachineOfText(sysfs.root, _NVIDIA),
    "amd": four_mi100,
    "partitions": two_mi300x_in_four_parts,
    "intel": lambda sysfs: MachineOfText(sysfs.root, _INTEL),
    "kfd": _kfd_only,
}


def _seed(name, write):
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder, "sys")
        root.mkdir()
        write(FakeSysfs(root))
        return name, _tree_of(Path(folder))


def _tree_of(folder):
    tree = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if path.is_symlink():
            target = path.readlink()
            if target.is_absolute():
                target = Path(os.path.relpath(target, path.parent))
            tree[name] = {"link": str(target)}
        elif path.is_file():
            tree[name] = path.read_text(encoding="latin-1")
        elif not any(path.iterdir()):
            tree[name] = None
    return tree


# ---- damage


def _drawn(trees):
    def draw(source):
        name, tree = source.choice(trees)
        tree = dict(tree)
        for _ in range(source.randint(1, 4)):
            if tree:
                source.choice(_WAYS)(source, tree)
        return Path(name), encoded(tree)

    return draw


def _any(source, tree):
    return source.choice(list(tree))


def _any_text(source, tree):
    found = [name for name, entry in tree.items() if isinstance(entry, str)]
    return source.choice(found) if found else None


def _part(source, name):
    """The path itself or a folder above it."""
    parts = name.split("/")
    return "/".join(parts[: source.randint(1, len(parts))])


def _value(source, tree):
    name = _any_text(source, tree)
    if name is not None:
        hostile = source.choice((*HOSTILE_NUMBERS, *HOSTILE_BYTES))
        tree[name] = hostile.decode("latin-1") + "\n"


def _edited(source, tree):
    name = _any_text(source, tree)
    entry = tree[name] if name is not None else None
    if name is not None and isinstance(entry, str):
        tree[name] = damage(source, entry.encode("latin-1"))[:70_000].decode("latin-1")


def _copied_value(source, tree):
    """The value of one file in another, of the same name half of the time."""
    one, other = _any_text(source, tree), _any_text(source, tree)
    if one is None or other is None:
        return
    if source.random() < 0.5:
        same = [n for n in tree if n.rsplit("/", 1)[-1] == one.rsplit("/", 1)[-1]]
        other = source.choice(same)
    tree[one] = tree[other]


def _dropped(source, tree):
    top = _part(source, _any(source, tree))
    for name in [n for n in tree if n == top or n.startswith(top + "/")]:
        del tree[name]


def _doubled(source, tree):
    """A folder once more under another name: a second device, another index, a second address."""
    top = _part(source, _any(source, tree))
    new = (
        damage(source, top.encode()).decode("latin-1")
        if source.random() < 0.5
        else _part(source, _any(source, tree))
    )
    _move(source, tree, top, new, keep=True)


def _renamed(source, tree):
    top = _part(source, _any(source, tree))
    last = top.rsplit("/", 1)[-1]
    new = top[: len(top) - len(last)] + damage(source, last.encode()).decode("latin-1")
    _move(source, tree, top, new, keep=False)


def _move(source, tree, top, new, *, keep):
    new = "/".join(p[:200] for p in new.replace("\0", "").split("/") if p not in ("", ".", ".."))
    if not new or len(new) > 1000 or new == top:
        return
    for name in [n for n in tree if n == top or n.startswith(top + "/")]:
        entry = tree[name] if keep else tree.pop(name)
        tree[new + name[len(top) :]] = entry


def _relinked(source, tree):
    """A link that leads elsewhere: to itself, in circles, out, to another device, to nothing."""
    links = [n for n, entry in tree.items() if isinstance(entry, dict)]
    name = source.choice(links) if links and source.random() < 0.8 else _any(source, tree)
    if source.random() < 0.4:
        target = source.choice(_TARGETS_OF_LINKS)
    else:
        other = _part(source, _any(source, tree))
        target = os.path.relpath("/" + other, "/" + name.rpartition("/")[0])
    tree[name] = {"link": target}


def _linked_below_a_link(source, tree):
    """A link, and below its name a link and a file: in an archive each leads on from the last."""
    top = source.choice([_part(source, _any(source, tree)), "deep/s"])
    first = source.choice(("..", "../*n", ".", "../" * 9, _part(source, _any(source, tree))))
    second = source.choice((*_TARGETS_OF_LINKS, top, "s", "../t"))
    tree[top] = {"link": first}
    tree[f"{top}/t"] = {"link": second}
    tree[f"{top}/t/.profile"] = source.choice(("payload\n", {"link": "t"}, None))
    if source.random() < 0.3:
        tree[f"{top}/t"] = tree.pop(f"{top}/t")  # after what is below it


def _other_kind(source, tree):
    """A folder where a file was, a file where a folder was, a pipe."""
    name = _any(source, tree)
    way = source.randrange(4)
    if way == 0:
        tree[name] = None
    elif way == 1:
        tree[name] = {"pipe": 1}
    else:
        top = _part(source, name)
        for each in [n for n in tree if n.startswith(top + "/")]:
            del tree[each]
        tree[top] = "1\n" if way == 2 else {"link": "."}


_WAYS = (
    _value, _value, _edited, _edited, _copied_value, _copied_value, _dropped, _dropped, _doubled,
    _renamed, _relinked, _relinked,
    _linked_below_a_link, _other_kind,
)  # fmt: skip


# ---- reading


_NOW = {}  # what each folder of this process holds


def read_folder(name, data):
    """As `discover -t FOLDER`."""
    folder = scratch() / f"tree-{name.name}"  # one for each seed: few files differ
    _write(folder, json.loads(data))
    check_round_trip(read_topology(folder))


def _write(folder, tree):
    """Make the folder hold the tree, touching only what differs.

    Nothing is written or removed below a link or file: it would be done where the link leads to.
    """
    tree = {name: entry for name, entry in tree.items() if not _below_a_leaf(name, tree)}
    before = _NOW.get(folder, {})
    _NOW[folder] = {}  # until it is done: the folder is begun anew after a failure
    if not before:
        shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(exist_ok=True)
    for name, entry in before.items():
        if tree.get(name, 0) != entry:
            _remove(folder, name)
    for name, entry in tree.items():
        if before.get(name, 0) != entry:
            _put(folder, name, entry)
    _NOW[folder] = tree


def _below_a_leaf(name, tree):
    parts = name.split("/")
    return any(tree.get("/".join(parts[:n])) is not None for n in range(1, len(parts)))


def _remove(folder, name):
    path = folder / name
    _check_inside(folder, path)
    if path.is_symlink() or not path.is_dir():
        path.unlink(missing_ok=True)
    while path != folder:
        try:
            path.rmdir()
        except FileNotFoundError:
            pass
        except OSError:  # others are still in it
            return
        path = path.parent


def _put(folder, name, entry):
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    _check_inside(folder, path)
    if entry is None:
        path.mkdir(exist_ok=True)
    elif isinstance(entry, str):
        path.write_bytes(entry.encode("latin-1"))
    elif "pipe" in entry:
        os.mkfifo(path)
    else:
        path.symlink_to(str(entry["link"]))


def _check_inside(folder, path):
    if not path.parent.resolve().is_relative_to(folder.resolve()):
        raise RuntimeError(f"{path} leads out of {folder}")


def _tar(tree):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for name, entry in tree.items():
            member = tarfile.TarInfo(name)
            content = b""
            if entry is None:
                member.type = tarfile.DIRTYPE
            elif isinstance(entry, str):
                content = entry.encode("latin-1")
                member.size = len(content)
            elif "pipe" in entry:
                member.type = tarfile.FIFOTYPE
            else:
                member.type, member.linkname = tarfile.SYMTYPE, str(entry["link"])
            tar.addfile(member, io.BytesIO(content))
    return out.getvalue()


def _read_tar_of_tree(name, data):
    _read_tar(Path(name.name + ".tar"), _tar(json.loads(data)))


def _read_tar(name, data):
    path = scratch() / name.name
    path.write_bytes(data)
    try:
        check_round_trip(read_topology(path))
    finally:
        path.unlink()
