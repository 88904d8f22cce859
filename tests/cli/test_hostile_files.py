"""Files that are valid JSON but say absurd things must not bring a verb down."""

import json

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from toposeat.cli.main import main
from toposeat.topology import read_topology, topology_document

ABSURD = st.one_of(
    st.integers(-(2**63), 2**63),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=8),
    st.none(),
    st.booleans(),
    st.just([]),
    st.just({}),
    st.sampled_from(["gpu0", "gpu1", "0-3", "3-0", "0000:01:00.0", "SYS", "nominal", 0, 1e-300]),
)


def leaves(node, path=()):
    """Paths of all values."""
    if isinstance(node, dict):
        return [p for key, item in node.items() for p in leaves(item, (*path, key))] or [path]
    if isinstance(node, list):
        return [p for at, item in enumerate(node) for p in leaves(item, (*path, at))] or [path]
    return [path]


def put(document, path, value):
    node = document
    for step in path[:-1]:
        node = node[step]
    node[path[-1]] = value


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(data=st.data())
def test_absurd_topologies_are_refused_or_mapped(tmp_path, capsys, data):
    document = json.loads(
        json.dumps(
            topology_document(read_topology(data.draw(st.sampled_from(["dgx-1v", "power9-4"]))))
        )
    )
    paths = [path for path in leaves(document) if path and path[0] not in {"schema", "sources"}]
    for _ in range(data.draw(st.integers(1, 3))):
        put(document, data.draw(st.sampled_from(paths)), data.draw(ABSURD))
    source, place = tmp_path / "machine.json", tmp_path / "app.place"
    source.write_text(json.dumps(document))
    page = tmp_path / "page.html"
    argv = ["map", "ring:4", "-t", str(source), "-o", str(place), "-f", "--budget", "0.1"]
    code = main([*argv, "--html", str(page)])
    err = capsys.readouterr().err
    assert code in (0, 1, 2)
    if code:
        assert err.startswith("error: ")
        assert len(err.splitlines()) == 2, err
