"""calls.tsv against the headers of real MPIs: nothing forgotten, parameters as declared."""

import re

import pytest

from tests.support.entries import ALL_CALLS, TABLE, declarations, parameters_of, wrappers
from tests.support.mpi import find_mpi

pytestmark = pytest.mark.each_abi

_HANDLES = [
    "Comm",
    "Datatype",
    "Op",
    "Win",
    "Info",
    "Group",
    "Request",
    "Message",
    "File",
    "Errhandler",
    "Session",
]
_LARGE = {"MPI_Count", "MPI_Offset", "MPI_Aint", "abi_count", "intptr_t"}


def kind_of(declared):
    """How a parameter is passed: int, wide, handle or pointer."""
    declared = re.sub(r"\bconst\b", "", declared).strip()
    if "*" in declared or "[" in declared:
        return "pointer"
    word = declared.split()[0]
    if word in _LARGE:
        return "wide"
    if word in {"tps_word", *(f"MPI_{handle}" for handle in _HANDLES)}:
        return "handle"
    return {"int": "int", "char": "char"}[word]


def kinds_of_declaration(parameters):
    if parameters.strip() in ("", "void"):
        return []
    return [kind_of(each) for each in parameters.split(",")]


def kinds_of_wrapper(wrapper):
    return [kind_of(parameter.declaration) for parameter in parameters_of(wrapper)]


@pytest.mark.mpi
def test_parameters_are_as_declared(mpi):
    declared = declarations(mpi)
    compared = 0
    for wrapper in wrappers(TABLE):
        if wrapper.name in declared:
            compared += 1
            assert kinds_of_wrapper(wrapper) == kinds_of_declaration(declared[wrapper.name]), (
                wrapper.name
            )
    assert compared > 150  # MPI 3.1 has that many of the table


@pytest.mark.mpi
def test_every_call_of_mpi_5_is_wrapped_or_has_a_reason():
    mpi = find_mpi("wheel-mpich-abi")
    if isinstance(mpi, str):
        pytest.skip(mpi)
    wrapped = ALL_CALLS
    patterns = [line[3:].split("\t")[0] for line in TABLE.splitlines() if line.startswith("#~ ")]
    others = {name for name in declarations(mpi) if name not in wrapped}
    assert wrapped <= set(declarations(mpi))
    used = set()
    for name in others:
        fitting = [p for p in patterns if re.fullmatch(p, name.removeprefix("MPI_"))]
        assert fitting, f"{name} is neither wrapped nor listed at the end of calls.tsv"
        used.update(fitting)
    unused = set(patterns) - used - {p for p in patterns if p.endswith("|T)_.*")}
    assert unused == set()
    for name in wrapped:
        assert not any(re.fullmatch(p, name.removeprefix("MPI_")) for p in patterns), name
