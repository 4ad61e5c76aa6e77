"""The HTTP port of `FakeService`: docs/http-api.md's routes for back-ends, answered in a thread for each connection."""

import json
import socket
import ssl
import threading
from contextlib import AbstractContextManager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from math import ceil
from typing import TYPE_CHECKING, Any, Protocol

from coldnotify.testing.service import Service
from coldnotify.testing.service_http import ServiceHttp

if TYPE_CHECKING:
    from coldnotify.testing.service_websocket import ServiceWebSocket

_BODY_BYTES_MAX = 8 * 1024 * 1024
_IDLE_S = 30.0
"""A connection that says nothing for so long is closed."""


class HasService(Protocol):
    """A service behind a port."""

    service: Service

    @property
    def lock(self) -> AbstractContextManager[Any]:
        """Held by whoever touches the service."""

    def wake(self) -> None:
        """Sends what was put into sessions."""

    def adopt(self, connection: socket.socket, carrier: "ServiceWebSocket") -> None:
        """Serves a client that has connected by WebSocket."""


_NO_WEBSOCKET = "path: WebSocket needs the package websockets: pip install 'coldnotify[web]'"


class HttpPort:
    """The port between its creation and stop()."""

    def __init__(self, owner: HasService, port: int, ssl_context: ssl.SSLContext | None) -> None:
        """Raises OSError if the port is taken."""
        answers = ServiceHttp(owner.service)
        adopted: set[socket.socket] = set()
        """Connections that the owner closes."""

        class _Answering(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            timeout = _IDLE_S

            def handle_any(self) -> None:
                if self.path.partition("?")[0] == "/v1/connect":
                    self._connect()
                    return
                length = int(self.headers.get("Content-Length") or 0)
                if length > _BODY_BYTES_MAX:
                    self.close_connection = True
                    self._say(413, {"error": f"body: is longer than {_BODY_BYTES_MAX} bytes"})
                    return
                body = self.rfile.read(length)
                with owner.lock:
                    status, answer = answers.answer(self.command, self.path, body)
                owner.wake()
                self._say(status, answer)

            do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = handle_any  # noqa: N815

            def _connect(self) -> None:
                try:
                    from coldnotify.testing.service_websocket import ServiceWebSocket
                except ImportError:
                    self._say(501, {"error": _NO_WEBSOCKET})
                    return
                head = "".join(f"{name}: {value}\r\n" for name, value in self.headers.items())
                carrier = ServiceWebSocket(f"{self.requestline}\r\n{head}\r\n".encode("latin-1"))
                adopted.add(self.connection)
                self.close_connection = True
                owner.adopt(self.connection, carrier)

            def _say(self, status: int, answer: dict[str, Any]) -> None:
                data = json.dumps(answer).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json; charset=utf-8")
                self.send_header("Content-Length", str(len(data)))
                if "retry_after_s" in answer:
                    self.send_header("Retry-After", str(ceil(answer["retry_after_s"])))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *_args: object) -> None:
                """Writes nothing: a test's output is its own."""

        class _Server(ThreadingHTTPServer):
            daemon_threads = True
            block_on_close = False

            def shutdown_request(self, request: Any) -> None:
                if request in adopted:
                    adopted.discard(request)
                else:
                    super().shutdown_request(request)

            def get_request(self) -> tuple[socket.socket, Any]:
                connection, address = super().get_request()
                if ssl_context is not None:  # the handshake is the connection's thread's
                    connection = ssl_context.wrap_socket(connection, server_side=True, do_handshake_on_connect=False)
                return connection, address

            def handle_error(self, *_args: object) -> None:
                """A connection has broken, which a test may do."""

        self._server = _Server(("127.0.0.1", port), _Answering)
        self.address = f"127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(0.05,), name="coldnotify-fake-http", daemon=True
        )
        self._thread.start()

    def stop(self) -> None:
        """Closes the port. Connections end by themselves."""
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def forked(self) -> None:
        """A child lets go of the port."""
        self._server.socket.close()
