"""Which ports everything gets, and the ready file."""

import json
import os
import socket
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from coldnotify_cli.settings import UpSettings
from coldnotify_cli.stack import Stack, StackAddresses, write_atomically
from coldnotify_common.settings import SettingError
from coldnotify_gateway.listeners.registry import LISTENERS
from coldnotify_gateway.listeners.row import ListenerRow
from coldnotify_kafka.broker import free_ports
from coldnotify_kafka.broker.data_dir import lock
from coldnotify_kafka.errors import BrokerError, DataDirectoryInUseError, PortTakenError
from coldnotify_testkit.kafka import free_port

FREE = UpSettings(kafka_port=0, gateway_port=0, http_port=0, matcher_port=0)


def test_zero_takes_any_free_port_each_another() -> None:
    chosen = StackAddresses.choose(replace(FREE, gateways=3, matchers=3))
    ports = [chosen.kafka, *chosen.devices.values(), *(port for one in chosen.parts.values() for port in one)]
    assert len(set(ports)) == len(ports) == 12
    assert all(ports)


@pytest.mark.skipif(sys.platform != "linux", reason="reserved among processes on Linux only")
def test_a_chosen_port_is_reserved_until_it_is_listened_on() -> None:
    chosen = StackAddresses.choose(replace(FREE, kafka_nodes=3, gateways=2))
    assert chosen.kafka is not None
    kafka = range(chosen.kafka, chosen.kafka + 3)
    ports = [*kafka, *chosen.devices.values(), *(port for one in chosen.parts.values() for port in one)]
    another_process = (
        "import sys; from coldnotify_kafka.broker.free_ports import reserve; "
        "print(*[port for port in map(int, sys.argv[1:]) if reserve(port, '127.0.0.1')])"
    )
    argv = [sys.executable, "-c", another_process, *map(str, ports)]
    assert subprocess.run(argv, capture_output=True, text=True, check=True, timeout=60).stdout.split() == []


def test_a_requested_port_is_not_chosen_for_another_part(monkeypatch: pytest.MonkeyPatch) -> None:
    port = free_port()
    free_ports._release(port)
    monkeypatch.setattr(free_ports, "_FREE_PORT_MIN", port)
    monkeypatch.setattr(free_ports, "_FREE_PORT_MAX", port)
    # Kafka's is the first to be chosen.
    with pytest.raises(BrokerError, match=f"no free port between {port} and {port}"):
        StackAddresses.choose(replace(FREE, http_port=port))


@pytest.mark.parametrize("row", LISTENERS, ids=lambda row: row.name)
def test_each_listener_has_the_port_that_was_asked_for(row: ListenerRow) -> None:
    port = free_port()
    wanted: dict[str, Any] = {row.port_setting: port}
    assert StackAddresses.choose(replace(FREE, **wanted)).devices[row] == port


def is_taken(port: int) -> bool:
    """Returns true if something on this machine listens there."""
    with socket.socket() as asking:
        return asking.connect_ex(("127.0.0.1", port)) == 0


def test_listeners_are_as_far_behind_the_first_as_their_table_says() -> None:
    """A port that somebody has at that moment is passed over, so one choice of several counts."""

    def as_said() -> bool:
        chosen = StackAddresses.choose(FREE)
        first = chosen.devices[LISTENERS[0]]
        usual = [row for row in LISTENERS if row.usual_port]
        assert all(chosen.devices[row] == row.usual_port or is_taken(row.usual_port) for row in usual)
        return all(chosen.devices[row] == first + row.beside for row in LISTENERS[1:] if row not in usual)

    assert any(as_said() for _ in range(20))


def test_a_taken_port_is_named_with_its_setting() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(PortTakenError, match=rf"port {port} .*--http-port \(COLDNOTIFY_HTTP_PORT\)"):
            StackAddresses.choose(replace(FREE, http_port=port))


def test_all_taken_ports_are_named_at_once() -> None:
    with socket.create_server(("127.0.0.1", 0)) as one, socket.create_server(("127.0.0.1", 0)) as other:
        http, matcher = (taken.getsockname()[1] for taken in (one, other))
        with pytest.raises(PortTakenError) as caught:
            StackAddresses.choose(replace(FREE, http_port=http, matcher_port=matcher))
    assert [line.split(" ")[1] for line in str(caught.value).splitlines()] == [str(matcher), str(http)]


def test_a_directory_in_use_is_named_before_the_ports(tmp_path: Path) -> None:
    held = lock(tmp_path)
    try:
        with socket.create_server(("127.0.0.1", 0)) as taken:
            settings = replace(FREE, data=tmp_path, http_port=taken.getsockname()[1])
            with pytest.raises(DataDirectoryInUseError, match="ColdNotify or a broker runs there"):
                Stack(settings)
    finally:
        os.close(held)


def test_a_port_wanted_twice_is_named_with_both_settings() -> None:
    port = free_port()
    with pytest.raises(SettingError, match=rf"--http-port .*port {port} is --kafka-port"):
        StackAddresses.choose(replace(FREE, http_port=port, kafka_port=port))


def test_the_ready_file_is_whole_and_leaves_nothing_beside_it(tmp_path: Path) -> None:
    path = tmp_path / "new" / "ready.json"
    for pids in ({"broker": 1}, {"broker": 2}):
        write_atomically(path, {"pids": pids})
        assert json.loads(path.read_text()) == {"pids": pids}
    assert list(path.parent.iterdir()) == [path]


def test_the_ready_file_is_written_through_no_link(tmp_path: Path) -> None:
    others = tmp_path / "others"
    others.write_text("theirs")
    path = tmp_path / "ready.json"
    for link in (path, tmp_path / f".{path.name}.{os.getpid()}"):
        link.symlink_to(others)
    write_atomically(path, {"pids": {}})
    assert others.read_text() == "theirs"
    assert json.loads(path.read_text()) == {"pids": {}}
    assert not path.is_symlink()
    assert path.stat().st_mode & 0o777 == 0o644, "everybody can read it"
    assert sorted(one.name for one in tmp_path.iterdir()) == sorted(
        [f".{path.name}.{os.getpid()}", "others", path.name]
    )
