"""A fault of webhooks: a receiver wants no more calls."""

import json
import threading
from contextlib import ExitStack, closing
from http.server import BaseHTTPRequestHandler, HTTPServer
from urllib.request import Request, urlopen

from coldnotify_testkit.drills.scene import DOMAIN, GROUP, HOOKS_PORT, Scene


class _Gone(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        """Answer 410."""
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(410)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Say nothing."""


def a_receiver_of_a_webhook_is_gone(scene: Scene, stack: ExitStack) -> None:
    """the receiver of a webhook answers 410"""
    server = stack.enter_context(closing(_Server(("127.0.0.1", HOOKS_PORT), _Gone)))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    stack.callback(thread.join)
    stack.callback(server.shutdown)
    stack.callback(_ask, scene, "DELETE")
    _ask(scene, "PUT", {"url": f"http://127.0.0.1:{HOOKS_PORT}/", "objects": ["camera-config"]})


class _Server(HTTPServer):
    allow_reuse_address = True

    def close(self) -> None:
        """Close the port."""
        self.server_close()


def _ask(scene: Scene, method: str, body: object = None) -> None:
    url = f"{scene.up.http_url}/v1/domains/{DOMAIN}/groups/{GROUP}/hooks/gone"
    data = None if body is None else json.dumps(body).encode()
    with urlopen(Request(url, data, {"Content-Type": "application/json"}, method=method), timeout=30):
        pass
