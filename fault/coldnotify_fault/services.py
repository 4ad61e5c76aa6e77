"""The services as processes to be killed, paused and restarted; proxies stand before Kafka and the gateways."""

import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from coldnotify_common.errors import ServiceError
from coldnotify_common.kafka.kafka_clients import describe_topic
from coldnotify_kafka import topic_plan, topics
from coldnotify_kafka.broker import free_port
from coldnotify_kafka.broker.freezing import freeze, thaw
from coldnotify_kafka.broker.process import end, spawn
from coldnotify_kafka.broker.readiness import quiet_admin
from coldnotify_kafka.errors import TopicsError
from coldnotify_schemas.topics import TopicNames
from coldnotify_testkit.proxy import Network, Proxy
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from coldnotify_fault import usage_faults
from coldnotify_fault.brokers import Broker, Brokers
from coldnotify_fault.channel_steps import TAIL_BYTES_MAX
from coldnotify_fault.schedule import CHANNEL_RETENTIONS, GATEWAYS, MATCHERS, MATCHERS_MAX, SESSION_TIMEOUT_S
from coldnotify_fault.wire import ConnectionTraffic

_HOST = "127.0.0.1"
PARTITIONS = 4
"""Fewer than in production: fewer things to wait for, and each matcher still has several."""
_STOP_S = 15.0
_LOOK_S = 2.0
_TOPICS_S = 30.0


class KilledService:
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

    def say(self, flag: str) -> None:
        """Add a flag, from its next start on."""
        self._argv.append(flag)

    def freeze(self) -> None:
        """Stop it where it is, if it runs: SIGSTOP, and wait until all its threads have obeyed."""
        # One that has just ended by itself is for `ended` to tell.
        with suppress(ProcessLookupError):
            if self._process is not None and self._process.poll() is None:
                freeze(self._process.pid)

    def thaw(self) -> None:
        """Let it go on: SIGCONT, if it runs."""
        with suppress(ProcessLookupError):
            if self._process is not None and self._process.poll() is None:
                thaw(self._process.pid)

    def kill(self) -> None:
        """kill -9, and wait for its end."""
        if self._process is not None:
            self._process.kill()
            self._process.wait(_STOP_S)

    def stop(self) -> None:
        """SIGTERM; kill -9 if that does not suffice."""
        self.thaw()
        if self._process is not None:
            end(self._process, _STOP_S)

    def ended(self) -> int | None:
        """The exit status, if it ended by itself or was killed."""
        return None if self._process is None else self._process.poll()

    def ready(self) -> bool:
        """Asks its /readyz."""
        try:
            with urllib.request.urlopen(f"http://{_HOST}:{self._port}/readyz", timeout=_LOOK_S):
                return True
        except urllib.error.HTTPError as error:
            with error:  # it holds the connection
                return False
        except (OSError, ValueError):
            return False


class Services:
    """All of ColdNotify, each part by its name: the brokers', matcher-N, gateway-N, http, usage-N."""

    def __init__(
        self,
        directory: Path,
        network: Network,
        wire: Callable[[], ConnectionTraffic],
        brokers: Brokers,
        names: TopicNames,
        *,
        own_brokers: bool,
    ) -> None:
        """Nothing is started yet; the proxies listen. `own_brokers`: they are among the parts. Raises OSError."""
        self.brokers = brokers
        self.own_brokers = own_brokers
        self.topics = names
        self.kafka = self.brokers.bootstrap
        self.parts: dict[str, KilledService | Broker] = dict(self.brokers.parts) if own_brokers else {}
        self.gateway_proxies: dict[str, Proxy] = {}
        self.mqtt_proxies: dict[str, Proxy] = {}
        """Those before the gateways' ports for MQTT, by gateway, too."""
        self.gateway_addresses: list[str] = []
        self.mqtt_addresses: list[str] = []
        self.matcher_ports: dict[str, int] = {}
        retentions = f"--channel-retentions={CHANNEL_RETENTIONS}"
        for number in range(1, MATCHERS_MAX + 1):
            http = free_port(_HOST)
            self.matcher_ports[f"matcher-{number}"] = http
            flags = [f"--matcher-port={http}", f"--matcher-id=matcher-{number}", retentions]
            flags.append(f"--matcher-channels-bytes-max={42 * TAIL_BYTES_MAX}")
            flags.append(f"--matcher-session-timeout-ms={SESSION_TIMEOUT_S * 1000:.0f}")
            self._add(directory, f"matcher-{number}", http, flags)
        for number in range(1, GATEWAYS + 1):
            own, http, proxied = free_port(_HOST), free_port(_HOST), free_port(_HOST)
            mqtt, mqtt_proxied = free_port(_HOST), free_port(_HOST)
            flags = [
                f"--gateway-port={own}",
                f"--gateway-http-port={http}",
                f"--gateway-mqtt-port={mqtt}",
                "--gateway-web-port=0",
                "--gateway-ask-again-s=2",
                retentions,
            ]
            flags += ["--gateway-wait-after-s=1", "--gateway-topics-check-s=2", "--gateway-handshake-s=3"]
            self._add(directory, f"gateway-{number}", http, flags)
            self.gateway_proxies[f"gateway-{number}"] = network.proxy((_HOST, proxied), (_HOST, own), wire)
            self.gateway_addresses.append(f"{_HOST}:{proxied}")
            self.mqtt_proxies[f"gateway-{number}"] = network.proxy((_HOST, mqtt_proxied), (_HOST, mqtt))
            self.mqtt_addresses.append(f"{_HOST}:{mqtt_proxied}")
        http = free_port(_HOST)
        self.http_url = f"http://{_HOST}:{http}"
        self._add(directory, "http", http, [f"--http-port={http}", "--http-publish-timeout-s=5", retentions])
        for name in usage_faults.WORKERS:
            self._add(directory, name, own := free_port(_HOST), [f"--usage-port={own}"])

    def names(self) -> list[str]:
        """Returns the names of the parts that run when there is no fault."""
        extra = {f"matcher-{number}" for number in range(MATCHERS + 1, MATCHERS_MAX + 1)} | {usage_faults.WORKERS[1]}
        return [name for name in self.parts if name not in extra]

    def proxies_of(self, gateway: str) -> tuple[Proxy, Proxy]:
        """Returns the proxies before a gateway: that of its clients, and that of MQTT devices."""
        return self.gateway_proxies[gateway], self.mqtt_proxies[gateway]

    def apply_topics(self) -> None:
        """Make the topics that are missing. Raises TopicsError, KafkaException."""
        specs = topics.load(PARTITIONS, self.brokers.count, names=self.topics)
        topic_plan.apply(self.admin(), specs, _TOPICS_S, keep=True)

    def partitions(self) -> dict[str, int]:
        """Returns the number of partitions of each topic."""
        return {spec.name: spec.partitions for spec in topics.load(PARTITIONS, names=self.topics)}

    def delete_topic(self, name: str) -> None:
        """Delete one topic with all that is in it. Raises KafkaException, TimeoutError."""
        admin = self.admin()  # without a name it would be gone before the answer is there, and the question with it
        with suppress(KafkaException):
            # Refused: it is gone already, or the broker is away; whoever makes it anew will see.
            admin.delete_topics([name], operation_timeout=_TOPICS_S)[name].result(_TOPICS_S)

    def recreate_topic(self, name: str) -> bool:
        """Deletes and recreates a topic. Returns true if that worked at once (else `apply_topics` must be repeated)."""
        try:
            self.delete_topic(name)
            self.apply_topics()
        except (KafkaException, TopicsError, TimeoutError):
            return False
        return True

    def move_to(self, names: TopicNames) -> None:
        """Stop all services, and have them use these topics from their next start on."""
        self.topics = names
        for part in reversed(self.parts.values()):
            if isinstance(part, KilledService):
                part.stop()
                part.say(f"--topics-prefix={names.prefix}")

    def topic_id(self, name: str) -> str | None:
        """Returns the id of a topic; None if Kafka does not answer, or the topic is missing. A recreated topic has
        another id.
        """
        try:
            return str(describe_topic(self.admin(), name, _TOPICS_S).topic_id)
        except ServiceError:
            return None

    def stop(self) -> None:
        """Kill everything: nothing of this is needed any more."""
        for part in reversed(self.parts.values()):
            with suppress(subprocess.TimeoutExpired):
                part.kill()
        if self.own_brokers:
            self.brokers.stop()

    def admin(self) -> AdminClient:
        """Returns a new client each time: an old one asks the leaders that it saw last, and refreshes every five
        minutes only.
        """
        return quiet_admin(self.kafka)

    def _add(self, directory: Path, name: str, port: int, flags: list[str]) -> None:
        command = name.partition("-")[0]
        argv = [sys.executable, "-m", "coldnotify_cli.main", command, f"--kafka={self.kafka}"]
        argv += [f"--topics-prefix={self.topics.prefix}", *flags]
        self.parts[name] = KilledService(name, argv, port, directory / f"{name}.log")
