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
from collections import defaultdict
from dataclasses import dataclass
from itertools import product

from toposeat.model.traffic import Communicator, Exchange, GroupLoad, TrafficKind
from toposeat.profile.importers.message_list import MessageList
from toposeat.profile.pattern.pattern_text import PatternText

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

    def rank(self, place: dict[str, int]) -> int:
        """Rank of coordinates on the axes."""
        number, stride = 0, 1
        for axis in self.order:
            number += place[axis] * stride
            stride *= self.extent[axis]
        return number


def llm_messages(text: PatternText) -> MessageList:
    """Read the options of an `llm:` pattern and build its messages.

    Raises:
        UsageError: on options that are unknown, out of range or do not divide.
    """
    job = _take_job(text)
    messages = MessageList(job.ranks)
    for coordinates in product(*(range(job.extent[axis]) for axis in _AXES)):
        place = dict(zip(_AXES, coordinates, strict=True))
        _add_tensor(messages, job, place)
        _add_context(messages, job, place)
        _add_pipeline(messages, job, place)
        _add_data(messages, job, place)
    _add_groups(messages, job)
    return messages


def _add_groups(messages: MessageList, job: _Job) -> None:
    """The process groups of each kind of parallelism, as the frameworks make them.

    Tensor and data parallel groups are NCCL's or RCCL's, which order their members themselves.
    """
    tp, members_of_data = job.extent["tp"], job.extent["cp"] * job.extent["dp"]
    loads = {
        "tensor": _ring_allreduce(tp, job.values, _tensor_allreduces(job)),
        "data": _ring_allreduce(members_of_data, job.parameters_per_rank, 1),
    }
    for name, axes in (("tensor", ("tp",)), ("data", ("cp", "dp")), ("pipeline", ("pp",))):
        members: dict[tuple[int, ...], list[int]] = defaultdict(list)
        for coordinates in product(*(range(job.extent[axis]) for axis in _AXES)):
            place = dict(zip(_AXES, coordinates, strict=True))
            members[tuple(place[axis] for axis in _AXES if axis not in axes)].append(
                job.rank(place)
            )
        for number, group in enumerate(sorted(map(sorted, members.values()))):
            if len(group) > 1:
                identity = len(messages.communicators)
                messages.communicators.append(
                    Communicator(id=identity, ranks=tuple(group), name=f"{name} parallel {number}")
                )
                if name in loads:
                    size, count = loads[name]
                    messages.groups.append(
                        GroupLoad(
                            communicator=identity,
                            library="nccl",
                            exchange=Exchange.RING,
                            bytes=size * count,
                            messages=count,
                        )
                    )


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


def _add_tensor(messages: MessageList, job: _Job, place: dict[str, int]) -> None:
    target = job.rank({**place, "tp": (place["tp"] + 1) % job.extent["tp"]})
    pair = (job.rank(place), target)
    _add_ring_allreduce(messages, pair, job.extent["tp"], job.values, _tensor_allreduces(job))


def _tensor_allreduces(job: _Job) -> int:
    return _ALLREDUCES_PER_LAYER * job.layers_per_stage * job.microbatches


def _add_data(messages: MessageList, job: _Job, place: dict[str, int]) -> None:
    cp, dp = job.extent["cp"], job.extent["dp"]
    following = (place["dp"] * cp + place["cp"] + 1) % (cp * dp)
    target = job.rank({**place, "cp": following % cp, "dp": following // cp})
    pair = (job.rank(place), target)
    _add_ring_allreduce(messages, pair, cp * dp, job.parameters_per_rank, 1)


def _add_ring_allreduce(
    messages: MessageList, pair: tuple[int, int], members: int, values: float, times: int
) -> None:
    messages.add(TrafficKind.COLLECTIVE, *pair, *_ring_allreduce(members, values, times))


def _ring_allreduce(members: int, values: float, times: int) -> tuple[int, int]:
    """Bytes of one message over each edge of the ring, and how many there are."""
    return round(values * _BYTES_PER_VALUE / members), 2 * (members - 1) * times


def _add_context(messages: MessageList, job: _Job, place: dict[str, int]) -> None:
    cp = job.extent["cp"]
    target = job.rank({**place, "cp": (place["cp"] + 1) % cp})
    keys_and_values = round(2 * job.values * _BYTES_PER_VALUE / job.extent["tp"])
    steps = (cp - 1) * job.layers_per_stage * job.microbatches
    for tensors in (1, 2):  # forward; backward, with the gradients
        messages.add(
            TrafficKind.POINT_TO_POINT, job.rank(place), target, tensors * keys_and_values, steps
        )


def _add_pipeline(messages: MessageList, job: _Job, place: dict[str, int]) -> None:
    for stage in (place["pp"] - 1, place["pp"] + 1):
        if 0 <= stage < job.extent["pp"]:
            messages.add(
                TrafficKind.POINT_TO_POINT,
                job.rank(place),
                job.rank({**place, "pp": stage}),
                job.values * _BYTES_PER_VALUE,
                job.microbatches,
            )
