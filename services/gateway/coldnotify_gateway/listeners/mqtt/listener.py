"""The MQTT listener: connections as those of the TCP listener, in the dialect of MQTT.

Stands for: nothing of its own but the dialect; TLS and balancers' headers are the TCP listener's.
"""

import socket

from coldnotify_common.dead_peers import probe

from coldnotify_gateway.core import MQTT, Dialect
from coldnotify_gateway.listeners.tcp.client_connection import ClientConnection
from coldnotify_gateway.listeners.tcp.listener import TcpListener
from coldnotify_gateway.listeners.tcp.tls_connection import TlsConnection


class PacketConnection(ClientConnection):
    """One MQTT device's connection."""

    __slots__ = ()

    @property
    def dialect(self) -> Dialect | None:
        """Returns MQTT's."""
        return MQTT


class PacketTlsConnection(TlsConnection):
    """One MQTT device's connection under TLS."""

    __slots__ = ()

    @property
    def dialect(self) -> Dialect | None:
        """Returns MQTT's."""
        return MQTT


class MqttListener(TcpListener):
    """The port for MQTT devices."""

    plain = PacketConnection
    encrypted = PacketTlsConnection

    def listeners(self) -> list[socket.socket]:
        """Returns the listening sockets. Raises ListenError."""
        found = super().listeners()
        for one in found:
            probe(one)  # a client of MQTT 3.1.1 may say no keepalive
        return found
