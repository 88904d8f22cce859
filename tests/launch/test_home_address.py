"""Ports and addresses of this host to which the nodes of a job connect."""

import socket

import pytest

from tests.support.processes import executable
from toposeat.errors import ToposeatError
from toposeat.launch.home import Home
from toposeat.launch.home_wire import own_addresses
from toposeat.launch.launchers import slurm


def test_ports_that_are_open(tmp_path, monkeypatch):
    with socket.create_server(("", 0)) as taken:
        port = taken.getsockname()[1]
        monkeypatch.setenv("TOPOSEAT_PORTS", f"{port}-{min(port + 40, 65535)}")
        with Home(tmp_path) as home:
            assert port <= int(home.words.partition(":")[0]) <= port + 40
        monkeypatch.setenv("TOPOSEAT_PORTS", f"127.0.0.1:{port}-{min(port + 40, 65535)}")
        with Home(tmp_path) as home:
            assert home.words.endswith(":127.0.0.1")
        monkeypatch.setenv("TOPOSEAT_PORTS", f"{port}-{port}")
        with pytest.raises(OSError, match="in use"), Home(tmp_path):
            pass
    for wrong in ("60001", "2-1", "1-70000", "a-b", "node1:1-2"):
        monkeypatch.setenv("TOPOSEAT_PORTS", wrong)
        with pytest.raises(ToposeatError, match=f"TOPOSEAT_PORTS is '{wrong}'"), Home(tmp_path):
            pass


def test_slurm_says_which_ports_its_firewall_lets_through(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    scontrol = tmp_path / "scontrol"
    with socket.create_server(("", 0)) as taken:
        port = taken.getsockname()[1]
        executable(scontrol, f"#!/bin/sh\necho 'SrunPortRange           = {port}-{port}'\n")
        slurm.configured.cache_clear()
        with pytest.raises(OSError, match="in use"), Home(tmp_path):
            pass
    scontrol.write_text("#!/bin/sh\necho 'SrunPortRange           = 0-0'\n")
    slurm.configured.cache_clear()
    with Home(tmp_path) as home:
        assert home.words
    slurm.configured.cache_clear()


def test_addresses_are_numbers_that_can_be_bound():
    found = own_addresses(["localhost", "no-such-host.invalid"])
    assert found
    for address in found:
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        with socket.socket(family) as one:
            one.bind((address, 0))
