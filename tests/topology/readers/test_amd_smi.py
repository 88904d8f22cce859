"""amd-smi topology, text and JSON alike, and rocm-smi --showtopo, as documented and recorded."""

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.topology.readers.recorded import facts_of_text


@settings(max_examples=25, deadline=None)
@given(st.permutations(range(6)), st.integers(0, 3))
def test_the_order_of_rows_and_of_tables_does_not_matter(order, first):
    """Tables may print devices in another order than the one before."""
    weight = {(i, j): 15 if (i + j) % 3 else 30 for i in range(6) for j in range(6)}

    def table(title, cell, rows):
        head = "       " + " ".join(f"GPU{i}" for i in rows)
        body = [f"GPU{i} " + " ".join(str(cell(i, j)) for j in rows) for i in rows]
        return "\n".join([f"=== {title} ===", head, *body, ""])

    parts = [
        table("Weight between two GPUs", lambda i, j: 0 if i == j else weight[i, j], order),
        table("Link Type between two GPUs", lambda i, j: "XGMI" if i != j else 0, list(range(6))),
    ]
    facts = facts_of_text("\n".join(parts[:: -1 if first % 2 else 1]))
    links = {frozenset((p.source, p.target)) for p in facts.pairs if p.bond is not None}
    assert links == {
        frozenset((f"GPU{i}", f"GPU{j}"))
        for i in range(6) for j in range(i) if weight[i, j] == 15
    }  # fmt: skip
