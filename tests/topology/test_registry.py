"""The words of a registry decide what is imported, never what a file is."""

import pytest

from toposeat.errors import InputError
from toposeat.topology.formats import FORMATS
from toposeat.topology.readers.file_text import read_file


@pytest.fixture(scope="module")
def texts(shared_dir):
    """Every recorded file."""
    found = []
    for path in sorted(path for path in (shared_dir / "machines").rglob("*") if path.is_file()):
        try:
            found.append(read_file(path))
        except InputError:  # an archive
            continue
    return found


@pytest.mark.parametrize("of", [of for of in FORMATS if of.closer], ids=lambda of: of.name)
def test_words_hide_no_file_from_its_reader(of, texts):
    assert len(texts) > 100
    for file in texts:
        assert of.looks_like(file) == of.function("looks_like")(file), file.path
