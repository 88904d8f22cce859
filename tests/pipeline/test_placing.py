"""What a placement says of itself."""

from dataclasses import replace

from toposeat import pipeline
from toposeat.model.placement_file import format_placement
from toposeat.profile import read_traffic
from toposeat.topology import read_topology


def test_nics_that_no_rank_gets_are_named_with_the_reason():
    whole, traffic = read_topology("dgx-1v"), read_traffic("ring:8")
    down = replace(whole, nics=(replace(whole.nics[0], active=False), *whole.nics[1:]))
    result = pipeline.map_traffic(down, traffic)
    placement = pipeline.placement_of(result, down, traffic)
    assert "mlx5_0" not in {seat.nic for seat in placement.seats}
    assert "# nics_left_out: mlx5_0 (no port is active)\n" in format_placement(placement)
    assert "nics_left_out" not in pipeline.placement_of(result, whole, traffic).metadata
