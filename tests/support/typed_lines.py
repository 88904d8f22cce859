"""The lines of `tests/cli/typed_lines.txt`."""

from pathlib import Path

LIST = Path(__file__).parents[1] / "cli" / "typed_lines.txt"


def lines(wanted):
    """Verb, line, and what is expected of it, for the lines behind one verb; `-` is none."""
    verb, line = "", ""
    for text in LIST.read_text().splitlines():
        if text.startswith("VERB "):
            verb = text.split()[1]
        elif text.startswith("\t"):
            if verb == wanted:
                yield verb, line, text.strip()
        elif text and not text.startswith("#"):
            line = text
