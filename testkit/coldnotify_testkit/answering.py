"""For tests: `answering` is an HTTP port whose answers are a function's."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@contextmanager
def answering(
    answer: Callable[[str], tuple[int, object]], post: Callable[[str, Any], tuple[int, object]] | None = None
) -> Iterator[str]:
    """Serves on a free port; yields its address, host:port. `answer` returns status and JSON for the path and query of
    a GET, `post` for those of a POST and its JSON.
    """

    class Answering(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._answer(*answer(self.path))

        def do_POST(self) -> None:
            said = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            assert post is not None
            self._answer(*post(self.path, said))

        def _answer(self, status: int, said: object) -> None:
            body = json.dumps(said).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_args: object) -> None:
            """Nothing: what a command prints is looked at."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Answering) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()
