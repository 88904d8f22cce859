"""Machines of the catalogue as a parameter: five that differ most in every run, all in depth."""

import pytest

from toposeat.topology import catalogue_names

FEW = ("k80-16", "dgx-1v", "dgx-a100", "mi250x-8", "rtx-4-crossed-bridges")
CATALOGUE = [
    pytest.param(name, marks=() if name in FEW else pytest.mark.deep) for name in catalogue_names()
]
