"""What formats are said to tell (docs/reference/formats.md) against what their files do tell."""

from collections import defaultdict

import pytest

from tests.topology.case_files import texts_of
from tests.topology.live.fake_machine import FakeSysfs, four_mi100
from tests.topology.readers.recorded import FORMATS, TREES, format_name, parts_of
from tests.topology.readers.test_samples import SAMPLES
from tests.topology.recorded_knowledge import NO_MACHINES
from toposeat.errors import ToposeatError
from toposeat.model.path_class import DEVICE_LINKS
from toposeat.model.topology import FactKind, PathClass


def told(part):
    """What one file shows that its format can tell, in the words of `Format.shows`."""
    found = set()
    joined = any(pair.bond or pair.path_class is PathClass.NVL for pair in part.pairs)
    lanes = any(lane.bytes_per_s for lane in part.lanes)
    if joined or lanes or any(link.kind in DEVICE_LINKS for link in part.links):
        found.add("presence")
    if FactKind.DEVICE_LINKS in part.tells:
        found.add("absence")
    if any(d.numa_node is not None or d.cpus is not None for d in part.devices):
        found.add("affinity")
    return found


@pytest.fixture(scope="module")
def shown(shared_dir, tmp_path_factory):
    """By format, what recorded files and our samples of it tell, and which of them does so first.

    A file with the outputs of several commands tells of none of them alone.
    """
    found = defaultdict(dict)
    folder = tmp_path_factory.mktemp("samples")
    four_mi100(FakeSysfs(folder / "sys"))
    texts = [*SAMPLES.values(), *texts_of("amd_smi", "MI250X").values()]
    for number, text in enumerate(texts):
        (folder / f"{number}.txt").write_text(text)
    recorded = sorted(path for path in (shared_dir / "machines").rglob("*") if path.is_file())
    for path in (*recorded, *folder.glob("*.txt"), folder / "sys"):
        if path.name in NO_MACHINES:
            continue
        try:
            tree = next((tree for tree in TREES if tree.looks_like(path)), None)
            kind = tree.name if tree else format_name(path)
            parts = [tree.parse(path)] if tree else parts_of(path)
        except ToposeatError:
            continue
        for word in told(parts[0]) if len(parts) == 1 else ():
            found[kind].setdefault(word, path.name)
    return found


@pytest.mark.parametrize("of", [*FORMATS, *TREES], ids=lambda of: of.name)
def test_files_tell_what_their_format_is_said_to(of, shown):
    said = set(of.shows.split())
    assert {*shown[of.name]} <= said, shown[of.name]
    if of.name != "toposeat topology JSON":  # whatever it was made from
        assert {*shown[of.name]} == said, "no recorded file and no sample shows it"
