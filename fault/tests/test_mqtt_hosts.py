"""The processes of MQTT devices: killed and started again, they are again what the campaign wants of them."""

from pathlib import Path

from coldnotify_checker.histories import MqttConnect, MqttConnected, MqttSubscribed, read_histories
from coldnotify_fault.mqtt_hosts import MqttHosts
from coldnotify_fault.mqtt_steps import ScheduledMqttDevice
from coldnotify_testkit.mqtt_double import HOST, MqttDouble
from coldnotify_testkit.waiting import wait_for

GROUP = "camera.control/meters"


def device(number: int, *, kept: bool = True) -> ScheduledMqttDevice:
    return ScheduledMqttDevice(f"{GROUP}/meter-{number}", "mqtt-1", 5, kept, ({"filter": "#", "qos": 1},))


def test_a_device_that_lost_power_is_again_what_it_should_be(tmp_path: Path) -> None:
    (tmp_path / "states").mkdir()
    one, other = device(1), device(2)
    with MqttDouble() as broker:
        devices = MqttHosts(tmp_path, [one, other], [f"{HOST}:{broker.port}"])

        def connects(name: str) -> int:
            events = read_histories(file for file in devices.histories() if file.exists())
            return sum(isinstance(event, MqttConnected) and event.client == name for event in events)

        try:
            devices.do("connect", one.name, {})
            devices.start_all()
            wait_for(lambda: connects(one.name) == 1, "it connects")
            wait_for(lambda: bool(broker.sessions[one.name].filters), "it subscribes")
            devices.kill("mqtt-1", [one.name])
            assert devices.ended() == []
            devices.do("subscribe", one.name, {"filter": "mixed", "qos": 0})
            devices.do("crash", other.name, {})
            devices.do("connect", other.name, {})
            assert devices.wanted() == {one.name: {"#", "mixed"}, other.name: {"#"}}
            devices.start_all()
            wait_for(lambda: connects(one.name) == 2 and connects(other.name) == 1, "both connect")
            wait_for(lambda: "mixed" in broker.sessions[one.name].filters, "it subscribes to the other one, too")
            devices.do("disconnect", one.name, {})
            assert devices.wanted() == {other.name: {"#"}}
        finally:
            devices.stop()
            broker.shutdown()
        events = read_histories(devices.histories())
        assert {event.client for event in events if isinstance(event, MqttConnect)} == {one.name, other.name}
        assert any(isinstance(event, MqttSubscribed) for event in events)
