"""The reader of ELF files, against pyelftools, which reads all of them."""

import sys
from pathlib import Path

import pytest
from elftools.elf.dynamic import DynamicSection
from elftools.elf.elffile import ELFFile
from elftools.elf.sections import SymbolTableSection

from toposeat.installed import native_path
from toposeat.profile.recording.elf import read_elf

FILES = (
    Path(sys.executable),
    Path("/bin/sh"),
    native_path("lib/libtoposeat_mpich.so"),
    native_path("lib/libtoposeat_ompi.so"),
)
SYMBOLS = ("MPI_Init", "PMPI_Init", "main", "malloc", "Py_BytesMain", "Init", "")


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_libraries_and_symbols_are_those_that_another_reader_finds(path):
    with path.open("rb") as stream:
        sections = list(ELFFile(stream).iter_sections())
        tags = [
            tag
            for each in sections
            if isinstance(each, DynamicSection)
            for tag in each.iter_tags()
            if tag.entry.d_tag == "DT_NEEDED"
        ]
        needed = tuple(tag.needed for tag in tags)
        tables = [each for each in sections if isinstance(each, SymbolTableSection)]
        defined = {
            table.name: {s.name for s in table.iter_symbols() if s["st_shndx"] != "SHN_UNDEF"}
            for table in tables
        }
    found = read_elf(path)
    assert found is not None
    assert found.needed == needed
    assert not found.defines
    for symbol in filter(None, SYMBOLS):
        own = read_elf(path, (symbol,))
        assert own is not None
        assert own.defines == any(symbol in names for names in defined.values()), symbol


def test_a_file_that_is_cut_off_is_none(tmp_path):
    whole = FILES[2].read_bytes()
    for length in (0, 3, 16, 40, 64, 1000, len(whole) // 2, len(whole) - 1):
        short = tmp_path / "short"
        short.write_bytes(whole[:length])
        assert read_elf(short, ("MPI_Init",)) is None


def test_bytes_that_are_wrong_are_no_error_of_ours(tmp_path):
    """Each byte of the header, and of the first headers of sections, with other values."""
    whole = FILES[2].read_bytes()
    first = int.from_bytes(whole[40:48], "little")
    for at in (*range(64), *range(first, first + 256, 3)):
        for value in (0, 1, 0x7F, 0xFF):
            odd = bytearray(whole)
            odd[at] = value
            file = tmp_path / "odd"
            file.write_bytes(odd)
            read_elf(file, ("MPI_Init",))
