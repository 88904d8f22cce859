"""Traffic of one training step of a dense transformer, computed from its parallel layout.

Per rank and step, with b sequences of s tokens per micro-batch (each context-parallel rank holds
s / cp of them), hidden size h, L layers, m micro-batches and values of 2 bytes:

* tensor parallel: 4 all-reduces (2 forward, 2 backward) of b s/cp h values per layer and
  micro-batch, each as a ring: 2 (tp - 1) messages of 1/tp of the values to the next rank. A
  reduce-scatter with an all-gather (sequence parallelism) moves the same bytes.
* pipeline parallel: at each boundary, per micro-batch, one message of b s/cp h values forward
  (activations) and one backward (gradients).
* data parallel: once per step a ring over the cp x dp ranks that hold the same parameters, which
  all-reduces (or reduce-scatters and all-gathers) params / (tp pp) values.
* context parallel: ring attention. Per layer and micro-batch, cp - 1 messages forward of the keys
  and values of the rank's own tokens (2 b s/cp h / tp values, every head with keys of its own), and
  in the backward pass the same again together with their gradients.

The tensor, pipeline and data rows follow the usual accounting of Megatron-LM's layouts; the context
row is our own of ring attention. Embeddings and the overlap with computation are left out. Without
`params`, 12 L h^2 are assumed: attention and a feed-forward part of 4 h.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from toposeat.model.traffic import Exchange, Int64Array
from toposeat.profile.pattern.pattern_text import PatternText
from toposeat.profile.pattern.step_messages import StepMessages

LLM_FORM = (
    "llm:tp=2,pp=2,dp=2[,cp=C][,order=tp-cp-dp-pp][,layers=L][,hidden=H][,seq=S][,microbatch=B]"
    "[,microbatches=M][,params=P]"
)

_AXES = ("tp", "cp", "dp", "pp")
_BYTES_PER_VALUE = 2  # bf16
_ALLREDUCES_PER_LAYER = 4
_MAX_DEGREE = 2**14
_MAX_RANKS = 2**17


@dataclass(frozen=True, kw_only=True, slots=True)
class _Job:
    extent: dict[str, int]  # ranks along each axis
    order: tuple[str, ...]  # axes, the fastest varying first
    layers_per_stage: int
    microbatches: int
    values: int  # of one activation tensor on one rank: b s/cp h
    parameters_per_rank: float

    @property
    def ranks(self) -> int:
        return math.prod(self.extent.values())

    def grid(self) -> Int64Array:
        """Rank of each place: one dimension per axis, as `_AXES`."""
        slowest_first = self.order[::-1]
        ranks = np.arange(self.ranks).reshape([self.extent[axis] for axis in slowest_first])
        return ranks.transpose([slowest_first.index(axis) for axis in _AXES])

    def groups(self, *axes: str) -> Int64Array:
        """Groups x members: the ranks that differ in these axes only, sorted by their ranks."""
        along = [_AXES.index(axis) for axis in axes]
        moved = np.moveaxis(self.grid(), along, range(-len(along), 0))
        size = math.prod(self.extent[axis] for axis in axes)
        members = np.sort(moved.reshape(-1, size), axis=1)
        return members[np.argsort(members[:, 0])]


def llm_messages(text: PatternText) -> StepMessages:
    """Read the options of an `llm:` pattern and build its messages.

    Raises:
        UsageError: on options that are unknown, out of range or do not divide.
    """
    job = _take_job(text)
    messages = StepMessages(job.ranks)
    _add_tensor(messages, job)
    _add_data(messages, job)
    _add_pipeline(messages, job)
    _add_context(messages, job)
    return messages


def _take_job(text: PatternText) -> _Job:
    extent = {axis: text.take_integer(axis, 1, minimum=1, maximum=_MAX_DEGREE) for axis in _AXES}
    if text.take_integer("ep", 1, minimum=1, maximum=_MAX_DEGREE) != 1:
        raise text.error("expert parallelism (ep > 1) is not modelled")
    order = tuple(text.take_word("order", "-".join(_AXES)).split("-"))
    if sorted(order) != sorted(_AXES):
        raise text.error(f"order must name {', '.join(_AXES)} once each, joined by '-'")
    layers = text.take_integer("layers", 32, minimum=1, maximum=10**5)
    hidden = text.take_integer("hidden", 4096, minimum=1, maximum=10**7)
    tokens = text.take_integer("seq", 4096, minimum=1, maximum=10**9)
    microbatch = text.take_integer("microbatch", 1, minimum=1, maximum=10**6)
    microbatches = text.take_integer("microbatches", 8, minimum=1, maximum=10**6)
    parameters = text.take_count("params", 12 * layers * hidden * hidden)
    text.finish()
    if layers % extent["pp"]:
        raise text.error(f"{layers} layers do not divide into pp={extent['pp']} stages")
    if tokens % extent["cp"]:
        raise text.error(f"seq={tokens} does not divide into cp={extent['cp']} parts")
    job = _Job(
        extent=extent,
        order=order,
        layers_per_stage=layers // extent["pp"],
        microbatches=microbatches,
        values=microbatch * (tokens // extent["cp"]) * hidden,
        parameters_per_rank=parameters / (extent["tp"] * extent["pp"]),
    )
    if job.ranks > _MAX_RANKS:
        raise text.error(f"more than {_MAX_RANKS} ranks")
    return job


def _add_tensor(messages: StepMessages, job: _Job) -> None:
    allreduces = _ALLREDUCES_PER_LAYER * job.layers_per_stage * job.microbatches
    _add_allreduces(messages, "tensor", job.groups("tp"), job.values, allreduces)


def _add_data(messages: StepMessages, job: _Job) -> None:
    _add_allreduces(messages, "data", job.groups("cp", "dp"), job.parameters_per_rank, 1)


def _add_allreduces(
    messages: StepMessages, phase: str, members: Int64Array, values: float, times: int
) -> None:
    number = members.shape[1]
    messages.add_groups(
        phase,
        f"{phase} parallel",
        members,
        Exchange.RING,
        size=round(values * _BYTES_PER_VALUE / number),
        count=2 * (number - 1) * times,
    )


def _add_pipeline(messages: StepMessages, job: _Job) -> None:
    messages.add_communicators("pipeline parallel", job.groups("pp"))
    stages = np.moveaxis(job.grid(), _AXES.index("pp"), 0)
    before, after = stages[:-1].ravel(), stages[1:].ravel()
    for source, target in ((before, after), (after, before)):
        size = job.values * _BYTES_PER_VALUE
        messages.add_pairs("pipeline", source, target, size, job.microbatches)


def _add_context(messages: StepMessages, job: _Job) -> None:
    cp = job.extent["cp"]
    if cp == 1:
        return
    grid = job.grid()
    source, target = grid.ravel(), np.roll(grid, -1, axis=_AXES.index("cp")).ravel()
    keys_and_values = round(2 * job.values * _BYTES_PER_VALUE / job.extent["tp"])
    steps = (cp - 1) * job.layers_per_stage * job.microbatches
    for tensors in (1, 2):  # forward; backward, with the gradients
        messages.add_pairs("context", source, target, tensors * keys_and_values, steps)
