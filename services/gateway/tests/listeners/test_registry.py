"""The table of listeners: what each row names is there, and every folder has a row.

Stands for: listener, row, every_setting
"""

import socket
from contextlib import closing
from dataclasses import fields
from pathlib import Path

import pytest
from coldnotify_common.settings import load
from coldnotify_gateway import listeners
from coldnotify_gateway.every_setting import EveryGatewaySetting
from coldnotify_gateway.listeners import registry
from coldnotify_gateway.listeners.listener import Listener
from coldnotify_gateway.listeners.registry import LISTENERS, SHIPPED, TCP, _added, listeners_of, with_added
from coldnotify_gateway.settings import GatewaySettings

WHAT_IT_DOES = [name for name in vars(Listener) if not name.startswith("_")]


def test_every_folder_has_a_row():
    folders = {path.parent.name for path in Path(listeners.__file__).parent.glob("*/__init__.py")}
    assert folders == {row.name for row in LISTENERS}


def test_nobody_is_taken_for_another():
    # Those that ship have their settings in GatewaySettings.
    for field in [field for field in fields(TCP) if field.name not in ("settings", "port_help")]:
        values = [getattr(row, field.name) for row in LISTENERS]
        assert len(set(values)) == len(LISTENERS), field.name
    assert LISTENERS[0].beside == 0


@pytest.mark.parametrize("row", LISTENERS, ids=lambda row: row.name)
def test_a_row_makes_a_listener_that_holds_the_port_of_its_setting(row):
    settings = load(EveryGatewaySetting, {}, **{one.port_setting: 0 for one in LISTENERS})
    assert row in listeners_of(settings)
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


ROW = """
from dataclasses import dataclass
from coldnotify_common.settings import Settings, setting
from coldnotify_gateway.listeners.row import Row

@dataclass(frozen=True, kw_only=True)
class PlantedSettings(Settings):
    gateway_planted_port: int = setting(0, "port")

ROW = Row(name="planted", port_setting="gateway_planted_port", port_key="planted_port", ready_key="planted", beside=20,
          module="coldnotify_gateway.listeners.tcp.listener", class_name="TcpListener", settings=SETTINGS)
"""


def plant(folder: Path, name: str, settings: str) -> None:
    (folder / name).mkdir()
    (folder / name / "__init__.py").write_text("")
    (folder / name / "row.py").write_text(ROW.replace("SETTINGS)", f"{settings})"))


def test_a_folder_with_a_row_is_found_with_its_settings(tmp_path, monkeypatch):
    monkeypatch.setattr(listeners, "__path__", [*listeners.__path__, str(tmp_path)])
    plant(tmp_path, "planted", "PlantedSettings")
    rows = _added(tmp_path, SHIPPED)
    assert [row.name for row in rows] == ["planted"]
    monkeypatch.setattr(registry, "LISTENERS", (*SHIPPED, *rows))
    settings = load(with_added(GatewaySettings), {}, gateway_planted_port=0)
    assert isinstance(settings, GatewaySettings)
    assert [row.name for row in listeners_of(settings)] == ["tcp", "web", "planted"]
    assert [row.name for row in listeners_of(GatewaySettings())] == ["tcp", "web"]
    with closing(rows[0].make(settings)) as listener:
        assert listener.port


@pytest.mark.parametrize(("name", "settings"), [("misnamed", "PlantedSettings"), ("unsettled", "None")])
def test_a_row_that_is_wrong_is_refused(tmp_path, monkeypatch, name, settings):
    monkeypatch.setattr(listeners, "__path__", [*listeners.__path__, str(tmp_path)])
    plant(tmp_path, name, settings)
    with pytest.raises(TypeError, match=f"listeners/{name}/row.py: ROW must be a Row whose name is '{name}'"):
        _added(tmp_path, SHIPPED)
