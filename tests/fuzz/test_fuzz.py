"""Every reader takes a damaged input, or refuses it in one line with a hint."""

import os
import shutil
import warnings
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fuzz.job_targets import REMOVE, job_targets
from tests.fuzz.machine_targets import machine_targets
from tests.fuzz.network_targets import network_targets, string_targets
from tests.fuzz.tree_target import TREE_TARGETS, tree_targets
from tests.topology.readers.recorded import FORMATS
from toposeat.errors import ToposeatError

LARGEST_SEED = 24_000
OTHERS = {
    target.name: target
    for target in (*network_targets(LARGEST_SEED), *string_targets(), *job_targets())
}
OF_MACHINES = [*(each.name for each in FORMATS), *TREE_TARGETS]
EXAMPLES = 500 if os.environ.get("TOPOSEAT_TEST_RANDOM") else 40


@cache
def targets():
    """By name; every machine of the catalogue is read for them: not where tests are only listed."""
    of_machines = (*machine_targets(LARGEST_SEED), *tree_targets())
    return {**{target.name: target for target in of_machines}, **OTHERS}


@pytest.fixture(scope="module", autouse=True)
def _no_folder_is_left():
    yield
    for folder in REMOVE:
        shutil.rmtree(folder, ignore_errors=True)


def is_read(target, seed):
    """Or it is refused as users are meant to see it; whatever else is raised is a fault."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # a library's warning on a user's screen is ours
        try:
            target.read(*seed)
        except ToposeatError as error:
            assert error.hint, str(error)
            assert "\n" not in f"{error}{error.hint}"
            return False
    return True


def test_every_registered_format_has_seeds_of_our_own():
    assert set(targets()) == {*OF_MACHINES, *OTHERS}
    assert all(target.seeds for target in targets().values())


@pytest.mark.parametrize("name", [*OF_MACHINES, *OTHERS])
def test_seeds_are_read(name):
    read = [is_read(targets()[name], seed) for seed in targets()[name].seeds]
    assert sum(read) >= 0.75 * len(read)


@pytest.mark.parametrize("name", [*OF_MACHINES, *OTHERS])
@settings(max_examples=EXAMPLES)
@given(source=st.randoms(use_true_random=False))
def test_a_damaged_input_is_read_or_refused(name, source):
    is_read(targets()[name], targets()[name].one(source))
