"""The scene of a drill: all of ColdNotify with a little traffic, and a Prometheus that watches it."""

import threading
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import NamedTuple
from urllib.request import urlopen

from coldnotify_kafka.broker.free_ports import free_port

from coldnotify_testkit.prometheus import Prometheus
from coldnotify_testkit.stack import Up

CONNECTIONS_MAX = 100
BUFFERED_BYTES_MAX = 1024 * 1024
CHANNELS_TAIL_BYTES_MAX = 1024 * 1024
HOOKS_PORT = free_port("127.0.0.1")
"""A receiver of webhooks may listen there."""
SETTINGS = {
    "COLDNOTIFY_GATEWAY_CONNECTIONS_MAX": str(CONNECTIONS_MAX),
    "COLDNOTIFY_GATEWAY_BUFFERED_BYTES_MAX": str(BUFFERED_BYTES_MAX),
    "COLDNOTIFY_GATEWAY_REQUEST_TIMEOUT_S": "2",
    "COLDNOTIFY_HTTP_PUBLISH_TIMEOUT_S": "2",
    "COLDNOTIFY_MATCHER_CHANNELS_BYTES_MAX": str(3 * CHANNELS_TAIL_BYTES_MAX),
    "COLDNOTIFY_HOOKS_NETWORKS": "127.0.0.0/8",
    "COLDNOTIFY_HOOKS_PORTS": str(HOOKS_PORT),
    "COLDNOTIFY_HOOKS_SCHEMES": "https,http",
}
"""Bounds that a fault reaches soon, in the environment of all services."""
WAIT_S = 120
DOMAIN, GROUP = "animal.observer", "region-1"


class Scene(NamedTuple):
    """All of ColdNotify with a client and a little traffic, and Prometheus that watches it."""

    up: Up
    watcher: Prometheus
    directory: Path

    @property
    def revoked(self) -> Path:
        """The path of the services' revocation list."""
        return self.directory / "revoked"

    def value(self, query: str) -> float:
        """Returns the value of the only sample of an instant query; NaN if it has no sample."""
        return next((float(sample["value"][1]) for sample in self.watcher.query(query)), float("nan"))


Fault = Callable[[Scene, ExitStack], None]
"""Makes it; what ends it is for the stack."""


class Traffic(threading.Thread):
    """Publishes by HTTP until stopped; failures are part of some faults."""

    def __init__(self, up: Up) -> None:
        super().__init__(daemon=True)
        self._url = f"{up.http_url}/v1/domains/{DOMAIN}/groups/{GROUP}/objects/camera-config"
        self.stopping = threading.Event()

    def run(self) -> None:
        """The thread."""
        while not self.stopping.wait(0.1):
            with suppress(OSError), urlopen(self._url, data=b"{}", timeout=30):
                pass
