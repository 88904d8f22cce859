"""Hostlists: Slurm's brackets, PBS and LSF forms, bounds, and back."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toposeat.errors import InputError
from toposeat.model.hostlist import compress_hostlist, expand_hostlist, expand_scheduler_list
from toposeat.model.network import MAX_HOSTS


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("n1", "n1"),
        ("n[1-3]", "n1 n2 n3"),
        ("n[001-003,010]", "n001 n002 n003 n010"),
        ("n[9-11]", "n9 n10 n11"),
        ("n[09-11]", "n09 n10 n11"),
        ("n[098-101]", "n098 n099 n100 n101"),
        ("circe-n[001-002],n[019-020]", "circe-n001 circe-n002 n019 n020"),
        ("rack[1-2]n[01-02]", "rack1n01 rack1n02 rack2n01 rack2n02"),
        ("gpu[1-2]-ib0", "gpu1-ib0 gpu2-ib0"),
        ("[1101-1102]", "1101 1102"),
        ("a,b c\nd", "a b c d"),
        ("n[1, 3]", "n1 n3"),
        ("node.example.org,n2", "node.example.org n2"),
        ("", ""),
    ],
)
def test_slurm_lists(text, names):
    assert expand_hostlist(text) == tuple(names.split())


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("n1/0*8+n2/0*8", "n1 n2"),  # PBS Pro: exec_host
        ("n1/0+n1/1+n2/0", "n1 n2"),  # Torque
        ("n1/0-3+n2/0,4", "n1 n2"),
        ("n1 8 n2 8", "n1 n2"),  # LSF: LSB_MCPU_HOSTS
        ("n1 n1 n2", "n1 n2"),  # LSF: LSB_HOSTS
        ("n[1-2],login1", "n1 n2 login1"),
    ],
)
def test_other_schedulers(text, names):
    assert expand_scheduler_list(text) == tuple(names.split())


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ("n[1-3", "do not match"),
        ("n1-3]", "do not match"),
        ("n[[1]]", "do not match"),
        ("n[3-1]", "no rising range"),
        ("n[a-b]", "no number and no rising range"),
        ("n[]", "no number and no rising range"),
        ("n[1-999999999]", "more hosts"),
        ("n[1-999999999999999999]", "more hosts"),
        ("a[1-9999]b[1-9999]c[1-9999]d[1-9999]", "more hosts"),
        ("n[1-100000],m[1-100000]", "more hosts"),
        ("n{1}", "no name of a host"),
        ("-n1", "no name of a host"),
        ("n" * 300, "no name of a host"),
    ],
)
def test_what_is_no_list_is_refused_at_once(text, cause):
    with pytest.raises(InputError, match=re.escape(cause)) as error:
        expand_hostlist(text)
    assert error.value.hint
    assert len(error.value.message) < 200


@pytest.mark.parametrize("text", ["a+b,c", "n1/0a,b,c", "n1/0+", "n1/0+-x/1", "n1/;rm"])
def test_what_is_no_host_of_pbs_is_refused(text):
    """Found by fuzzing: hosts with commas in their names, which no list could hold."""
    with pytest.raises(InputError, match="is no host/slots"):
        expand_scheduler_list(text)


def test_as_many_hosts_as_a_network_may_have():
    assert len(expand_hostlist(f"n[1-{MAX_HOSTS}]")) == MAX_HOSTS


@pytest.mark.parametrize(
    ("names", "text"),
    [
        ("n1 n2 n3 n5", "n[1-3,5]"),
        ("n09 n10", "n[09-10]"),
        ("n9 n10", "n[9-10]"),
        ("n09 n9", "n[09,9]"),
        ("n1 m1 n2", "n1,m1,n2"),
        ("login n1 n2", "login,n[1-2]"),
        ("n2 n1", "n[2,1]"),
    ],
)
def test_compression(names, text):
    assert compress_hostlist(names.split()) == text


NAMES = st.builds(
    "{}{}{}".format,
    st.sampled_from(("n", "gpu-", "a1b")),
    st.sampled_from(("", "0", "9", "10", "09", "010", "011", "99", "100")),
    st.sampled_from(("", "-ib", ".x", "-ib0")),
)


@given(st.lists(NAMES, max_size=30))
def test_what_is_compressed_expands_to_itself(names):
    assert list(expand_hostlist(compress_hostlist(names))) == names


@given(st.text(alphabet="n0129[]-,. \n/+*", max_size=40))
def test_any_text_expands_or_is_refused(text):
    for expand in (expand_hostlist, expand_scheduler_list):
        try:
            names = expand(text)
        except InputError as error:
            assert error.message
        else:
            assert len(names) <= MAX_HOSTS
