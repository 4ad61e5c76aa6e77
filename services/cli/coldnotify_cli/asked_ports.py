"""Ports that commands ask: whether they speak TLS, and why one has not answered, in words for a person."""

import socket
import ssl
from contextlib import suppress
from http.client import BadStatusLine, RemoteDisconnected
from urllib.parse import urlsplit

from coldnotify_schemas.host_port import parse_host_port

SPEAKS_TLS = "this port speaks TLS: give --ca-cert, and --cert and --key, or a --context that has them"
SILENT = "it takes connections and does not answer: its process is stopped, or hangs"
_NO_TLS = "this port does not speak TLS: begin its address with http://, or give neither --ca-cert nor --cert"
_NOT_HTTP = "what listens there does not speak HTTP"
_NO_WAY = "it cannot be reached: is its machine up, and does no firewall block it?"
_TLS_RECORDS = (b"\x15", b"\x16")
"""First byte of every answer to the beginning of a handshake: an alert, or the handshake goes on."""
_PORTS = {"http": 80, "https": 443}


def speaks_tls(host: str, port: int, timeout_s: float) -> bool:
    """Returns true if whoever listens there answers the beginning of a TLS handshake."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    came, to_send = ssl.MemoryBIO(), ssl.MemoryBIO()
    with suppress(ssl.SSLWantReadError):
        context.wrap_bio(came, to_send).do_handshake()
    try:
        with socket.create_connection((host, port), timeout_s) as connection:
            connection.sendall(to_send.read())
            return connection.recv(1) in _TLS_RECORDS
    except OSError:
        return False


def _takes_connections(host: str, port: int, timeout_s: float) -> bool:
    try:
        socket.create_connection((host, port), timeout_s).close()
    except OSError:
        return False
    return True


def address_speaks_tls(address: str, timeout_s: float) -> bool:
    """Returns the same for host:port."""
    try:
        return speaks_tls(*parse_host_port(address), timeout_s)
    except ValueError:
        return False


def why_no_answer(error: Exception, url: str, timeout_s: float) -> str:
    """Returns why a request to `url` failed with this error of urllib."""
    cause = getattr(error, "reason", None) or error
    asked = urlsplit(url)
    if isinstance(cause, ssl.SSLError):
        return _NO_TLS if cause.reason in ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE") else str(cause)
    at = asked.hostname or "", asked.port or _PORTS[asked.scheme]
    if isinstance(cause, TimeoutError):
        return f"{SILENT if _takes_connections(*at, timeout_s) else _NO_WAY} ({timeout_s:g} s)"
    if isinstance(cause, BadStatusLine | ConnectionResetError):
        if asked.scheme == "http" and speaks_tls(*at, timeout_s):
            return SPEAKS_TLS
        return str(cause) if isinstance(cause, RemoteDisconnected | ConnectionResetError) else _NOT_HTTP
    return str(cause)
