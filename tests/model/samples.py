"""Small nouns, and hypothesis strategies for them."""

import numpy as np
from hypothesis import strategies as st

from toposeat.model.quantity import Quantity, Source, nominal
from toposeat.model.topology import Device, Link, LinkKind, PathClass, Route, Topology, Vendor
from toposeat.model.traffic import (
    HISTOGRAM_BUCKETS,
    CollectiveEvent,
    Communicator,
    DeviceUse,
    Exchange,
    GroupLoad,
    MemorySpace,
    PairTable,
    Phase,
    RankInfo,
    TimeKind,
    TimeShare,
    Traffic,
    TrafficKind,
)


def pair_topology():
    """Two devices and one measured link."""
    link = Link(
        id="l0",
        kind=LinkKind.NVLINK,
        ends=("gpu0", "gpu1"),
        forward_bytes_per_s=Quantity(24e9, Source.MEASURED),
        backward_bytes_per_s=nominal(25e9),
        latency_s=nominal(2e-6),
    )
    devices = tuple(
        Device(id=f"gpu{i}", index=i, vendor=Vendor.NVIDIA, pci_bus_id=f"0000:0{i}:00.0")
        for i in range(2)
    )
    routes = tuple(
        Route(source=a, target=b, links=("l0",), path_class=PathClass.NVL)
        for a, b in (("gpu0", "gpu1"), ("gpu1", "gpu0"))
    )
    return Topology(name="pair", origin="test", devices=devices, links=(link,), routes=routes)


counts = st.integers(0, 2**50)


@st.composite
def pair_tables(draw, ranks):
    size = draw(st.integers(0, 12))
    ranks_list = st.lists(st.integers(0, ranks - 1), min_size=size, max_size=size)
    numbers = st.lists(counts, min_size=size, max_size=size)
    return PairTable.from_pairs(draw(ranks_list), draw(ranks_list), draw(numbers), draw(numbers))


kinds, spaces = st.sampled_from(list(TrafficKind)), st.sampled_from(list(MemorySpace))
text = st.text(st.characters(codec="utf-8", exclude_characters="\x00"), max_size=20)
seconds = st.floats(0, 1e6)


@st.composite
def table_sets(draw, ranks):
    keys = draw(st.sets(st.tuples(kinds, spaces)))
    return {key: table for key in keys if len(table := draw(pair_tables(ranks))) > 0}


@st.composite
def rank_infos(draw, rank):
    shares = draw(st.sets(st.tuples(st.sampled_from(list(TimeKind)), spaces), max_size=4))
    devices = st.builds(
        DeviceUse,
        pci_bus_id=st.none() | text,
        ordinal=st.none() | st.integers(0, 7),
        bytes=counts,
    )
    return RankInfo(
        rank=rank,
        host=draw(text),
        pid=rank,
        finalized=draw(st.booleans()),
        wall_s=draw(seconds),
        device_ordinal=draw(st.none() | st.integers(0, 7)),
        local_rank=draw(st.none() | st.integers(0, 7)),
        time=tuple(
            TimeShare(kind=kind, space=space, seconds=draw(seconds), calls=draw(counts))
            for kind, space in sorted(shares)
        ),
        devices=tuple(draw(st.lists(devices, max_size=3))),
    )


@st.composite
def phases(draw, index, ranks):
    begin_s = draw(seconds)
    return Phase(
        index=index,
        label=draw(text),
        begin_s=begin_s,
        end_s=begin_s + draw(seconds),
        tables=draw(table_sets(ranks)),
        mpi_s=draw(seconds),
        active_s=draw(seconds),
    )


@st.composite
def traffics(draw):
    ranks = draw(st.integers(1, 6))
    keys = draw(
        st.sets(st.tuples(st.sampled_from(list(TrafficKind)), st.sampled_from(list(MemorySpace))))
    )
    histograms = {}
    for key in keys:
        counts_of_bucket = np.zeros(HISTOGRAM_BUCKETS, dtype=np.int64)
        counts_of_bucket[draw(st.integers(0, HISTOGRAM_BUCKETS - 1))] = draw(st.integers(1, 2**40))
        histograms[key] = counts_of_bucket
    return Traffic(
        ranks=ranks,
        origin=draw(text),
        tables={key: table for key in keys if len(table := draw(pair_tables(ranks))) > 0},
        histograms=histograms,
        communicators=(Communicator(id=0, ranks=tuple(range(ranks)), name=draw(text)),),
        collectives=(
            CollectiveEvent(
                communicator=0,
                operation="allreduce",
                rank=0,
                root=-1,
                space=MemorySpace.DEVICE,
                bytes=draw(counts),
                calls=draw(st.integers(1, 9)),
                algorithm=draw(text),
                element=draw(st.integers(0, 64)),
            ),
        ),
        groups=tuple(
            GroupLoad(
                communicator=0,
                library=draw(text),
                exchange=draw(st.sampled_from(list(Exchange))),
                bytes=draw(counts),
                messages=draw(counts),
            )
            for _ in range(draw(st.integers(0, 2)))
        ),
        collective_model=draw(text),
        rank_info=tuple(draw(rank_infos(r)) for r in range(ranks)),
        metadata=draw(st.dictionaries(text, text, max_size=3)),
        report=tuple(draw(st.lists(text, max_size=2))),
        phases=tuple(draw(phases(i, ranks)) for i in range(draw(st.integers(0, 2)))),
        timed=draw(st.booleans()),
    )
