"""Tables of text beside a test: each row is a question and what is to come of it."""

import re


def rows(path, table):
    """The rows below `== TABLE`: cells with two blanks or more between them, `""` an empty one.

    Lines that begin with `#` are remarks.
    """
    _, _, rest = path.read_text().partition(f"== {table}\n")
    lines = rest.partition("\n== ")[0].splitlines()
    found = [
        tuple("" if cell == '""' else cell for cell in re.split("  +", line.strip()))
        for line in lines
        if line and not line.startswith("#")
    ]
    assert found, f"no table {table} in {path}"
    return found


def variables(text):
    """Those of a cell, `A=1 B=2`; none of `-`."""
    return {} if text == "-" else dict(word.split("=", 1) for word in text.split())
