"""Waits until a broker is really usable: metadata, and every group and transaction coordinator, have been loaded.

An open port means little: right after it, coordinators still answer "load in progress". Kafka spreads groups over the
partitions of __consumer_offsets and transactional ids over those of __transaction_state, and loads each by itself, so
each one is asked.
"""

import logging
import socket
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import TimeoutError as FutureTimeoutError
from functools import partial
from typing import Any

from coldnotify_schemas.host_port import host_port
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

_CALL_SECONDS_MAX = 5.0
_POLL_SECONDS = 0.05
_GROUPS_TOPIC = "__consumer_offsets"
_TRANSACTIONS_TOPIC = "__transaction_state"

_silent = logging.getLogger(f"{__name__}.librdkafka")
_silent.addHandler(logging.NullHandler())
# While a broker starts, refused connections are what is expected.
_silent.propagate = False


_Config = dict[str, Any]
"""librdkafka's settings; the library's own type leaves out objects such as the logger."""


def quiet_admin(bootstrap: str) -> AdminClient:
    """An AdminClient that does not log nodes that are away: here that is expected."""
    config: _Config = {"bootstrap.servers": bootstrap, "logger": _silent}
    return AdminClient(config)


class NotReadyInTimeError(Exception):
    """The time limit has passed; the message names what was still missing."""


def wait_until_ready(host: str, port: int, deadline: float, check_alive: Callable[[], None]) -> None:
    """Returns when the broker at host:port serves; `check_alive` is called all along (from several threads)
    and raises to end the wait.

    `deadline` is in time.monotonic() seconds. Raises NotReadyInTimeError.
    """
    wait = _Wait(deadline, check_alive)
    at = host_port(host, port)
    wait.until(f"nothing listens on {at}", lambda seconds: _connect(host, port, seconds))
    wait.until("no metadata", lambda seconds: bool(nodes_that_serve(at, seconds)))
    config: _Config = {"bootstrap.servers": at, "logger": _silent}
    admin = quiet_admin(at)

    def ask_all(topic: str, ask: Callable[[_Config, str, float], bool]) -> None:
        def answers(name: str) -> None:
            wait.until(f"a coordinator of {topic} is not loaded", partial(ask, config, name))

        # The first question makes Kafka create the topic; then it is known of how many partitions there is to ask.
        answers(names_for_partitions(1)[0])
        wait.until(f"no metadata of {topic}", lambda seconds: _partitions(admin, topic, seconds) > 0)
        names = names_for_partitions(_partitions(admin, topic, _CALL_SECONDS_MAX))
        _in_parallel([partial(answers, name) for name in names])

    _in_parallel(
        [
            partial(ask_all, _GROUPS_TOPIC, _ask_group_coordinator),
            partial(ask_all, _TRANSACTIONS_TOPIC, _ask_transaction_coordinator),
        ]
    )


def wait_until_registered(host: str, port: int, node_id: int, deadline: float, check_alive: Callable[[], None]) -> None:
    """Returns when the node listens and its cluster counts it among the brokers that serve.

    `check_alive` and `deadline` as for wait_until_ready. Raises NotReadyInTimeError.
    """
    wait = _Wait(deadline, check_alive)
    at = host_port(host, port)
    wait.until(f"nothing listens on {at}", lambda seconds: _connect(host, port, seconds))
    wait.until(
        f"the cluster does not count node {node_id} in", lambda seconds: node_id in nodes_that_serve(at, seconds)
    )


def nodes_that_serve(bootstrap: str, timeout_s: float) -> set[int]:
    """Returns the ids of the cluster's live nodes: none while its only one is fenced, as just after a freeze.

    Each call uses a new client. One of librdkafka that saw a cluster without nodes looks again only after five minutes
    (confluentinc/librdkafka#5301): until then its list_topics fails, and its deletions wait for a controller. Raises
    KafkaException.
    """
    return set(quiet_admin(bootstrap).list_topics(timeout=timeout_s).brokers)


def _in_parallel(calls: Sequence[Callable[[], None]]) -> None:
    """All at once: librdkafka lets half a second to a second pass before it asks a coordinator again."""
    with ThreadPoolExecutor(len(calls)) as pool:
        for answer in [pool.submit(call) for call in calls]:
            answer.result()


class _Wait:
    """Repeats attempts until they succeed or one common deadline passes."""

    def __init__(self, deadline: float, check_alive: Callable[[], None]) -> None:
        self._deadline = deadline
        self._check_alive = check_alive

    def until(self, trouble: str, attempt: Callable[[float], bool]) -> None:
        """Calls `attempt`, with its time limit in seconds, until it returns true; `trouble` begins
        the error's message.
        """
        last: object = "no answer"
        while True:
            self._check_alive()
            left = self._deadline - time.monotonic()
            if left <= 0:
                raise NotReadyInTimeError(f"{trouble}: {last}")
            try:
                if attempt(min(left, _CALL_SECONDS_MAX)):
                    return
            except (KafkaException, OSError, FutureTimeoutError) as error:
                last = error
            time.sleep(_POLL_SECONDS)


def _connect(host: str, port: int, seconds: float) -> bool:
    socket.create_connection((host, port), timeout=seconds).close()
    return True


def _partitions(admin: AdminClient, topic: str, seconds: float) -> int:
    topics = admin.list_topics(timeout=seconds).topics
    return len(topics[topic].partitions) if topic in topics else 0


def _ask_group_coordinator(config: _Config, group: str, seconds: float) -> bool:
    # By a consumer: the AdminClient's list_consumer_group_offsets crashes the process when a coordinator says that it
    # is not the one, which is what happens while the broker starts.
    consumer = Consumer({**config, "group.id": group})
    try:
        [answer] = consumer.committed([TopicPartition(_GROUPS_TOPIC, 0)], timeout=seconds)
        if answer.error:
            raise KafkaException(answer.error)
    finally:
        consumer.close()
    return True


def _ask_transaction_coordinator(config: _Config, name: str, seconds: float) -> bool:
    Producer({**config, "transactional.id": name}).init_transactions(seconds)
    return True


def names_for_partitions(partitions: int) -> list[str]:
    """Names that Kafka's coordinators place on partition 0, 1, ... `partitions` - 1, one for each."""
    names: dict[int, str] = {}
    number = 0
    while len(names) < partitions:
        name = f"coldnotify-readiness-{number}"
        names.setdefault(abs(java_hash_code(name)) % partitions, name)
        number += 1
    return [names[partition] for partition in range(partitions)]


def java_hash_code(text: str) -> int:
    """java.lang.String.hashCode of ASCII text, signed 32 bits: by it Kafka chooses a group's coordinator."""
    value = 0
    for character in text:
        value = (31 * value + ord(character)) & 0xFFFFFFFF
    return value - (1 << 32) if value & 0x80000000 else value
