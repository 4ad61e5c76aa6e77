"""The table of listeners: what each row names is there, and every folder has a row.

Stands for: listener
"""

import socket
from contextlib import closing
from dataclasses import fields
from pathlib import Path

import pytest
from coldnotify_gateway import listeners
from coldnotify_gateway.listeners.listener import Listener
from coldnotify_gateway.listeners.registry import LISTENERS, TCP
from coldnotify_gateway.settings import GatewaySettings

WHAT_IT_DOES = [name for name in vars(Listener) if not name.startswith("_")]


def test_every_folder_has_a_row():
    folders = {path.parent.name for path in Path(listeners.__file__).parent.glob("*/__init__.py")}
    assert folders == {row.name for row in LISTENERS}


def test_nobody_is_taken_for_another():
    for field in fields(TCP):
        values = [getattr(row, field.name) for row in LISTENERS]
        assert len(set(values)) == len(LISTENERS), field.name
    assert LISTENERS[0].beside == 0


@pytest.mark.parametrize("row", LISTENERS, ids=lambda row: row.name)
def test_a_row_makes_a_listener_that_holds_the_port_of_its_setting(row):
    settings = GatewaySettings(gateway_port=0, gateway_web_port=0)
    assert row.port_setting in {field.name for field in fields(settings)}
    with closing(row.make(settings)) as listener:
        assert WHAT_IT_DOES
        for name in [*WHAT_IT_DOES, "port"]:
            assert hasattr(listener, name)
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", listener.port), 10)
        listener.listen_early()
        socket.create_connection(("127.0.0.1", listener.port), 10).close()
        listener.end_early()
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", listener.port), 10)


def test_an_error_names_the_setting_as_the_command_line_and_the_environment_do():
    assert (TCP.flag, TCP.setting) == ("--gateway-port", "COLDNOTIFY_GATEWAY_PORT / --gateway-port")
