"""The table of listeners: what each row names is there, and every folder has its line.

Stands for: listener, row
"""

import socket
from contextlib import closing
from dataclasses import fields
from pathlib import Path

import pytest
from coldnotify_common.settings import load
from coldnotify_gateway import listeners
from coldnotify_gateway.listeners import registry
from coldnotify_gateway.listeners.listener import Listener
from coldnotify_gateway.listeners.registry import LISTENERS, OWN_SETTINGS, TCP
from coldnotify_gateway.settings import GatewaySettings

WHAT_IT_DOES = [name for name in vars(Listener) if not name.startswith("_")]


def test_every_folder_has_its_line():
    folders = {path.parent.name for path in Path(listeners.__file__).parent.glob("*/__init__.py")}
    assert folders == {row.name for row in LISTENERS}


def test_nobody_is_taken_for_another():
    # Those that ship have their settings in GatewaySettings.
    for field in [field for field in fields(TCP) if field.name not in ("settings", "usual_port")]:
        values = [getattr(row, field.name) for row in LISTENERS]
        assert len(set(values)) == len(LISTENERS), field.name
    assert LISTENERS[0].beside == 0


@pytest.mark.parametrize("row", LISTENERS, ids=lambda row: row.name)
def test_a_row_makes_a_listener_that_holds_the_port_of_its_setting(row):
    settings = load(GatewaySettings, {}, gateway_port=0, gateway_web_port=0, gateway_mqtt_port=0)
    others = [load(cls, {}) for cls in OWN_SETTINGS]
    with closing(row.make(settings, others)) as listener:
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


PLANTED = """
from dataclasses import dataclass
from coldnotify_common.settings import Settings, setting
from coldnotify_gateway.listeners.port import DevicePort
from coldnotify_gateway.listeners.row import ListenerRow

@dataclass(frozen=True, kw_only=True)
class PlantedSettings(Settings):
    gateway_planted_port: int = setting(0, "port")
    gateway_planted_words: str = setting("none", "words")

class PlantedListener(DevicePort):
    def __init__(self, settings, port, setting, own):
        super().__init__(settings, port, setting)
        self.words = own.gateway_planted_words

ROW = ListenerRow(name="planted", port_setting="gateway_planted_port", port_key="planted_port", ready_key="planted",
          beside=20, module=f"{__package__}.row", class_name="PlantedListener",
          settings=f"{__package__}.row:PlantedSettings")
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(listeners, "__path__", [*listeners.__path__, str(tmp_path)])

    def plant(name):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("")
        (tmp_path / name / "row.py").write_text(PLANTED)
        return name

    return plant


def test_a_listener_gets_its_own_settings_or_their_defaults(folder):
    row = registry._row(folder("planted"))
    from coldnotify_gateway.listeners.planted.row import PlantedSettings  # type: ignore[import-not-found]

    settings = GatewaySettings()
    given = [load(PlantedSettings, {}, gateway_planted_words="given")]
    for others, words in (([], "none"), (given, "given")):
        with closing(row.make(settings, others)) as listener:
            assert (listener.words, bool(listener.port)) == (words, True)


def test_a_row_of_another_name_is_refused(folder):
    with pytest.raises(TypeError, match=r"listeners/misnamed/row\.py: ROW must be a Row whose name is 'misnamed'"):
        registry._row(folder("misnamed"))
