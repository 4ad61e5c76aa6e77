"""The MQTT listener: connections as those of the TCP listener, in the dialect of MQTT.

Stands for: nothing of its own but the dialect; TLS and balancers' headers are the TCP listener's.
"""

import socket

from coldnotify_gateway.core import MQTT, Dialect
from coldnotify_gateway.listeners.tcp.client_connection import ClientConnection
from coldnotify_gateway.listeners.tcp.listener import TcpListener
from coldnotify_gateway.listeners.tcp.tls_connection import TlsConnection

_PROBED_AFTER_S = 60
"""A client of MQTT 3.1.1 without a keepalive is told from a dead one by TCP's own probes."""


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
        for one in found:  # accepted sockets inherit it
            one.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            if hasattr(socket, "TCP_KEEPIDLE"):
                one.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, _PROBED_AFTER_S)
        return found
