"""Processes that are found by the ports that they listen on."""

import os
import socket
from collections import Counter
from pathlib import Path

import pytest
from coldnotify_load.loaded_processes import LoadedProcesses, by_number, is_here, role_of
from coldnotify_testkit.waiting import wait_for


def test_whoever_listens_is_found_with_its_connections() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        there = LoadedProcesses([("127.0.0.1", port)])
        assert there.gateways == [os.getpid()]
        assert there.roles()["gateway"] == [os.getpid()]
        assert there.connections() == {os.getpid(): 0}
        with socket.create_connection(("127.0.0.1", port)) as one:
            accepted, _ = server.accept()
            with accepted:
                # The kernel's list may lack one while others of the machine come and go.
                wait_for(lambda: there.connections() == {os.getpid(): 1}, "it is counted")
                assert one.getpeername()[1] == port


def test_a_file_that_is_closed_meanwhile_hides_no_other_one(monkeypatch: pytest.MonkeyPatch) -> None:
    readlink = os.readlink

    def gone_first(path: Path) -> str:
        if path.name == "0":
            raise FileNotFoundError
        return readlink(path)

    with socket.create_server(("127.0.0.1", 0)) as server:
        monkeypatch.setattr(os, "readlink", gone_first)
        assert LoadedProcesses([("127.0.0.1", server.getsockname()[1])]).gateways == [os.getpid()]


def test_another_machine_shows_nothing() -> None:
    assert not is_here("192.0.2.1")
    there = LoadedProcesses([("192.0.2.1", 55000)])
    assert (there.gateways, there.roles(), there.connections()) == ([], {}, {})


@pytest.mark.parametrize(
    ("words", "role"),
    [
        (["/usr/bin/python3", "-m", "coldnotify_cli.main", "matcher", "--kafka=x"], "matcher"),
        (["/usr/bin/python3", "/opt/bin/coldnotify", "up", "--gateways", "3"], "up"),
        (["/opt/jdk/bin/java", "-Xmx256m", "kafka.Kafka"], "kafka"),
        (["sleep", "1"], "other"),
        ([], "other"),
    ],
)
def test_a_role_is_in_the_command_line(words: list[str], role: str) -> None:
    assert role_of(words) == role


def test_addresses_are_said_as_they_are_typed() -> None:
    assert by_number(Counter({("127.0.0.1", 2): 3, ("127.0.0.1", 1): 4})) == {"127.0.0.1:1": 4, "127.0.0.1:2": 3}
