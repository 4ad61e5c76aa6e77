"""The port for MQTT devices: its connections are of the TCP listener's kinds, in the dialect of MQTT."""

import socket
import ssl
from contextlib import closing

from coldnotify_common.settings import load
from coldnotify_gateway.core import MQTT
from coldnotify_gateway.device_connection import ConnectionEvents
from coldnotify_gateway.listeners.mqtt.listener import MqttListener, PacketConnection, PacketTlsConnection
from coldnotify_gateway.settings import GatewaySettings


def test_connections_say_their_dialect() -> None:
    events = ConnectionEvents()
    assert PacketConnection(events).dialect is MQTT
    assert PacketTlsConnection(events, ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)).dialect is MQTT


def test_a_silent_device_is_probed_by_tcp() -> None:
    """MQTT 3.1.1 allows a client to say no keepalive at all."""
    settings = load(GatewaySettings, {}, gateway_mqtt_port=0)
    with closing(MqttListener(settings, 0, "--gateway-mqtt-port")) as listener:
        for one in listener.listeners():
            with closing(one):
                assert one.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
                assert one.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) == 60
