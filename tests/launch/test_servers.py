"""Lines of vLLM and SGLang: the devices that they take, and the pattern of their ranks."""

import shlex
from collections.abc import Callable
from pathlib import Path

import pytest

from toposeat.errors import UsageError
from toposeat.launch import parse_launch_line, run_placed, server_of
from toposeat.model.placement import Placement

Place = Callable[..., tuple[Placement, Path]]
SGLANG = "python -m sglang.launch_server --model-path m"


@pytest.mark.parametrize(
    ("text", "pattern"),
    [
        ("vllm serve m", "llm:tp=1,mode=prefill"),
        ("vllm serve m -tp 2 -pp=2", "llm:tp=2,pp=2,mode=prefill"),
        ("vllm serve m -tp 2 -dp 2", "llm:tp=2,dp=2,mode=prefill"),
        (
            "vllm serve m --tensor-parallel-size=2 -pp 2 --data-parallel-size 2",
            "llm:tp=2,pp=2,dp=2,order=tp-pp-dp,mode=prefill",
        ),
        (f"env A=1 {SGLANG} --tp 4", "llm:tp=4,mode=prefill"),
        (f"{SGLANG} --tp-size 2 --tp-size 4 --pp 2", "llm:tp=4,pp=2,mode=prefill"),
    ],
)
def test_a_line_says_how_its_ranks_talk(text, pattern):
    server = server_of(parse_launch_line(shlex.split(text)))
    assert server is not None
    assert server.pattern == pattern


@pytest.mark.parametrize(
    "text",
    [
        "python train.py -tp 2",
        "vllm bench -tp 2",
        "vllm serve m --config sizes.yaml",
        "vllm serve m -tp $TP",
        f"{SGLANG} --tp 8 --nnodes 2 --node-rank 0",
        f"{SGLANG} --tp 4 --dp 2 --enable-dp-attention",
    ],
)
def test_what_a_line_does_not_say_is_not_known(text):
    assert server_of(parse_launch_line(shlex.split(text))) is None


@pytest.mark.parametrize(
    ("text", "cause", "hint"),
    [
        (f"{SGLANG} --tp 2 --base-gpu-id 2", "--base-gpu-id 2 and the placement", "--base-gpu-id"),
        (f"{SGLANG} --tp 2 --gpu-id-step 2", "--gpu-id-step 2 and the placement", "--gpu-id-step"),
        (f"{SGLANG} --tp 4", "for 2 ranks, and the line takes 4 devices (-tp 4)", "llm:tp=4"),
        (f"{SGLANG} --pp 2 --tp 2", "takes 4 devices (-tp 2 -pp 2)", "llm:tp=2,pp=2"),
        (SGLANG, "takes 1 device (-tp 1)", "llm:tp=1"),
    ],
)
def test_sizes_that_do_not_fit_the_list_are_refused_before_the_start(text, cause, hint, place):
    """Case 15: SGLang would have taken devices 2 and 3 of a list of two."""
    with pytest.raises(UsageError) as refused:
        run_placed(shlex.split(text), *place(2))
    assert cause in refused.value.message
    assert hint in refused.value.hint


def test_sizes_that_fit_are_started(place):
    line = shlex.split(f"{SGLANG} --tp 2 --base-gpu-id 0")
    assert run_placed(line, *place(2), dry_run=True).launched[-8:] == tuple(line[-8:])
