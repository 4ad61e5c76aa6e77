"""The HTTP service in a process of its own."""

from pathlib import Path

from coldnotify_testkit.child import ServiceProcess


class HttpProcess(ServiceProcess):
    """The HTTP service on a port that it has each time."""

    def __init__(self, output: Path, port: int, **settings: object) -> None:
        self._port = port
        super().__init__("http", output, {"http_port": port, **settings})

    @property
    def http_port(self) -> int:
        """The port of its HTTP endpoints."""
        return self._port
