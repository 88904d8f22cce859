"""Traffic of one step of a transformer, computed from its parallel layout: the pattern `llm:`.

docs/explanation/collectives.md says what each option means, and has every formula with its source.
"""

from __future__ import annotations

import csv
import functools
import math
from pathlib import Path

import numpy as np
from msgspec import Struct

from toposeat.errors import UsageError, did_you_mean
from toposeat.model.traffic import Communicator, Exchange, Int64Array, TrafficKind
from toposeat.profile.message_list import MessageList
from toposeat.profile.pattern.pattern_text import PatternText

AXES = ("tp", "cp", "dp", "pp")
VALUE_BYTES = 2  # bf16
_GRADIENT_BYTES = {"bf16": 2, "fp32": 4}
_MODES = ("train", "prefill", "decode")
_MAX_DEGREE = 2**14
_MAX_RANKS = 2**17
_MAX_PAIRS = 2**22
_MODELS = Path(__file__).with_name("models.csv")
_SIZES = ("layers", "hidden", "ffn", "heads", "kv-heads", "head-dim", "experts", "dense")


@functools.cache
def models() -> dict[str, dict[str, str]]:
    """Options of `llm:` for each published model."""
    with _MODELS.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(line for line in file if not line.startswith("#")))
    return {
        row.pop("model"): {name: value for name, value in row.items() if value and name != "source"}
        for row in rows
    }


def _take_model(text: PatternText) -> None:
    """Fill in the options of `model=` that are not given."""
    name = text.take_word("model", "")
    if not name:
        return
    options = models().get(name.lower())
    if options is None:
        near = did_you_mean(name.lower(), models())
        known = f"known are {', '.join(models())}"
        raise UsageError(f"unknown model {name[:40]!r}", hint=f"{near} {known}".strip())
    # The number that is published is that of a model of these sizes.
    same = not any(text.has(size) for size in _SIZES)
    text.set_defaults({key: options[key] for key in options if same or key != "params"})


class Experts(Struct, frozen=True, kw_only=True):
    """How the feed-forward parts are split into experts."""

    ep: int  # ranks that share them
    number: int
    load: float  # tokens that leave a rank, over the tokens it has: top-k x capacity factor
    dense: int  # layers without them
    are_outer: bool  # `ep` varies slower than `dp`, so that copies of an expert are neighbours


class LlmJob(Struct, frozen=True, kw_only=True):
    """One step of training or serving. Parameters are those that one rank holds before sharding."""

    extent: dict[str, int]  # ranks along each axis
    order: tuple[str, ...]  # axes, the fastest varying first
    layers_per_stage: int
    expert_share: float  # layers whose feed-forward part is split into experts, over all
    virtual: int  # chunks of layers of each stage
    microbatches: int
    values: int  # of one activation tensor on one rank: b s/cp h
    key_share: float  # values of the keys of a rank, over `values`
    sequence_parallel: bool
    parameters: float  # that all data-parallel ranks hold
    expert_parameters: float  # that 1/ep of them hold; 0 where ep = 1
    experts: Experts
    zero: int
    gradient_bytes: int  # of one value
    mode: str

    @property
    def is_training(self) -> bool:
        """Whether there is a backward pass."""
        return self.mode == "train"

    @property
    def ranks(self) -> int:
        """How many there are."""
        return math.prod(self.extent.values())

    def grid(self) -> Int64Array:
        """Rank of each place: one dimension per axis, as `AXES`."""
        slowest_first = self.order[::-1]
        ranks = np.arange(self.ranks).reshape([self.extent[axis] for axis in slowest_first])
        return ranks.transpose([slowest_first.index(axis) for axis in AXES])

    def groups(self, *axes: str) -> Int64Array:
        """Groups x members: the ranks that differ in these axes only, sorted by their ranks."""
        along = [AXES.index(axis) for axis in axes]
        moved = np.moveaxis(self.grid(), along, range(-len(along), 0))
        size = math.prod(self.extent[axis] for axis in axes)
        members = np.sort(moved.reshape(-1, size), axis=1)
        return members[np.argsort(members[:, 0])]

    def expert_groups(self) -> Int64Array:
        """Groups x members: the ranks of a data-parallel group that share a copy of all experts."""
        return self._copies().reshape(-1, self.experts.ep)

    def expert_data_groups(self) -> Int64Array:
        """Groups x members: the ranks that hold the same experts."""
        copies = self._copies()
        return copies.swapaxes(1, 2).reshape(-1, copies.shape[1])

    def _copies(self) -> Int64Array:
        """Data-parallel groups x copies of all experts x ranks that share one."""
        data, ep = self.groups("cp", "dp"), self.experts.ep
        if self.experts.are_outer:
            return data.reshape(len(data), ep, -1).swapaxes(1, 2)
        return data.reshape(len(data), -1, ep)


def take_job(text: PatternText) -> LlmJob:
    """Read all options."""
    _take_model(text)
    extent = {axis: text.take_integer(axis, 1, minimum=1, maximum=_MAX_DEGREE) for axis in AXES}
    order = text.take_word("order", "-".join(AXES)).split("-")
    if math.prod(extent.values()) > _MAX_RANKS:
        raise text.error(f"more than {_MAX_RANKS} ranks")
    mode = _choice(text, "mode", _MODES)
    zero, gradient_bytes = _take_training(text, mode)
    experts = _take_experts(text, order)
    sequence_parallel = text.take_flag("sp")
    layers = text.take_integer("layers", 32, minimum=1, maximum=10**5)
    hidden = text.take_integer("hidden", 4096, minimum=1, maximum=10**7)
    tokens = text.take_integer("seq", 4096, minimum=1, maximum=10**9)
    microbatch = text.take_integer("microbatch", 1, minimum=1, maximum=10**6)
    ffn = text.take_integer("ffn", 0, minimum=1, maximum=10**8)
    attention, key_share = _take_attention(text, hidden, extent["tp"])
    one = hidden * (3 * ffn if ffn else 8 * hidden)
    expert = (layers - experts.dense) * experts.number * one
    parameters = text.take_count("params", expert + experts.dense * one + layers * attention)
    job = LlmJob(
        extent=extent,
        order=_whole_order(text, order, extent, experts.ep),
        layers_per_stage=layers // extent["pp"],
        expert_share=(1 - experts.dense / layers) if experts.ep > 1 else 0,
        virtual=text.take_integer("virtual", 1, minimum=1, maximum=10**4),
        microbatches=text.take_integer("microbatches", 8, minimum=1, maximum=10**6),
        values=microbatch * (1 if mode == "decode" else tokens // extent["cp"]) * hidden,
        key_share=key_share,
        sequence_parallel=sequence_parallel,
        parameters=(parameters - expert * (experts.ep > 1)) / (extent["tp"] * extent["pp"]),
        expert_parameters=(
            expert / (extent["tp"] * extent["pp"] * experts.ep) if experts.ep > 1 else 0
        ),
        experts=experts,
        zero=zero,
        gradient_bytes=gradient_bytes,
        mode=mode,
    )
    text.finish()
    if experts.dense >= layers:
        raise text.error(f"dense={experts.dense} leaves none of {layers} layers with experts")
    if layers % (extent["pp"] * job.virtual):
        chunks = f"virtual={job.virtual} chunks of " if job.virtual > 1 else ""
        raise text.error(f"{layers} layers do not divide into {chunks}pp={extent['pp']} stages")
    if tokens % extent["cp"]:
        raise text.error(f"seq={tokens} does not divide into cp={extent['cp']} parts")
    _check(text, job)
    return job


def _whole_order(
    text: PatternText, named: list[str], extent: dict[str, int], ep: int
) -> tuple[str, ...]:
    """The axes as Megatron's order names them: those of one rank may be left out."""
    if len({*named}) < len(named) or not {*named} <= {*AXES, "ep"}:
        raise text.error("order must name tp, cp, ep, dp and pp, each once at most, joined by '-'")
    left_out = [axis for axis in AXES if axis not in named and extent[axis] > 1]
    if left_out:
        raise text.error(f"order leaves out {', '.join(left_out)}, which have more than one rank")
    axes = [axis for axis in named if {**extent, "ep": ep}[axis] > 1]
    data = [axis in ("cp", "ep", "dp") for axis in axes]
    if "ep" in axes and not all(data[data.index(True) : len(data) - data[::-1].index(True)]):
        raise text.error("order must have cp, ep and dp side by side: ep splits the ranks of both")
    return (*(axis for axis in named if axis != "ep"), *(a for a in AXES if a not in named))


def _check(text: PatternText, job: LlmJob) -> None:
    """Refuse options that contradict each other."""
    extent, ep = job.extent, job.experts.ep
    if job.virtual > 1 and extent["pp"] == 1:
        raise text.error("virtual=V interleaves the stages of a pipeline: add pp=2 or more")
    if job.mode == "decode" and extent["cp"] > 1:
        raise text.error("mode=decode has one token per sequence: nothing to split with cp")
    if extent["cp"] * extent["dp"] % ep:
        raise text.error(
            f"ep={ep} does not divide the {extent['cp'] * extent['dp']} ranks of cp x dp"
        )
    if job.ranks * (ep - 1) > _MAX_PAIRS:
        raise text.error(f"more than {_MAX_PAIRS} pairs of ranks in expert parallelism")
    if job.experts.number % ep:
        raise text.error(f"experts={job.experts.number} do not divide into ep={ep} parts")
    if ep > 1 and extent["tp"] > 1 and not job.sequence_parallel:
        raise text.error("ep with tp splits the tokens among the ranks of tp: add sp")
    if job.parameters < 0:
        raise text.error("params is less than the experts alone have: check hidden and ffn")


def _take_training(text: PatternText, mode: str) -> tuple[int, int]:
    """ZeRO's stage, and the bytes of one value of a gradient."""
    has_fsdp = text.take_flag("fsdp")
    zero = text.take_integer("zero", -1, minimum=0, maximum=3)
    grad = text.take_word("grad", "")
    if mode != "train" and (has_fsdp or zero >= 0 or grad):
        raise text.error(f"mode={mode} has no gradients: fsdp, zero and grad are for mode=train")
    if has_fsdp and zero not in (-1, 3):
        raise text.error(f"fsdp is zero=3, not zero={zero}")
    if grad not in ("", *_GRADIENT_BYTES):
        raise text.error(f"grad must be one of {', '.join(_GRADIENT_BYTES)}")
    return 3 if has_fsdp else max(zero, 0), _GRADIENT_BYTES[grad or "bf16"]


def _take_experts(text: PatternText, order: list[str]) -> Experts:
    ep = text.take_integer("ep", 1, minimum=1, maximum=_MAX_DEGREE)
    number = text.take_integer("experts", 1, minimum=1, maximum=10**5)
    if ep > 1 and number == 1:
        raise text.error("expert parallelism (ep > 1) needs experts=N")
    topk = text.take_integer("topk", min(2, number), minimum=1, maximum=number)
    return Experts(
        ep=ep,
        number=number,
        load=topk * text.take_factor("capacity", 1),
        dense=text.take_integer("dense", 0, minimum=0, maximum=10**5),
        are_outer={"dp", "ep"} <= {*order} and order.index("dp") < order.index("ep"),
    )


def _take_attention(text: PatternText, hidden: int, tp: int) -> tuple[float, float]:
    """Parameters of the attention of a layer, and the size of the keys that one rank of `tp` holds.

    The keys are a share of an activation tensor.
    """
    heads = text.take_integer("heads", 0, minimum=1, maximum=10**5)
    key_heads = text.take_integer("kv-heads", heads, minimum=1, maximum=10**5)
    head = text.take_integer("head-dim", 0, minimum=1, maximum=10**7)
    if not heads:
        if key_heads or head:
            raise text.error("kv-heads and head-dim need the number of all heads: add heads=A")
        return 4 * hidden * hidden, 1 / tp
    if heads % key_heads:
        raise text.error(f"heads={heads} do not divide into kv-heads={key_heads} groups")
    values = head or hidden / heads  # of one head
    # Queries and output, keys and values.
    return 2 * hidden * values * (heads + key_heads), max(key_heads / tp, 1) * values / hidden


def _choice(text: PatternText, name: str, words: tuple[str, ...]) -> str:
    word = text.take_word(name, words[0])
    if word not in words:
        raise text.error(f"{name} must be one of {', '.join(words)}")
    return word


class StepMessages(MessageList):
    """The messages of a step, by its parts.

    Groups of one name and the same ranks are one communicator, whatever parts use it.
    """

    def __init__(self, ranks: int) -> None:
        super().__init__(ranks)
        self._known: dict[tuple[str, tuple[int, ...]], Communicator] = {}

    def add_communicators(self, name: str, members: Int64Array) -> list[int]:
        """Make groups known: `name 0`, `name 1`, ...; those of one rank are left out.

        `members` are groups x members, world ranks, sorted in each group. Returns their ids.
        """
        if members.shape[1] < 2:
            return []
        found = []
        for number, ranks in enumerate(map(tuple, members.tolist())):
            known = self._known.get((name, ranks))
            if known is None:
                identity = len(self.communicators)
                known = Communicator(id=identity, ranks=ranks, name=f"{name} {number}")
                self._known[name, ranks] = known
                self.communicators.append(known)
            found.append(known.id)
        return found

    def add_pairs(
        self, phase: str, source: Int64Array, target: Int64Array, size: int, count: int
    ) -> None:
        """`count` point-to-point messages of `size` bytes from each source to its target."""
        self.add(TrafficKind.POINT_TO_POINT, source, target, size, count, phase=phase)

    def add_groups(
        self,
        phase: str,
        name: str,
        members: Int64Array,
        exchange: Exchange,
        *,
        size: int,
        count: int,
    ) -> None:
        """Collectives of alike groups, which the library orders itself.

        `count` messages of `size` bytes go over each edge of the ring over the members, or each
        ordered pair of them.
        """
        number = members.shape[1]
        communicators = self.add_communicators(name, members)
        if count == 0:
            return
        for communicator in communicators:
            self.add_load(communicator, "nccl", exchange, size * count, count, phase=phase)
        for shift in range(1, 2 if exchange.is_ring else number):
            target = np.roll(members, -shift, axis=1)
            pairs = members.ravel(), target.ravel()
            self.add(TrafficKind.COLLECTIVE, *pairs, size, count, phase=phase)


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
        is_whole = not job.sequence_parallel
        _add_rings(messages, "tensor", members, size, 2 * _passes(job), is_whole=is_whole)


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
    passes = 2 if job.zero == 0 else reductions
    _add_rings(messages, phase, members, gradients, passes, is_whole=job.zero == 0)
    _add_rings(messages, phase, members, own, gathers)


def _add_rings(
    messages: StepMessages,
    phase: str,
    members: Int64Array,
    size: float,
    passes: int,
    *,
    is_whole: bool = False,
) -> None:
    """`size` bytes go `passes` times around: a whole all-reduce twice, its two halves once each."""
    number = members.shape[1]
    messages.add_groups(
        phase,
        f"{phase} parallel",
        members,
        Exchange.ALL_REDUCE if is_whole else Exchange.RING,
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
