"""Files of cases, `cases/*.txt`: outputs of tools, and what `test_cases.py` shows of them.

Lines that begin with `%%%` cut a file into blocks:

    %%% case TITLE          begins a case; what follows the line is a remark
    %%% file NAME           a file of it, with its text
    %%% of CASE             made from another case of the file; without it, and without files of its
                            own, from the last one that has files
    %%% replace 'A', 'B'    in all files of the case that it is made from; `once`: the first time
    %%% about WORDS         of what it shows only the lines that begin with a match of this regular
                            expression; without it, as of the case that it is made from
    %%% shows               what each file tells and the machine that they make, or the refusal; of
                            a case that is made from another one only what is other than there
                            (`+`, `-`), unless all that it is about is less
"""

import ast
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

FOLDER = Path(__file__).with_name("cases")


@dataclass
class Case:
    """The texts of its files by their names, and the lines that it is expected to show."""

    title: str = ""
    files: dict[str, str] = field(default_factory=dict)
    base: "Case | None" = None
    about: str = ""
    shows: str = ""


def blocks(name):
    """Word, rest of the line and text below of each block of a file of cases."""
    text = (FOLDER / f"{name}.txt").read_text(encoding="utf-8").removesuffix("\n")
    for block in f"\n{text}".split("\n%%% ")[1:]:
        line, _, below = block.partition("\n")
        yield (*(line.split(" ", 1) + [""])[:2], below)


@cache
def cases(name):
    """The cases of a file by their titles."""
    found, last = {}, Case()
    for word, rest, below in blocks(name):
        if word == "case":
            assert rest not in found, rest
            case = found[rest] = Case(rest)
            continue
        if word == "file":
            case.files[rest] = f"{below}\n" if below else ""
            last = case if case.base is None else last
            continue
        if word == "of" or not case.files:
            case.base = found[rest] if word == "of" else last
            case.files, case.about = dict(case.base.files), case.base.about
        if word in ("shows", "about"):
            setattr(case, word, below if word == "shows" else rest)
        elif word != "of":
            old, new = ast.literal_eval(rest)
            assert any(old in text for text in case.files.values()), rest
            for file, text in case.files.items():
                case.files[file] = text.replace(old, new, {"replace": -1, "once": 1}[word])
    return found


def texts_of(name, title):
    """The texts of a case by the names of its files."""
    return cases(name)[title].files
