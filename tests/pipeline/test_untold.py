"""Nothing is proved of a machine whose device links no source tells."""

import pytest

from toposeat import evaluation, mapping, pipeline, profile
from toposeat.launch import MicrobenchOptions
from toposeat.mapping import Machine
from toposeat.model.map_options import MapOptions
from toposeat.topology import facts_of, read_topology, untold_pairs


@pytest.mark.parametrize(
    "name",
    [
        "nccl-xml/azure-ndv2-topo.xml",  # eight V100, NVLink by their index entry
        "nccl-xml/azure-ndv4-topo.xml",  # eight A100 around NVSwitch
        "hwloc-xml/fluxcore-sierra.xml",  # four V100, NVLink pairs
    ],
)
@pytest.mark.parametrize("pattern", ["ring:4", "alltoall:2x2"])
def test_no_pcie_box_is_proved_where_links_are_untold(name, pattern, shared_dir):
    machine = read_topology(shared_dir / "machines" / name)
    traffic = profile.pattern_traffic(pattern)
    result = pipeline.map_on_path(
        Machine.of(machine), traffic, MapOptions(budget_s=0.1), pipeline.StackPath()
    )
    assert result.certificate.word != "proved"
    assert result.premises.untold_pairs == untold_pairs(machine)
    least, most = result.premises.gain_range
    assert -0.1 <= least <= most  # nowhere much slower than the default


def test_a_pattern_takes_no_order_that_a_reading_makes_slower(shared_dir):
    machine = read_topology(shared_dir / "machines" / "nccl-xml/azure-ndv2-topo.xml")
    program = MicrobenchOptions(sizes=(65536, 1 << 20))
    plan = pipeline.plan_pattern(
        "stencil2d:2x4", machine, program, options=MapOptions(budget_s=0.1), randoms=0
    )
    traffic = profile.pattern_traffic("stencil2d:2x4")
    nominal = mapping.map_traffic(machine, traffic, MapOptions(budget_s=0.1)).device_of_rank
    slower = []
    links = next(fact for fact in facts_of(machine) if "device links" in fact.what)
    for reading in [c.draw(machine) for c in links.choices if c.draw]:
        evaluator = evaluation.Evaluator(reading, traffic)
        default = evaluator.predicted_s(evaluator.default)
        slower.append(evaluator.evaluate(nominal).predicted_s > 1.1 * default)
        assert evaluator.evaluate(plan.placed).predicted_s <= default * 1.1
    assert any(slower)  # what is best without readings is not
