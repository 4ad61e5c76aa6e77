"""The services as processes to be killed, paused and started again; proxies stand before Kafka and the gateways."""

import os
import signal
import socket
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from coldnotify_kafka import topic_plan, topics
from coldnotify_kafka.broker import EmbeddedBroker, free_port
from coldnotify_kafka.broker.process import end, spawn
from coldnotify_kafka.errors import BrokerError, TopicsError
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from coldnotify_fault.proxy import Network, Proxy, Wire
from coldnotify_fault.schedule import GATEWAYS, MATCHERS, MATCHERS_MAX, SESSION_TIMEOUT_S

_BROKER_HOST = "127.0.0.2"
_KAFKA_HOST = "127.0.0.3"
"""What the broker tells its clients to connect to, on its own port: there listens the proxy."""
_HOST = "127.0.0.1"
PARTITIONS = 4
"""Fewer than in production: fewer things to wait for, and each matcher still has several."""
_STOP_S = 15.0
_LOOK_S = 2.0
_BROKER_LOOK_S = 5.0
"""For a broker that listens: its coordinators are about to be loaded."""
_TOPICS_S = 30.0


class Service:
    """One process, started again and again with the same arguments."""

    def __init__(self, name: str, argv: list[str], port: int, log: Path) -> None:
        self.name = name
        self._argv = argv
        self._port = port
        self._log = log
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it, unless it runs."""
        if self._process is None or self._process.poll() is not None:
            self._process = spawn(self._argv, self._log)

    def signal(self, number: int) -> None:
        """Send a signal, if it runs."""
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(number)

    def kill(self) -> None:
        """kill -9, and wait for its end."""
        self.signal(signal.SIGKILL)
        if self._process is not None:
            self._process.wait(_STOP_S)

    def stop(self) -> None:
        """SIGTERM; kill -9 if that does not suffice."""
        self.signal(signal.SIGCONT)
        if self._process is not None:
            end(self._process, _STOP_S)

    def ended(self) -> int | None:
        """The exit status, if it ended by itself or was killed."""
        return None if self._process is None else self._process.poll()

    def ready(self) -> bool:
        """What its /readyz says."""
        try:
            with urllib.request.urlopen(f"http://{_HOST}:{self._port}/readyz", timeout=_LOOK_S):
                return True
        except urllib.error.HTTPError as error:
            with error:  # it holds the connection
                return False
        except (OSError, ValueError):
            return False


class Broker:
    """The embedded broker, with the same verbs."""

    def __init__(self, data: Path, port: int) -> None:
        self._broker = EmbeddedBroker(data, port, host=_BROKER_HOST, advertised_host=_KAFKA_HOST)
        self._lock = threading.Lock()

    def start(self) -> None:
        """Start it; does not wait until it is ready."""
        with self._lock:
            self._broker.start()

    def signal(self, number: int) -> None:
        """Send a signal to Java, if it runs."""
        if self._broker.poll() is None:
            os.kill(self._broker.pid, number)

    def kill(self) -> None:
        """kill -9, and wait for its end."""
        with suppress(BrokerError):
            self.signal(signal.SIGCONT)
            self._broker.stop(0.0)

    def stop(self) -> None:
        """In order."""
        self.kill()

    def ended(self) -> int | None:
        """The exit status, if it ended by itself or was killed."""
        try:
            return self._broker.poll()
        except BrokerError:
            return None

    def ready(self) -> bool:
        """Whether clients can be served."""
        try:
            # Whoever looks does so again, and has other things to do: what does not listen yet is not waited for.
            socket.create_connection((_BROKER_HOST, self._broker.port), _LOOK_S).close()
            self._broker.wait_ready(_BROKER_LOOK_S)
        except (BrokerError, OSError):
            return False
        return True


class Services:
    """All of ColdNotify, each part by its name: broker, matcher-N, gateway-N, http."""

    def __init__(self, directory: Path, network: Network, wire: Callable[[], Wire]) -> None:
        """Nothing is started yet; the proxies listen. Raises OSError, BrokerError."""
        port = _free_port_of_both()
        self.kafka = f"{_KAFKA_HOST}:{port}"
        self.kafka_proxy = network.proxy((_KAFKA_HOST, port), (_BROKER_HOST, port))
        self.parts: dict[str, Service | Broker] = {"broker": Broker(directory / "kafka", port)}
        self.gateway_proxies: dict[str, Proxy] = {}
        self.gateway_addresses: list[str] = []
        taken = {port}
        for number in range(1, MATCHERS_MAX + 1):
            http = _free(taken)
            flags = [f"--matcher-port={http}", f"--matcher-id=matcher-{number}"]
            flags.append(f"--matcher-session-timeout-ms={SESSION_TIMEOUT_S * 1000:.0f}")
            self._add(directory, f"matcher-{number}", http, flags)
        for number in range(1, GATEWAYS + 1):
            own, http, proxied = _free(taken), _free(taken), _free(taken)
            flags = [
                f"--gateway-port={own}",
                f"--gateway-http-port={http}",
                "--gateway-web-port=0",
                "--gateway-ask-again-s=2",
            ]
            flags += ["--gateway-wait-after-s=1", "--gateway-topics-check-s=2", "--gateway-handshake-s=3"]
            self._add(directory, f"gateway-{number}", http, flags)
            self.gateway_proxies[f"gateway-{number}"] = network.proxy((_HOST, proxied), (_HOST, own), wire)
            self.gateway_addresses.append(f"{_HOST}:{proxied}")
        http = _free(taken)
        self.http_url = f"http://{_HOST}:{http}"
        self._add(directory, "http", http, [f"--http-port={http}", "--http-publish-timeout-s=5"])
        self._admin: AdminClient | None = None

    def names(self) -> list[str]:
        """Of what is to run when there is no fault."""
        extra = {f"matcher-{number}" for number in range(MATCHERS + 1, MATCHERS_MAX + 1)}
        return [name for name in self.parts if name not in extra]

    def apply_topics(self) -> None:
        """Make the topics that are missing. Raises TopicsError, KafkaException."""
        topic_plan.apply(self.admin(), topics.load(partitions=PARTITIONS), _TOPICS_S)

    def delete_topic(self, name: str) -> None:
        """Delete one topic with all that is in it. Raises KafkaException, TimeoutError."""
        with suppress(KafkaException):
            # Refused: it is gone already, or the broker is away; whoever makes it anew will see.
            self.admin().delete_topics([name], operation_timeout=_TOPICS_S)[name].result(_TOPICS_S)

    def recreate_topic(self, name: str) -> bool:
        """Delete a topic and make it anew; whether that worked at once (else `apply_topics` must be tried again)."""
        try:
            self.delete_topic(name)
            self.apply_topics()
        except (KafkaException, TopicsError, TimeoutError):
            return False
        return True

    def admin(self) -> AdminClient:
        """For looking into Kafka."""
        if self._admin is None:
            config: dict[str, Any] = {"bootstrap.servers": self.kafka, "log_level": 0, "error_cb": lambda error: None}
            self._admin = AdminClient(config)
        return self._admin

    def stop(self) -> None:
        """Kill everything: nothing of this is needed any more."""
        for part in reversed(self.parts.values()):
            with suppress(subprocess.TimeoutExpired):
                part.kill()

    def _add(self, directory: Path, name: str, port: int, flags: list[str]) -> None:
        command = name.partition("-")[0]
        argv = [sys.executable, "-m", "coldnotify_cli.main", command, f"--kafka={self.kafka}", *flags]
        self.parts[name] = Service(name, argv, port, directory / f"{name}.log")


def _free(taken: set[int]) -> int:
    while (port := free_port(_HOST)) in taken:
        pass
    taken.add(port)
    return port


def _free_port_of_both() -> int:
    while True:
        port = free_port(_BROKER_HOST)
        with suppress(OSError), socket.create_server((_KAFKA_HOST, port)):
            return port
