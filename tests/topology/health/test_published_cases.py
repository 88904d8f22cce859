"""Machines of public threads: what `doctor` finds in each, and nothing else."""

import pytest

from toposeat.model.health import Health, Severity, Verdict
from toposeat.topology import findings_of, read_topologies

FAULT, DOUBT, UNTOLD, INFO = Severity.FAULT, Severity.DOUBT, Severity.UNTOLD, Severity.INFO
SLURM = ("affinity-contradiction", DOUBT, "D0-D4, D0-D5, D0-D6, D0-D7, D1-D4 and 11 more")
CASES = {  # files: code, severity and subject of each finding; what readers say is left out
    "01-measured-one-card-behind-chipset/p2p.txt": [("device-slow", DOUBT, "D0")],
    # The benchmark's first device has the last bus id, and a matrix is in the order of bus ids.
    "01-measured-one-card-behind-chipset/topo.txt p2p.txt": [("device-slow", DOUBT, "D2")],
    "03-measured-one-slow-gpu/p2p.txt": [("device-slow", FAULT, "D6")],
    "05-bidirectional-only-one-slow/topo.txt p2p.txt": [("device-slow", FAULT, "D6")],
    "09-xml-one-gpu-unknown-nvlink-target/topo.xml": [
        ("lanes-unequal", FAULT, "D7"),
        ("links-untold", UNTOLD, "D0-D7, D1-D7, D2-D7, D3-D7, D4-D7 and 2 more"),
    ],
    "11-xml-two-sockets-same-affinity/topo.xml": [
        ("links-untold", UNTOLD, ""),
        ("numa-same-cpus", DOUBT, "D0, D1, D2, D3, D4 and 3 more"),
        ("nic-far", DOUBT, "D4, D5, D6, D7"),
    ],
    "13-slurm-blank-affinity/topo.txt": [SLURM, ("cpus-masked", DOUBT, "D4, D5, D6, D7")],
    "13-slurm-blank-affinity/filled.txt": [SLURM],
    "15-no-nic-legend-4/topo.txt": [],
    "21-pcie-x4-card/topo.txt query.csv": [
        ("pcie-width", FAULT, "D0"),
        ("pcie-width", FAULT, "D1"),
    ],
    "29-xml-gb10/topo.xml": [],
    "31-acs-hang-2/topo.txt": [],
    "33-xml-hygon-dcu/topo.xml": [("vendor-unknown", DOUBT, "")],
    "35-idle-link-generation/topo.txt query.csv": [("pcie-generation", INFO, "D0")],
    "41-measured-one-on-other-socket-mixed/p2p.txt": [],
    "43-bridge-nv3-of-4/topo.txt list.txt": [("lanes-unequal", DOUBT, "D0-D1")],
    "43-bridge-nv3-of-4/topo.txt nvlink.txt": [
        ("lanes-inactive", DOUBT, "D0"),
        ("lanes-inactive", DOUBT, "D1"),
    ],
    "45-a100-4-nics-at-two-gpus/topo.txt list.txt": [("nic-far", DOUBT, "D0, D3")],
    "49-p100-nic-on-second-socket/topo.txt": [("nic-far", DOUBT, "D0, D1, D2, D3")],
    "61-b200-numa-0-2-3-5/topo.txt list.txt": [],
    "65-l4-sys-numa-0-2/topo.txt list.txt": [],
    "65-l4-sys-numa-0-2/topo.txt p2p.txt": [],
    "67-pix-fours-node/topo.txt list.txt": [],
    "75-gb200-numa-lists/topo.txt list.txt": [],
    "77-pix-phb-14-cores/topo.txt": [],
    "79-radeon-pro-vii-bridge/topo.txt": [],
    "79-radeon-pro-vii-bridge/plain.txt": [],
}
VERDICTS = {FAULT: Verdict.UNHEALTHY, UNTOLD: Verdict.INCOMPLETE}


@pytest.mark.parametrize("case", CASES)
def test_what_is_found(case, shared_dir):
    folder, _, files = case.partition("/")
    where = shared_dir / "cases/topology" / folder
    if not where.is_dir():
        pytest.skip(f"no {folder} among the cases of ../shared")
    machine = read_topologies([where / name for name in files.split()])
    health = Health(findings=findings_of(machine))
    found = [(f.code, f.severity, f.subject) for f in health.findings if f.code != "reader"]
    assert found == CASES[case]
    worst = max((severity for _, severity, _ in found), key=list(Severity).index, default=INFO)
    assert health.verdict is VERDICTS.get(worst, Verdict.HEALTHY)
    if folder.startswith("13-"):  # what is near is kept where only CPUs are hidden
        assert len({c.numa_node for c in machine.components if c.kind.value == "numa"}) == 2
    if folder.startswith("09-"):  # on no switch of its own
        assert [c.kind.value for c in machine.components].count("nvswitch") == 1
