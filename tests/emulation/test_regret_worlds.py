"""The worlds of `benchmarks.regret`: eight devices each, told as one machine, paced as another."""

from __future__ import annotations

from benchmarks.regret.worlds import GPUS, Premise, worlds

from toposeat.emulation import machine_text


def test_worlds_can_be_emulated_and_differ_from_what_is_told() -> None:
    names = []
    for world in worlds():
        names.append(world.name)
        assert len(world.told.devices) == GPUS
        assert machine_text(world.told, truth=world.truth).endswith("end\n")
        paced = machine_text(
            world.told, truth=world.truth, engines=world.engines, reads=world.reads
        )
        assert (paced == machine_text(world.told)) == (world.premise is Premise.TRUE), world.name
    assert len(set(names)) == len(names) >= 12
