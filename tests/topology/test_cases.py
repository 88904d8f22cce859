"""Outputs of tools, and all that is read from them: `cases/*.txt`; their form: `case_files.py`.

    TOPOSEAT_UPDATE_GOLDEN=1 pytest tests/topology/test_cases.py    renews what they show: look

A file holds cases of one kind of source; of networks, or of what live discovery finds of machines
in the words of `live/machine_text.py`, where its name says so.
"""

import difflib
import os
import re
import tempfile
from functools import cache
from pathlib import Path

import msgspec
import numpy as np
import pytest

from tests.topology.case_files import FOLDER, blocks, cases
from tests.topology.live.machine_text import discovered
from tests.topology.readers.recorded import is_whole, parts_of
from toposeat.errors import InputError, UnavailableError
from toposeat.model.quantity import Quantity, Source
from toposeat.topology import findings_of, is_network, read_network, read_topologies

UPDATE = os.environ.get("TOPOSEAT_UPDATE_GOLDEN")


fields_of = cache(msgspec.structs.fields)


def words(value):
    """A value in a few words; numbers say where they come from, but for nominal ones."""
    if isinstance(value, Quantity):
        source = "" if value.source is Source.NOMINAL else f" {value.source}"
        return f"{value.value:.5g}{source}"
    if isinstance(value, float):
        return f"{value:.5g}"
    if isinstance(value, msgspec.Struct):
        return f"({members(value)})"
    if isinstance(value, tuple | list):
        return "-".join(map(words, value))
    return str(value)


def members(record, *without):
    """All members of a record that are not as they are by default."""
    fields = [each for each in fields_of(type(record)) if each.name not in without]
    told = [(each.name, getattr(record, each.name)) for each in fields]
    return ", ".join(
        f"{name} {words(value)}"
        for (name, value), each in zip(told, fields, strict=True)
        if value != each.default and value not in ("", None, ())
    )


def of_pairs(kind, records, *without):
    """Ordered pairs by what is told of them; `a=b` stands for both ways."""
    by_text = {}
    for each in records:
        text = members(each, "source", "target", "told_by", *without)
        by_text.setdefault(text, []).append((each.source, each.target))
    for text, pairs in by_text.items():
        named = (
            f"{a}={b}" if (b, a) in pairs else f"{a}>{b}"
            for a, b in pairs
            if (b, a) not in pairs or pairs.index((a, b)) < pairs.index((b, a))
        )
        yield f"{kind} {text}: {' '.join(named)}"


def plain(link):
    """Members that need no word: what the id says, and a way back that is as the way there."""
    if link.id == f"{link.kind}:{'-'.join(link.ends)}":
        yield from ("kind", "ends")
    if link.backward_bytes_per_s == link.forward_bytes_per_s:
        yield "backward_bytes_per_s"


def shown(machine):
    """Everything that a source tells, or that a whole machine is, line by line."""
    yield f"origin {machine.origin}, hosts {' '.join(machine.hosts)}"
    yield f"tells {', '.join(machine.tells)}"
    yield from (f"{key}: {value}" for key, value in sorted(machine.metadata.items()))
    for kind in ("devices", "nics", "components", "links", "host_copies"):
        for each in getattr(machine, kind):
            yield f"{kind}: {members(each, 'told_by', *(plain(each) if kind == 'links' else ()))}"
    for numbers in machine.numbers:
        yield f"numbers: {members(numbers, 'values', 'told_by')}"
        yield from ("  " + " ".join(f"{v:.5g}" for v in row) for row in np.asarray(numbers.values))
    for device in dict.fromkeys(lane.device for lane in machine.lanes):
        lanes = [members(x, "device", "told_by") for x in machine.lanes if x.device == device]
        yield f"lanes of {device}: {', '.join(lanes)}"
    yield from of_pairs("pair", machine.pairs)
    yield from of_pairs("route", machine.routes, "links")
    for route in machine.routes:
        back = machine.route_of_pair.get((route.target, route.source))
        if back is None or route.links != back.links[::-1]:
            yield f"way {route.source}>{route.target}: {' '.join(route.links)}"
        elif route.source < route.target:
            yield f"way {route.source}={route.target}: {' '.join(route.links)}"
    yield from (f"hidden {each}" for each in machine.hidden)
    yield from (f"premise {each.what}" for each in machine.premises)
    yield from (f"report {line}" for line in machine.report)


def shown_whole(machine):
    """The same of a whole machine, and what is wrong with it."""
    machine.check()
    yield from shown(machine)
    for each in findings_of(machine):
        if each.code != "reader":
            yield f"finding {each.code} {each.severity}: {each.subject}: {each.detail}"


def shown_network(network):
    """Everything that a network is."""
    level = "{0.name}: {0.group_of_host}".format
    parts = members(network, "switches", "hosts", "links", "levels", "domain", "report")
    yield f"network {parts}"
    yield f"switches {' '.join(network.switches)}"
    yield from (f"host {host.name}: {words(host.ports)}" for host in network.hosts)
    yield from (f"link {members(link)}" for link in network.links)
    yield from (f"level {level(each)}" for each in network.levels)
    yield from (f"domain {level(each)}" for each in network.own_fabrics)
    yield from (f"report {line}" for line in network.report)


def everything(case, folder, name):
    """What a case shows."""
    paths = [folder / file for file in case.files]
    lines = []
    try:
        if name.startswith("live"):
            return [*shown_whole(discovered(folder, "".join(case.files.values())))]
        for path, text in zip(paths, case.files.values(), strict=True):
            path.write_text(text, encoding="utf-8", newline="")
        if name.startswith("network"):
            network = read_network(paths[0])
            assert is_network(str(paths[0]))
            return [*shown_network(network)]
        tools = [path for path in paths if path.suffix != ".toml"]  # not a machine file
        parts = [part for path in tools for part in parts_of(path)]
        for part in parts:
            lines += [] if is_whole(part) else ["", *shown(part)]
        lines += ["", "the machine", *shown_whole(read_topologies(paths))]
    except (InputError, UnavailableError) as error:
        assert error.hint
        lines += ["", *f"refused {error}\nhint {error.hint}".replace(f"{folder}/", "").split("\n")]
    return lines


def about(case, lines):
    """The lines that the case is about, and any refusal."""
    wanted = re.compile(f"refused|hint|{case.about}" if case.about else "")
    return [line for line in lines if wanted.match(line)]


@cache
def everything_of_base(name, title):
    """The same of a case that others are made from."""
    with tempfile.TemporaryDirectory() as folder:
        return everything(cases(name)[title], Path(folder), name)


EVERY = [(path.stem, title) for path in sorted(FOLDER.glob("*.txt")) for title in cases(path.stem)]


@pytest.mark.parametrize(("name", "title"), EVERY, ids=lambda each: each[:50])
def test_what_is_read(name, title, tmp_path):
    case = cases(name)[title]
    lines = told = about(case, everything(case, tmp_path, name))
    if case.base is not None:
        before = about(case, everything_of_base(name, case.base.title))
        changes = difflib.unified_diff(before, lines, n=0, lineterm="")
        lines = [line for line in changes if not line.startswith(("---", "+++", "@@"))]
        refused = [line for line in lines if line.startswith(("+refused", "+hint"))]
        lines = refused or (told if case.about and len(told) < len(lines) else lines)
    found = "\n".join(lines).strip("\n")
    if UPDATE:
        assert "PYTEST_XDIST_WORKER" not in os.environ, "one process writes"
        write(name, title, found)
    assert found.splitlines() == (found if UPDATE else case.shows).strip("\n").splitlines()


def write(name, title, found):
    """The file again, with what one of its cases shows now."""
    text, case = "", ""
    for word, rest, below in blocks(name):
        case = rest if word == "case" else case
        body = found if (word, case) == ("shows", title) else below
        text += f"%%% {word} {rest}".rstrip() + "\n" + (f"{body}\n" if body else "")
    (FOLDER / f"{name}.txt").write_text(text, encoding="utf-8")
