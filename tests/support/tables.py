"""Tables of text beside a test: each row is a question and what is to come of it."""

import re
from ast import literal_eval


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


def literals(path):
    """All tables of a file, by name, whose rows are values of Python with commas between them."""
    found = {}
    for line in path.read_text().splitlines():
        if line.startswith("== "):
            rows = found[line[3:]] = []
        elif line and not line.startswith("#"):
            rows.append(literal_eval(f"({line})"))
    return found
