"""A prefix or a folder names all bus files of a machine."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from toposeat.errors import InputError
from toposeat.model.quantity import Source
from toposeat.topology.readers.starpu_machine import files_of_machine
from toposeat.topology.sources import read_topology


def test_a_prefix_is_the_whole_machine(shared_dir: Path) -> None:
    """Capacities and names from the platform, limits of pairs and latencies from the matrices."""
    prefix = shared_dir / "machines" / "starpu-bus" / "sirocco"
    topology = read_topology(str(prefix))
    assert topology.name == "sirocco"
    assert {d.name for d in topology.devices} == {"Tesla K40m"}
    assert [d.cpus for d in topology.devices] == ["6-11", "6-11", "18-23", "18-23"]
    there, back = (topology.route_of_pair[p] for p in (("gpu0", "gpu2"), ("gpu2", "gpu0")))
    assert there.cap_bytes_per_s is not None
    assert back.cap_bytes_per_s is not None
    assert there.cap_bytes_per_s.value == pytest.approx(7.662719e9, rel=1e-6)
    assert back.cap_bytes_per_s.value == pytest.approx(8.504225e9, rel=1e-6)
    assert there.latency_s is not None
    assert there.latency_s.source is Source.MEASURED
    assert there.latency_s.value == pytest.approx(23.50899e-6, rel=1e-6)
    assert read_topology(prefix) == topology


@pytest.mark.parametrize("machine", ["attila", "hannibal", "mirage"])
def test_the_other_recorded_machines(shared_dir: Path, machine: str) -> None:
    topology = read_topology(shared_dir / "machines" / "starpu-bus" / machine)
    assert topology.name == machine
    assert len(topology.devices) == 3
    assert len(topology.routes) == 6


def test_a_folder_of_one_machine(shared_dir: Path, tmp_path: Path) -> None:
    for path in (shared_dir / "machines" / "starpu-bus").glob("attila.*"):
        shutil.copyfile(path, tmp_path / path.name)
    assert [f.name for f in files_of_machine(tmp_path)] == [
        "attila.platform.xml", "attila.bandwidth", "attila.latency", "attila.affinity"
    ]  # fmt: skip
    assert read_topology(tmp_path).name == "attila"


def test_a_folder_of_several_machines_is_refused(shared_dir: Path) -> None:
    with pytest.raises(InputError, match="files of 4 machines: attila, hannibal, mirage, sirocco"):
        read_topology(shared_dir / "machines" / "starpu-bus")


def test_other_names_stand_for_nothing(tmp_path: Path) -> None:
    assert files_of_machine(tmp_path / "x") == []
    (tmp_path / "x.latency").write_text("")
    assert files_of_machine(tmp_path / "x") == []
    assert files_of_machine(tmp_path) == []
