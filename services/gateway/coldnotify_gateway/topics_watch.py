"""Watches the topics, and Kafka's availability, in a thread of its own."""

import threading
from collections.abc import Callable
from typing import NamedTuple

import structlog
from coldnotify_common.errors import ServiceError
from coldnotify_common.kafka.kafka_clients import TopicLooks

from coldnotify_gateway.settings import GatewaySettings

log = structlog.get_logger()

_AWAY_LOOKS_EVERY_S = 0.5
"""Interval while Kafka or the topics are unavailable. It is short, because the gateway waits for them."""
_LOOK_TIMEOUT_S = 3.0
"""Longest look. An available Kafka answers within milliseconds, and stopping waits for a look under way."""


class GatewayTopics(NamedTuple):
    """The properties of topics that a gateway relies on. They change only if topics are recreated, except the number of
    inboxes, which may grow at any time."""

    requests_partitions: int
    requests_id: str
    notifications_id: str


class GatewayTopicsWatch:
    """Calls `on_topics(topics, inboxes)` and `on_unavailable(reason)` after each look, from its own thread."""

    def __init__(
        self,
        settings: GatewaySettings,
        on_topics: Callable[[GatewayTopics, int], None],
        on_unavailable: Callable[[str], None],
    ) -> None:
        self._settings = settings
        self._on_topics = on_topics
        self._on_unavailable = on_unavailable
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="topics-watch", daemon=True)

    def start(self) -> None:
        """Starts looking."""
        self._thread.start()

    def stop(self) -> None:
        """Stops looking, without waiting for a look under way."""
        self._stop.set()

    def _run(self) -> None:
        looks, names = TopicLooks(self._settings), self._settings.topics
        while not self._stop.is_set():
            try:
                requests = looks.describe(names.requests, _LOOK_TIMEOUT_S)
                notifications = looks.describe(names.notifications, _LOOK_TIMEOUT_S)
            except ServiceError as error:
                self._on_unavailable(str(error))
                self._stop.wait(_AWAY_LOOKS_EVERY_S)
            else:
                topics = GatewayTopics(len(requests.partitions), str(requests.topic_id), str(notifications.topic_id))
                self._on_topics(topics, len(notifications.partitions))
                self._stop.wait(self._settings.gateway_topics_check_s)
