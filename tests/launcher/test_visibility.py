"""The device variables of a rank: modes, inherited lists, vendors, what it can reach, its seat."""

import re
import socket
from pathlib import Path

import pytest

from tests.launcher.support import PCI, UUID, placement_text, seat_line
from tests.support.tables import rows, variables

HERE = socket.gethostname()
MIG = [f"MIG-0000000{i}-1111-2222-3333-444444444444" for i in range(3)]
DEVICE_VARIABLES = {
    *("CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES"),
    *("GPU_DEVICE_ORDINAL", "ZE_AFFINITY_MASK", "ZE_FLAT_DEVICE_HIERARCHY"),
    "ZE_ENABLE_PCI_ID_DEVICE_ORDER",
}
THREE = placement_text([seat_line(0, 2), seat_line(1, 0), seat_line(2, 3)])
TWO_HOSTS = placement_text(
    [
        seat_line(0, 3, host="elsewhere", local_rank=0),
        seat_line(1, 2, host=HERE, local_rank=0),
        seat_line(2, 0, host=HERE, local_rank=1),
    ],
    hosts=(HERE, "elsewhere"),
)


def on(host):
    return placement_text([seat_line(0, 1, host=host)], hosts=(host,))


PLACEMENTS = {
    "THREE": THREE,
    "ONE": placement_text([seat_line(0, 2)]),
    "BACKWARDS": placement_text(  # numbers follow PCI order, whatever the index says
        [seat_line(0, 0).replace(PCI[0], PCI[3])],
        devices=",".join(f"{i}={PCI[3 - i]}={UUID[i]}" for i in range(4)),
    ),
    "NO-PCI": placement_text([seat_line(0, 1)], devices="0=-=-,1=-=-,2=-=-").replace(PCI[1], "-"),
    "SEATS-ALONE": re.sub("# devices.*\n", "", THREE),
    "GAP": placement_text([seat_line(0, 2), seat_line(1, 0, local_rank=2)]),
    "NO-UUIDS": re.sub("|".join(UUID), "-", THREE),
    "MIG": placement_text(
        [seat_line(i, 2 - i, uuid=MIG[2 - i]).replace(PCI[2 - i], PCI[0]) for i in range(3)],
        devices=",".join(f"{i}={PCI[0]}={MIG[i]}" for i in range(3)),
    ),
    "AMD": THREE.replace("vendor: nvidia", "vendor: amd"),
    "INTEL": THREE.replace("vendor: nvidia", "vendor: intel"),
    "IN-ORDER": placement_text([seat_line(0, 0), seat_line(1, 1)], vendor="intel"),
    "UNKNOWN": THREE.replace("vendor: nvidia", "vendor: unknown"),
    "TWO": placement_text([seat_line(0, 2), seat_line(1, 0)]),
    "TWO-HOSTS": TWO_HOSTS,
    "ON-OTHERS": TWO_HOSTS.replace(f"\t{HERE}\t", "\tother\t"),
    "WITH-DOMAIN": on(f"{HERE}.cluster.example"),
    "IN-CAPITALS": on(HERE.upper()),
    "ON-N7": on("n7"),
}
LISTS = rows(Path(__file__).with_name("lists.txt"), "lists")


def named(cell):
    """A cell with what it names: ids of devices, and this host."""
    ids = {"U": UUID, "P": PCI, "M": MIG}
    cell = re.sub(r"\b([UPM])([0-3])\b", lambda found: ids[found[1]][int(found[2])], cell)
    cell = re.sub(r"\bHERE\b", HERE, cell)
    return "" if cell == "-" else cell


def inherited(cell, root):
    """The variables of a row, with a made /proc where it says what the driver shows."""
    found = {name: text.replace(r"\s", " ") for name, text in variables(cell or "-").items()}
    for shown in filter(None, found.pop("DRIVER", "").split(",")):
        number, _, model = shown.rstrip("!").partition("=")
        folder = root / "proc/driver/nvidia/gpus" / (number if ":" in number else PCI[int(number)])
        folder.mkdir(parents=True)
        found["TOPOSEAT_SYSROOT"] = str(root)
        if ":" not in number:
            text = f"Model: \t\t {model or 'X100'}\nBus Location: \t {folder.name}\n"
            (folder / "information").write_text(f"{text}Device Minor: \t {number}\n")
            (root / "dev").mkdir(exist_ok=True)
            if not shown.endswith("!"):
                (root / f"dev/nvidia{number}").touch()
    return found


@pytest.mark.parametrize(("place", "started", "given", "expected", "said"), LISTS)
def test_a_rank_has_these_variables(*, launcher, tmp_path, place, started, given, expected, said):
    rank, *options = named(started).split()
    env = inherited(named(given), tmp_path / "root")
    done = launcher.variables(PLACEMENTS[place], *options, rank=int(rank), env=env)
    before = {name: text for name, text in env.items() if name in DEVICE_VARIABLES}
    after = {name: text for name, text in done.variables.items() if name in DEVICE_VARIABLES}
    assert after == (before if expected == "same" else variables(named(expected)))
    kind, _, words = named(said).partition(":")
    assert len(done.warnings) == (kind == "warning")
    assert words.strip() in done.stderr if kind else not done.stderr
    if kind == "warning":
        strict = launcher.variables(
            PLACEMENTS[place], *options, "--strict", rank=int(rank), env=env, check=False
        )
        assert (strict.code, strict.stdout) == (98, "")
        assert "not started: --strict and 1 warning above" in strict.stderr


COSTS = "100;250,250;250,250,100"


@pytest.mark.parametrize(
    ("rank", "given", "told"),
    [
        (0, {"TOPOSEAT_REORDER": "1"}, f"2;{COSTS}"),
        (1, {"TOPOSEAT_REORDER": "1"}, f"0;{COSTS}"),
        (0, {"TOPOSEAT_REORDER": "1", "CUDA_VISIBLE_DEVICES": "0"}, f"0;{COSTS}"),  # all it has
        (0, {}, None),
    ],
)
def test_a_rank_that_mpi_reorders_is_told_its_device_and_what_links_cost(
    launcher, rank, given, told
):
    plain = placement_text([seat_line(0, 2), seat_line(1, 0)])
    text = plain.replace("# devices", f"# costs: {COSTS}\n# devices", 1)
    found = launcher.variables(text, rank=rank, env=given).variables
    assert found.get("TOPOSEAT_REORDER_COSTS") == told
    assert "TOPOSEAT_REORDER_COSTS" not in launcher.variables(plain, env=given).variables
