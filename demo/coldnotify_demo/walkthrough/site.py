"""A web server for one page: serves the files of a directory, prints the page's messages.

python -m coldnotify_demo.walkthrough.site PORT DIRECTORY
"""

import signal
import sys
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from types import FrameType

_WORDS_MAX = 10_000


class _Handler(SimpleHTTPRequestHandler):
    def do_POST(self) -> None:
        """/said: a line of words."""
        size = min(int(self.headers.get("Content-Length") or 0), _WORDS_MAX)
        print(self.rfile.read(size).decode(errors="replace"), flush=True)
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Nothing."""


def main() -> None:
    """Serves until SIGTERM."""
    server = ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), partial(_Handler, directory=sys.argv[2]))
    server.daemon_threads = True

    def stop(_number: int, _frame: FrameType | None) -> None:
        raise SystemExit(0)

    signal.signal(signal.SIGTERM, stop)
    with server:
        server.serve_forever()


if __name__ == "__main__":
    main()
