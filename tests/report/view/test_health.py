from dataclasses import replace

from tests.report import samples
from toposeat.model.health import (
    Finding,
    Health,
    JobOrder,
    OrderEffect,
    PossibleGain,
    Severity,
    Shape,
    Wiring,
)
from toposeat.report import TextStyle, health_json, render_health_text

FINDINGS = (
    Finding(severity=Severity.FAULT, code="pcie-width", subject="D3", detail="x8", hint="reseat"),
    Finding(severity=Severity.DOUBT, code="nic-far", subject="", detail="far"),
)
GAIN = PossibleGain(
    pattern="ring:4",
    kind="pipeline",
    default_s=2e-3,
    placed_s=1e-3,
    bound_s=0.9e-3,
    proved=False,
    device_of_rank=(0, 2, 1, 3),
)
ORDER = JobOrder(
    device_of_rank=(0, 2, 1, 3),
    effects=(
        OrderEffect(
            kind="pipeline", patterns=("ring:4", "ring:4,wrap"), ranges=((0.25, 0.5), (0.0, 0.0))
        ),
        OrderEffect(kind="2-D halo", patterns=("stencil2d:2x2",), ranges=((-1.5, 0.1),)),
    ),
    kinds=("pipeline",),
)
HEALTH = Health(
    wiring=Wiring(shape=Shape.SWITCHED, reason="PCIe switches join D0-D1, D2-D3"),
    gains=(GAIN,),
    orders=(ORDER,),
    findings=FINDINGS,
    node=(Finding(severity=Severity.OK, code="host", subject="node07", detail="64 CPUs"),),
)

TEXT = """\
Verdict   not healthy: 1 fault, 1 doubt
Order     depends on the job: an order that is faster for one kind of job is slower for another
          (predicted). toposeat map finds the order for one job
toposeat map ring:4 -t x

Machine   small-tree, 4 x Tesla K80, 10 links nominal
Wiring    switched: PCIe switches join D0-D1, D2-D3

For       pipeline (1 of 2 patterns): saves 25 % to 50 %
Costs     2-D halo up to 150 % (1 of 1 pattern)
CUDA_DEVICE_ORDER=PCI_BUS_ID CUDA_VISIBLE_DEVICES=0,2,1,3

predicted for  default  best found  saves  at most
ring:4         2.00 ms     1.00 ms   50 %     55 %

fault  pcie-width  D3: x8
       hint: reseat
doubt  nic-far  far

This node
ok     host  node07: 64 CPUs
"""


def test_exact_text():
    assert render_health_text(samples.small_tree(), HEALTH, "toposeat map ring:4 -t x") == TEXT


def test_an_order_that_harms_no_job_stands_first():
    harmless = JobOrder(device_of_rank=ORDER.device_of_rank, effects=ORDER.effects[:1])
    text = render_health_text(samples.small_tree(), replace(HEALTH, orders=(harmless,)), "ask")
    lines = text.splitlines()
    assert lines[1].startswith(
        "Order     saves link time: 25 % to 50 % for pipeline (1 of 2 patterns)"
    )
    assert lines[3:5] == [
        "          D0 D2 D1 D3 for ranks 0 to 3",
        "CUDA_DEVICE_ORDER=PCI_BUS_ID CUDA_VISIBLE_DEVICES=0,2,1,3",
    ]
    assert "ask" not in text
    assert "For  " not in text


def test_the_line_to_copy_is_whole_on_a_narrow_terminal():
    text = render_health_text(samples.small_tree(), HEALTH, style=TextStyle(width=40))
    assert "\nCUDA_DEVICE_ORDER=PCI_BUS_ID CUDA_VISIBLE_DEVICES=0,2,1,3\n" in text


def test_no_machine():
    text = render_health_text(None, Health(findings=FINDINGS[:1]))
    assert text.startswith("Verdict   not healthy: 1 fault\n")


def test_nothing_to_gain_says_how_sure():
    none = PossibleGain(
        pattern="ring:4",
        kind="pipeline",
        default_s=1.0,
        placed_s=1.0,
        bound_s=1.0,
        proved=True,
        device_of_rank=(0, 1, 2, 3),
    )
    wiring = Wiring(shape=Shape.UNIFORM, reason="all alike")
    text = render_health_text(samples.small_tree(), Health(wiring=wiring, gains=(none,)))
    text = " ".join(text.split())
    assert (
        "nothing to gain: below 1 % of link time of 1 pattern tried, proved for each (predicted)"
        in text
    )
    assert text.startswith("Verdict healthy ")
    unknown = Wiring(shape=Shape.UNKNOWN, reason="hidden")
    hidden = replace(HEALTH, wiring=unknown)
    text = render_health_text(samples.small_tree(), hidden, "ask")
    assert "Order     not known; 50 % if distances are as assumed (predicted: pipeline)" in text
    assert "VISIBLE_DEVICES" not in text  # an assumption is no reason to move ranks
    assert "ask" not in text


def test_narrow_plain_and_hostile():
    evil = Finding(
        severity=Severity.FAULT,
        code="x",
        subject="\x1b[2J" + "a" * 200,
        detail="[red]b[/red] \u202e",
        hint="h" * 90,
    )
    text = render_health_text(
        samples.small_tree(), Health(findings=(evil,)), style=TextStyle(width=80, unicode=False)
    )
    assert max(len(line) for line in text.splitlines()) <= 80
    assert "\x1b" not in text
    assert "[red]b[/red]" in text
    assert text.isascii()


def test_json_is_for_fleets():
    document = health_json(samples.small_tree(), HEALTH)
    assert document["schema"] == "toposeat/doctor/2"
    assert document["healthy"] is False
    assert document["wiring"]["shape"] == "switched"
    assert document["gains"][0]["gain_share"] == 0.5
    assert document["gains"][0]["line"].endswith("CUDA_VISIBLE_DEVICES=0,2,1,3")
    (order,) = document["orders"]
    assert order["line"].endswith("CUDA_VISIBLE_DEVICES=0,2,1,3")
    assert (order["kinds"], order["device_of_rank"]) == (["pipeline"], [0, 2, 1, 3])
    assert order["effects"][1] == {
        "kind": "2-D halo", "patterns": ["stencil2d:2x2"], "ranges": [[-1.5, 0.1]],
        "low": -1.5, "high": 0.1
    }  # fmt: skip
    assert [f["code"] for f in document["findings"]] == ["pcie-width", "nic-far", "host"]
    assert document["findings"][0] == {
        "severity": "fault", "code": "pcie-width", "subject": "D3", "detail": "x8", "hint": "reseat"
    }  # fmt: skip
    assert health_json(None, Health())["machine"] is None
