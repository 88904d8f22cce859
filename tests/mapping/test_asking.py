"""What to ask of a scheduler: blocks that hold what the layout keeps together, and no more."""

import random
from itertools import pairwise

import pytest

from toposeat.errors import InputError, UsageError
from toposeat.mapping import SlotEvaluator, ask, shape_of_network
from toposeat.profile import pattern_traffic
from toposeat.topology import read_network, read_topology

LEAVES = [f"{leaf}{at}" for leaf in "abcd" for at in range(8)]


def tree(folder, options=",taper=4"):
    """Four leaves of eight hosts, two below each of two spines."""
    conf = folder / "topology.conf"
    leaves = "".join(f"SwitchName={leaf} Nodes={leaf}[0-7]\n" for leaf in "abcd")
    conf.write_text(
        "SwitchName=top Switches=s,t\nSwitchName=s Switches=a,b\n"
        f"SwitchName=t Switches=c,d\n{leaves}"
    )
    return read_network(f"{conf}{options}")


def asked(network, job, node="hgx-h100"):
    return ask(network, read_topology(node), pattern_traffic(job))


def predicted(network, job, hosts):
    """As `map --hosts` would predict these hosts in this order."""
    shape = shape_of_network(network.restricted_to(hosts), read_topology("hgx-h100"))
    evaluator = SlotEvaluator(shape, pattern_traffic(job))
    return evaluator.evaluate(evaluator.default).predicted_s


@pytest.mark.parametrize(
    ("job", "nodes", "block", "level"),
    [
        ("llm:tp=8,dp=8", 8, 8, "level 0"),  # its only ring over nodes is that of all
        ("llm:tp=8,dp=16", 16, 8, "level 0"),  # the ring crosses once, out of eight hosts
        ("llm:tp=8,dp=4,pp=4", 16, 8, "level 0"),  # two rings, and one step of the pipeline
        ("llm:tp=4", 1, None, ""),
    ],
)
def test_the_least_block_that_holds_what_belongs_together(tmp_path, job, nodes, block, level):
    found = asked(tree(tmp_path), job)
    assert found.nodes == nodes
    if block is None:
        assert found.chosen is None
        return
    assert (found.chosen.nodes, found.chosen.level) == (block, level)
    assert found.chosen.predicted_s < 0.7 * found.scattered_s


def test_where_uplinks_carry_all_nothing_is_asked_for(tmp_path):
    found = asked(tree(tmp_path, ""), "llm:tp=8,dp=4,pp=4")
    assert found.chosen is None
    for each in found.tried:
        assert each.predicted_s == pytest.approx(found.scattered_s, rel=1e-3)


@pytest.mark.parametrize("job", ["llm:tp=8,dp=4,pp=4", "llm:tp=8,dp=2,pp=8", "stencil2d:16x8"])
def test_allocations_that_keep_the_blocks_are_not_slower(tmp_path, job):
    """Random ones, which keep blocks of the size that is asked for below leaves, in any order."""
    network = tree(tmp_path)
    found = asked(network, job)
    assert found.chosen.level == "level 0"
    size, rng = found.chosen.nodes, random.Random(3)
    for _ in range(20):
        blocks = []
        for leaf in "abcd":
            own = rng.sample([each for each in LEAVES if each[0] == leaf], 8)
            blocks += [own[at : at + size] for at in range(0, 8 - size + 1, size)]
        rng.shuffle(blocks)
        hosts = [host for block in blocks for host in block][: found.nodes]
        assert predicted(network, job, hosts) <= 1.02 * found.chosen.predicted_s


def test_scattered_is_what_a_scheduler_without_a_wish_may_give(tmp_path):
    network, job = tree(tmp_path), "llm:tp=8,dp=4,pp=4"
    in_turns = [f"{leaf}{at}" for at in range(4) for leaf in "acbd"]
    assert asked(network, job).scattered_s == pytest.approx(predicted(network, job, in_turns))


def test_larger_and_nearer_blocks_are_never_said_to_be_slower(tmp_path):
    def of(height, tried):
        own = sorted((each.nodes, each.predicted_s) for each in tried if each.height == height)
        return [seconds for _, seconds in own]

    for job in ("llm:tp=8,dp=4,pp=4", "llm:tp=8,dp=16", "stencil3d:4x4x8"):
        tried = asked(tree(tmp_path), job).tried
        assert {each.height for each in tried} == {0, 1}
        for height in (0, 1):
            assert all(a >= b for a, b in pairwise(of(height, tried)))


def test_a_domain_of_nvlink_is_a_level(tmp_path):
    conf = tmp_path / "racks.conf"
    conf.write_text("SwitchName=leaf Nodes=n[00-71]\n")
    network = read_network(f"{conf},domain=18,rails=4,bandwidth=50")
    found = asked(network, "llm:tp=16,dp=8", "gb200-nvl72")
    assert found.chosen.level == "NVLink domain"
    assert found.chosen.nodes % 4 == 0  # whole groups of tensor parallel, of four trays each
    assert any("tensor parallel has 16 ranks on 4 nodes of one block" in x for x in found.why)


def test_of_a_graph_the_leaf_switches_are_known(tmp_path):
    """As ibnetdiscover lists it: two leaves, each with a cable to both of two spines."""
    lines, adapters = [], []
    for leaf in (1, 2):
        lines.append(f'Switch 40 "S-{leaf}" # "leaf{leaf}" base port 0')
        for at in range(1, 9):
            host = f"n{leaf}{at}"
            lines.append(f'[{at}] "H-{leaf}{at}"[1](2) # "{host} mlx5_0" lid 1 4xEDR')
            adapters += [
                f'Ca 1 "H-{leaf}{at}" # "{host} mlx5_0"',
                f'[1](2) "S-{leaf}"[{at}] # lid 2 lmc 0 "leaf{leaf}" lid 1 4xEDR',
                "",
            ]
        lines += [f'[{8 + s}] "S-{2 + s}"[{leaf}] # "spine{s}" lid 3 4xEDR' for s in (1, 2)] + [""]
    fabric = tmp_path / "fabric"
    fabric.write_text("\n".join([*lines, *adapters]))
    network = read_network(fabric)
    assert not network.levels
    found = asked(network, "llm:tp=8,dp=8", "hgx-h100")
    assert {each.level for each in found.tried} == {"level 0"}
    assert found.chosen is not None  # eight ports of hosts over two uplinks


def test_why_says_where_groups_and_pairs_are(tmp_path):
    why = asked(tree(tmp_path), "llm:tp=8,dp=4,pp=4").why
    assert "each group tensor parallel has 8 ranks on one node" in why
    assert "each group data parallel has 4 ranks on 4 nodes of one block" in why
    assert "each group pipeline parallel has 4 ranks on 4 nodes in 2 blocks" in why
    # Of three steps of the pipeline two are between nodes of one block.
    assert "of the bytes between pairs on different nodes 67% stay inside blocks" in why


def test_what_cannot_be_asked_is_refused(tmp_path):
    with pytest.raises(InputError, match="need 40 nodes of 8 devices; the network has 32"):
        asked(tree(tmp_path), "llm:tp=8,dp=40")
    with pytest.raises(UsageError, match="no levels"):
        asked(read_network("torus3d:4x4x4,nodes=2"), "stencil3d:4x4x4")
