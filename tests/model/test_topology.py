import pytest

from toposeat.model.topology import canonical_pci


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0000:3B:00.0", "0000:3b:00.0"),
        ("00000000:3B:00.0", "0000:3b:00.0"),
        ("3b:00.0", "0000:3b:00.0"),
        (" 0008:06:00.0\n", "0008:06:00.0"),
        ("00010000:01:00.0", "10000:01:00.0"),
    ],
)
def test_one_spelling_of_a_pci_bus_id(text, expected):
    assert canonical_pci(text) == expected


@pytest.mark.parametrize("text", ["", "gpu0", "0000:3b:00", "0000:3b:00.8", "0000:3g:00.0"])
def test_other_text_is_no_pci_bus_id(text):
    with pytest.raises(ValueError, match="not a PCI bus id"):
        canonical_pci(text)
