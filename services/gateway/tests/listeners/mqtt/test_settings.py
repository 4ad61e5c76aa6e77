"""Settings of the MQTT listener: a domain comes with a group, and both are names."""

import pytest
from coldnotify_common.settings import SettingError, load
from coldnotify_gateway.core import DeviceHome
from coldnotify_gateway.settings import GatewaySettings


def test_the_home_of_devices_is_both_or_neither() -> None:
    assert load(GatewaySettings, {}).mqtt_home() is None
    both = load(GatewaySettings, {}, gateway_mqtt_domain="farm", gateway_mqtt_group="barn")
    assert both.mqtt_home() == DeviceHome("farm", "barn")


@pytest.mark.parametrize("field", ["gateway_mqtt_domain", "gateway_mqtt_group"])
def test_a_wrong_one_is_named(field: str) -> None:
    with pytest.raises(SettingError, match=field.replace("_", "-")):
        load(GatewaySettings, {}, **{field: "a/b"})
    with pytest.raises(SettingError, match="--gateway-mqtt-group"):
        load(GatewaySettings, {}, **{field: "name"}).mqtt_home()
