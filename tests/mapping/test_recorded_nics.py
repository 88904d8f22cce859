"""NICs of machines that people have recorded, and of those of the catalogue where ties are broken.

`recorded_nics.tsv` holds for each recorded file the NIC of each device in order (`mlx5_0*4`: of
four devices) and the NICs that are left out, with the reason. To accept changes, after judging each
by eye: `python tests/mapping/test_recorded_nics.py`.
"""

from itertools import groupby
from pathlib import Path

import pytest

from toposeat.errors import ToposeatError
from toposeat.mapping import seat_ranks
from toposeat.model.nics import choose_nics
from toposeat.topology import read_topology

_TABLE = Path(__file__).with_name("recorded_nics.tsv")
_FOLDERS = ("hwloc-xml", "nccl-xml", "nvidia-smi-topo", "kfd-topology")


def nics_of(machine):
    """The NIC of each device if all are used, and what is left out."""
    choice = choose_nics(machine)
    named = {nic.id: nic.name or nic.id for nic in machine.nics}
    chosen = (choice.nic_of_device.get(device.id) for device in machine.devices)
    runs = [(nic, len(list(run))) for nic, run in groupby(n and named[n.id] for n in chosen)]
    left = [f"{named[nic]}: {each.why}" for nic, each in choice.left_out.items()]
    words = (f"{nic or '-'}*{count}" if count > 1 else nic or "-" for nic, count in runs)
    return " ".join(words), "; ".join(left)


def table_of(machines):
    """The table of all recorded files that tell NICs."""
    lines = []
    for path in sorted(each for folder in _FOLDERS for each in (machines / folder).iterdir()):
        try:
            machine = read_topology(str(path))
        except ToposeatError:
            continue  # what is refused, other tests say
        if machine.nics:
            lines.append("\t".join((f"{path.parent.name}/{path.name}", *nics_of(machine))))
    return "".join(f"{line}\n" for line in lines)


def test_nics_of_recorded_machines_are_as_judged(shared_dir):
    assert table_of(shared_dir / "machines").splitlines() == _TABLE.read_text().splitlines()


def test_published_matrices_whose_nics_are_of_no_use(shared_dir):
    """One without its legend; one in which controllers of NVLink stand among the NICs."""
    cases = shared_dir / "cases/topology"
    bare = read_topology(str(cases / "15-no-nic-legend-4/topo.txt"))
    assert len(bare.nics) == 4
    placement = seat_ranks(bare, 4, (0, 1, 2, 3))
    assert [(seat.nic, seat.cpus) for seat in placement.seats[:1]] == [(None, "6,14,22,30")]
    assert {seat.nic for seat in placement.seats} == {None}
    assert any("no rank is given such a NIC" in line for line in bare.report)
    chosen, left = nics_of(read_topology(str(cases / "27-nvlink-controllers-as-nics/topo.txt")))
    assert chosen == " ".join(f"rdmap{number}s0" for number in range(79, 87))
    assert all(f"{name}: the network is EFA" in left for name in ("ibp115s0f0", "ibp116s0f0"))


@pytest.mark.parametrize(
    ("name", "nics"),
    [
        ("mi250x-8", "cxi0*2 cxi1*2 cxi2*2 cxi3*2"),  # as Frontier's guide pairs them
        ("perlmutter-4", "cxi0 cxi1 cxi2 cxi3"),
        ("aurora-12", "cxi0*2 cxi1*2 cxi2 cxi3 cxi4*2 cxi5*2 cxi6 cxi7"),  # of its own socket
        ("polaris-4", "mlx5_0 mlx5_1*2 mlx5_0"),  # GPUs 1 and 3 have one wish each
        ("summit-6", "mlx5_0*2 mlx5_1 mlx5_2*2 mlx5_3"),
        ("dgx-1v", "mlx5_0*2 mlx5_1*2 mlx5_2*2 mlx5_3*2"),
        ("hgx-h100", "mlx5_0 mlx5_3 mlx5_4 mlx5_5 mlx5_6 mlx5_9 mlx5_10 mlx5_11"),
        ("gb300-nvl72", " ".join(["mlx5_0 mlx5_1 mlx5_2 mlx5_3"] * 18)),  # the same rails on all
    ],
)
def test_nics_of_known_machines(name, nics):
    assert nics_of(read_topology(name)) == (nics, "")


def test_a_nic_without_a_name_is_of_no_use_to_a_rank(shared_dir):
    """NCCL's file of this machine tells NICs by bus id alone, which no library takes."""
    machine = read_topology(str(shared_dir / "machines/nccl-xml/azure-ndv4-topo.xml"))
    assert {seat.nic for seat in seat_ranks(machine, 8, range(8)).seats} == {None}


if __name__ == "__main__":
    _TABLE.write_text(table_of(Path(__file__).parents[3] / "shared" / "machines"))
