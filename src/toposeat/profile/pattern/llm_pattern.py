"""Traffic of one step of a transformer, computed from its parallel layout.

docs/explanation/llm-pattern.md has every formula with its source.
"""

from __future__ import annotations

import numpy as np

from toposeat.model.traffic import Exchange, Int64Array
from toposeat.profile.pattern.llm_job import AXES, VALUE_BYTES, LlmJob, take_job
from toposeat.profile.pattern.pattern_text import PatternText
from toposeat.profile.pattern.step_messages import StepMessages


def llm_messages(text: PatternText) -> StepMessages:
    """Read the options of an `llm:` pattern and build its messages."""
    job = take_job(text)
    messages = StepMessages(job.ranks)
    _add_tensor(messages, job)
    _add_data(messages, job)
    _add_pipeline(messages, job)
    _add_context(messages, job)
    _add_experts(messages, job)
    return messages


def _passes(job: LlmJob) -> int:
    """Layers that a rank goes through in a step, forward and backward counted apart."""
    return (2 if job.is_training else 1) * job.layers_per_stage * job.microbatches


def _add_tensor(messages: StepMessages, job: LlmJob) -> None:
    """An all-reduce for attention and one for the feed-forward part, or their two halves."""
    load = 1 + (job.experts.load - 1) * job.expert_share  # of the feed-forward part, on average
    members = job.groups("tp")
    for share in (1, load):
        size = job.values * share * VALUE_BYTES
        _add_rings(messages, "tensor", members, size, 2 * _passes(job))


def _add_data(messages: StepMessages, job: LlmJob) -> None:
    data = job.groups("cp", "dp")
    messages.add_communicators("data parallel", data)
    if not job.is_training:
        return
    _add_gradients(messages, job, "data", data, job.parameters)
    if job.expert_parameters:
        members = job.expert_data_groups()
        _add_gradients(messages, job, "expert data", members, job.expert_parameters)


def _add_gradients(
    messages: StepMessages, job: LlmJob, phase: str, members: Int64Array, parameters: float
) -> None:
    """What keeps the parameters of a group equal, by the stage of ZeRO."""
    gradients, own = parameters * job.gradient_bytes, parameters * VALUE_BYTES
    reductions = job.microbatches if job.zero >= 2 else 1
    gathers = {0: 0, 1: 1, 2: 1, 3: 2 * job.microbatches}[job.zero]
    _add_rings(messages, phase, members, gradients, 2 if job.zero == 0 else reductions)
    _add_rings(messages, phase, members, own, gathers)


def _add_rings(
    messages: StepMessages, phase: str, members: Int64Array, size: float, passes: int
) -> None:
    """`size` bytes go `passes` times around: an all-reduce twice, its two halves once each."""
    number = members.shape[1]
    messages.add_groups(
        phase,
        f"{phase} parallel",
        members,
        Exchange.RING,
        size=round(size / number),
        count=(number - 1) * passes,
    )


def _add_pipeline(messages: StepMessages, job: LlmJob) -> None:
    messages.add_communicators("pipeline parallel", job.groups("pp"))
    stages = np.moveaxis(job.grid(), AXES.index("pp"), 0)
    inner = stages[:-1].ravel(), stages[1:].ravel(), job.virtual
    back = stages[-1].ravel(), stages[0].ravel(), job.virtual - 1  # from chunk to chunk
    parts = job.extent["tp"] if job.sequence_parallel else 1
    size = round(job.values * VALUE_BYTES / parts)
    for source, target, times in (inner, back):
        messages.add_pairs("pipeline", source, target, size, times * job.microbatches)
        if job.is_training:
            messages.add_pairs("pipeline", target, source, size, times * job.microbatches)


def _add_context(messages: StepMessages, job: LlmJob) -> None:
    cp = job.extent["cp"]
    if cp == 1:
        return
    grid = job.grid()
    source, target = grid.ravel(), np.roll(grid, -1, axis=AXES.index("cp")).ravel()
    keys_and_values = round(2 * job.values * VALUE_BYTES * job.key_share)
    steps = (cp - 1) * job.layers_per_stage * job.microbatches
    for tensors in (1, 2) if job.is_training else (1,):  # backward: with the gradients
        messages.add_pairs("context", source, target, tensors * keys_and_values, steps)


def _add_experts(messages: StepMessages, job: LlmJob) -> None:
    """Tokens to the ranks of their experts and back."""
    ep = job.experts.ep
    if ep == 1:
        return
    tokens = job.values / job.extent["tp"] * job.experts.load
    messages.add_groups(
        "expert",
        "expert parallel",
        job.expert_groups(),
        Exchange.PAIRWISE,
        size=round(tokens * VALUE_BYTES / ep),
        count=round(2 * _passes(job) * job.expert_share),
    )
