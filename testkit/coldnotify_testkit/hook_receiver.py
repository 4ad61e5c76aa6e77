"""A receiver of webhooks, and the settings of a stack that may call it.

Stands for: it is what webhooks are tested with
"""

import json
import os
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any


class HookReceiver:
    """A real HTTP server, which notes each call. It answers 204, until `answer` says otherwise."""

    def __init__(self) -> None:
        self.calls: list[dict[str, Any]] = []
        self.status: Callable[[dict[str, Any]], int] = lambda call: 204
        self.headers: dict[str, str] = {}
        receiver = self

        class _Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                raw = self.rfile.read(int(self.headers["Content-Length"]))
                call = {
                    "at": time.monotonic(),
                    "path": self.path,
                    "raw": raw,
                    "body": json.loads(raw),
                    "headers": {name.lower(): value for name, value in self.headers.items()},
                }
                receiver.calls.append(call)
                self.send_response(receiver.status(call))
                for name, value in receiver.headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
        self.port = self._server.server_address[1]
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    def answer(self, status: Callable[[dict[str, Any]], int], headers: dict[str, str] | None = None) -> None:
        """Has calls answered with this status, by the call, and these headers."""
        self.status = status
        self.headers = headers or {}

    def url(self, path: str = "/") -> str:
        return f"http://127.0.0.1:{self.port}{path}"

    def of(self, path: str) -> list[dict[str, Any]]:
        return [call for call in list(self.calls) if call["path"] == path]

    def versions(self, path: str, name: str) -> list[int]:
        return [call["body"]["version"] for call in self.of(path) if call["body"].get("object") == name]

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


def hooks_settings(directory: Path, receiver: HookReceiver) -> dict[str, str]:
    """Returns the settings of a stack whose webhooks may lead to the receiver; `directory` takes their key."""
    key = directory / "hooks.key"
    key.write_bytes(os.urandom(48).hex().encode())
    key.chmod(0o600)
    return {
        "hooks_key_file": str(key),
        "hooks_networks": "127.0.0.0/8",
        "hooks_ports": str(receiver.port),
        "hooks_schemes": "https,http",
    }
