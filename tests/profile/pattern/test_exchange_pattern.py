import pytest

from toposeat.errors import UsageError
from toposeat.profile import EXCHANGE_FORMS, grid_exchange, pattern_traffic


@pytest.mark.parametrize(
    "text",
    [
        "stencil2d:4x4",
        "stencil3d:2x2x4,diagonals,wrap,weight=2.5",
        "halo:2x2x4",
        "halo:2x2x2x2,layers=2",
        "alltoall:4x2x2",
        "ring:5",
    ],
)
def test_it_says_the_same_as_the_pattern(text):
    exchange = grid_exchange(text + ",bytes=4KiB")
    assert exchange.bytes == 4096
    whole = pattern_traffic(text + ",bytes=4096")
    again = pattern_traffic(exchange.text(4096))
    assert exchange.ranks == whole.ranks == again.ranks
    assert (whole.table().dense_bytes(whole.ranks) == again.table().dense_bytes(again.ranks)).all()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("llm:tp=2", "no microbenchmark"),
        ("random:4", "no microbenchmark"),
        ("stencil2d:4x4,messages=2", "messages"),
        ("alltoall:2x2x2x2x2x2x2", "dimensions"),
        ("halo:4x4,layers=0", "layers"),
        ("ring:0", "ranks"),
        ("", "no microbenchmark"),
    ],
)
def test_refused(text, words):
    with pytest.raises(UsageError, match=words) as error:
        grid_exchange(text)
    assert any(form in error.value.hint for form in EXCHANGE_FORMS)


def test_a_halo_is_a_periodic_stencil_of_so_many_layers():
    halo = pattern_traffic("halo:2x2x4,layers=4,bytes=100")
    stencil = pattern_traffic("stencil3d:2x2x4,wrap,bytes=400")
    assert (halo.table().dense_bytes(16) == stencil.table().dense_bytes(16)).all()
    assert (halo.table().dense_messages(16) == stencil.table().dense_messages(16)).all()
