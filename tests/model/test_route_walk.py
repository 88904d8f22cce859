"""Routes are checked from one to the next longer one; a plain walk of each is the oracle."""

from hypothesis import given
from hypothesis import strategies as st

from toposeat.model.route import Route, first_fault

ENDS = {"ab": ("a", "b"), "bc": ("b", "c"), "cd": ("c", "d"), "da": ("d", "a"), "ac": ("a", "c")}
KNOWN = frozenset("abcd")


def is_walk(route):
    """Link by link, no link twice; over a staged route no link twice in one direction."""
    here, walked = route.source, []
    for link in route.links:
        if link not in ENDS or here not in ENDS[link]:
            return False
        walked.append((link, here))
        (here,) = set(ENDS[link]) - {here}
    used = walked if route.staged else list(route.links)
    return {route.source, here} <= KNOWN and here == route.target and len(set(used)) == len(used)


@st.composite
def routes(draw):
    """Mostly walks, of any length; now and then another end, or a link from nowhere."""
    source = here = draw(st.sampled_from("abcd"))
    links = []
    for _ in range(draw(st.integers(0, 5))):
        link = draw(st.sampled_from([each for each in ENDS if here in ENDS[each]]))
        (here,) = set(ENDS[link]) - {here}
        links.append(link)
    if draw(st.integers(0, 9)) == 0:
        links.insert(draw(st.integers(0, len(links))), draw(st.sampled_from([*ENDS, "zz"])))
    others = [each for each in "abcde" if each != source]
    target = here if here != source and draw(st.integers(0, 9)) else draw(st.sampled_from(others))
    return Route(source=source, target=target, links=tuple(links), staged=draw(st.booleans()))


@given(st.lists(routes(), max_size=12))
def test_the_first_route_that_is_no_walk_is_found(found):
    wrong = [number for number, route in enumerate(found) if not is_walk(route)]
    fault = first_fault(found, ENDS, KNOWN)
    assert (fault and fault[0]) == (wrong[0] if wrong else None)
