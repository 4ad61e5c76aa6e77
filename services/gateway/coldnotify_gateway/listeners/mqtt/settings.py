"""The settings of the MQTT listener."""

from dataclasses import dataclass

from coldnotify_common.settings import Settings, setting
from coldnotify_schemas.names import InvalidName, check_name

OBJECT, BOTH = "object", "both"


def check_name_or_nothing(text: str) -> None:
    """Raises ValueError unless the text is empty, or a name of a domain or group."""
    if text:
        try:
            check_name("name", text)
        except InvalidName as error:
            raise ValueError(str(error)) from None


@dataclass(frozen=True, kw_only=True)
class MqttSettings(Settings):
    """Settings of the port that MQTT devices connect to."""

    gateway_mqtt_port: int = setting(
        1883, "TCP port that MQTT devices connect to; 0: any free port", minimum=0, maximum=65535
    )
    gateway_mqtt_domain: str = setting(
        "",
        "domain of MQTT devices whose certificate or token names more than one; empty: their client identifier says "
        "it, as domain/group/client",
        check=check_name_or_nothing,
    )
    gateway_mqtt_group: str = setting(
        "", "group of these devices; is set if --gateway-mqtt-domain is", check=check_name_or_nothing
    )
    gateway_mqtt_keepalive_max_s: int = setting(
        3600,
        "maximum keepalive of MQTT 5.0 (s), also where a client says none; a longer one is reduced to this",
        minimum=1,
        maximum=65535,
    )
    gateway_mqtt_retained: str = setting(
        OBJECT,
        "a retained message is a version of an object, or both: first a message of the channel of the same name, so "
        "that subscribers are told each",
        choices=(OBJECT, BOTH),
    )
