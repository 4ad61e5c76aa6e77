"""The channels of a random schedule: clients subscribe, publishers send, retention removes old messages.

A separate random generator draws all of it, so that schedules without channels stay unchanged.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from random import Random
from unittest.mock import patch

from coldnotify._core import settings
from coldnotify._core.interests.since import Since
from coldnotify_matcher.engine.channels import channel_paging
from coldnotify_matcher.engine.rules.channel_bounds import ChannelBounds
from coldnotify_schemas.channels import (
    EXPIRES_HEADER,
    ID_HEADER,
    TO_HEADER,
    MessageHeaders,
    message_headers,
)
from coldnotify_schemas.interests import pattern_name
from coldnotify_schemas.priority import PRIORITY_HEADER
from coldnotify_schemas.protocol import REPEATS_KNOWN_OFFSETS
from coldnotify_schemas.records import MOVED_HEADER
from coldnotify_schemas.topics import TopicNames

from coldnotify_simulation.client import SimulatedClient
from coldnotify_simulation.kafka import Headers
from coldnotify_simulation.promises import group_partition
from coldnotify_simulation.world import DOMAIN, GROUPS, World

TOPICS = TopicNames()

CHANNELS = ["tasks", "news", "log"]
PATTERNS = [pattern_name(one) for one in ("^(tasks|news)$", "^new/", "s")]
"""Patterns of some clients: of channels that are there, and of such that come later."""
ATTRIBUTES = ["camera", "solar"]
_SHARE = 0.4
"""The share of schedules that have channels."""
_SENT_ANEW = 0.3
"""The share of these in which retention removes a message just before it is sent again."""
_PATTERNS = 0.5
"""The share of these in which clients want patterns, too, and channels come that were not there."""


class Chatting:
    """The channels of one schedule."""

    def __init__(self, seed: int, world: World) -> None:
        self.random = Random(seed ^ 0xCA7)
        self.world = world
        self.on = self.random.random() < _SHARE
        self._priorities = Random(seed ^ 0x4170)  # so that the rest of the schedule stays what it is
        self._high = self._priorities.choice([0.0, 0.2, 0.6])
        """The share of messages that are of high priority."""
        self._page_bytes = self._priorities.choice([None, 1_000]) if self._high else None
        """The size of channels' pages; None: the product's own. With many small pages, messages of high priority come
        between two.
        """
        self._anew = Random(seed ^ 0x7219)  # likewise
        self._patterns = Random(seed ^ 0x9A77)  # likewise
        self._with_patterns = self._patterns.random() < _PATTERNS
        self._sent: dict[str, list[MessageHeaders]] = {}
        self._ids = 0
        if not self.on:
            return
        draw = self.random.choice
        self._backlog_bytes_max = draw([2_000, 5_000, settings.CHANNELS_BACKLOG_BYTES_MAX])
        bounds = ChannelBounds(
            tail_messages_max=draw([1, 3, 8, 100]),
            blocks_bytes_max=draw([1, 3_000, 1 << 24]),
            summaries_bytes_max=draw([100_000, 1 << 24]),
            pages_bytes_max=draw([1, 2_000, 1 << 24]),
        )
        for matcher in world.matchers:
            matcher.channels = True
            matcher.rules = replace(matcher.rules, channel_bounds=bounds)
        self._gap = draw([0, 7, 1_500, REPEATS_KNOWN_OFFSETS // 3])
        """How many offsets a gap skips."""

    @contextmanager
    def bounds(self) -> Iterator[None]:
        """While the schedule is played: little may wait in clients, and little is in a page."""
        if not self.on:
            yield
            return
        with ExitStack() as stack:
            stack.enter_context(patch.object(settings, "CHANNELS_BACKLOG_BYTES_MAX", self._backlog_bytes_max))
            if self._page_bytes is not None:
                page_bytes = self._page_bytes
                stack.enter_context(patch.object(channel_paging, "page_bytes_of", lambda _: page_bytes))
            yield

    def kinds(self) -> dict[str, tuple[float, Callable[[], None]]]:
        """Returns the actions, each with its weight among all others."""
        if not self.on:
            return {}
        kinds: dict[str, tuple[float, Callable[[], None]]] = {
            "send": (14, self.send),
            "subscribe": (3, self.want),
            "send many": (2, self.send_many),
            "send again": (2, self.send_again),
            "send elsewhere": (1, self.send_misplaced),
            "send nonsense": (0.7, self.send_nonsense),
            "trim": (2, self.trim),
            "offsets left out": (1, self.leave_out),
            "callbacks of a channel fail": (1.5, self.break_callbacks),
            "callbacks of a channel are slow": (0.7, self.slow_callbacks),
            "transaction in a log": (0.7, self.open_transaction),
            "log lost": (0.15, self.lose_log),
            "state of logs lost": (0.3, self.lose_state),
        }
        always = ("send", "subscribe")
        drawn = {name: one for name, one in kinds.items() if name in always or self.random.random() < 0.7}
        if self._anew.random() < _SENT_ANEW:
            drawn["send anew"] = (self._anew.choice([1, 4]), self.send_anew)
        return drawn

    def wish(self, client: SimulatedClient) -> None:
        """Draws what a client wants at its first start."""
        if self.on:
            for name in CHANNELS:
                if self.random.random() < 0.5:
                    client.wish_channels[self._or_pattern(name)] = self._attributes(), self._since(client)

    # ---- clients

    def _or_pattern(self, name: str) -> str:
        """Returns the channel's name, or now and then a pattern in its place."""
        if not self._with_patterns or self._patterns.random() < 0.5:
            return name
        return self._patterns.choice(PATTERNS)

    def _attributes(self) -> tuple[str, ...]:
        return tuple(one for one in ATTRIBUTES if self.random.random() < 0.4)

    def _since(self, client: SimulatedClient) -> Since:
        kind = self.random.choice(["now", "now", "oldest", "oldest", "newest", "time", "position"])
        if kind == "time":
            return Since(kind, self.world.clock.now_ms - self.random.choice([-500, 0, 300, 3000, 30_000]))
        if kind == "position":
            partition = GROUPS.index(client.identity.group)
            end = self.world.kafka.log(TOPICS.channels_1d, partition).end
            if not end:
                return Since("oldest")
            return Since(kind, self.random.randint(max(0, end - 20), end - 1), self.world.messages.epoch)
        return Since(kind)

    def want(self) -> None:
        """One more channel, or one less, or one with other attributes."""
        client, name = self.random.choice(self.world.clients), self._or_pattern(self.random.choice(CHANNELS))
        if name not in client.wish_channels:
            self.world.register_channel(client, name, self._attributes(), self._since(client))
        elif self.random.random() < 0.3:
            attributes = self._attributes()
            self.world.register_channel(client, name, attributes, client.wish_channels[name][1])
        else:
            self.world.unregister_channel(client, name)

    def break_callbacks(self) -> None:
        """They raise until somebody mends them: the channel is parked meanwhile."""
        client, name = self.random.choice(self.world.clients), self.random.choice(CHANNELS)
        self.world.trace(client.name, "callbacks fail for", name)
        client.broken_channels.add(name)
        self.world.clock.later(self.random.choice([0.5, 4.0, 12.0]), lambda: client.broken_channels.discard(name))

    def slow_callbacks(self) -> None:
        """Much waits meanwhile."""
        client = self.random.choice(self.world.clients)
        before, client.callback_s = client.callback_s, 2.0

        def as_before() -> None:
            if client.callback_s == 2.0:
                client.callback_s = before

        self.world.clock.later(8.0, as_before)

    # ---- publishers

    def _key(self) -> str:
        group, name = self.random.choice(GROUPS[: len(self.world.clients)]), self.random.choice(CHANNELS)
        if self._with_patterns and self._patterns.random() < 0.3:
            name = f"new/{self._patterns.randrange(20)}s"
        return f"{DOMAIN}/{group}/{name}"

    def _headers(self) -> MessageHeaders:
        self._ids += 1
        headers = MessageHeaders(id=f"m{self._ids}" if self.random.random() < 0.8 else "")
        if self.random.random() < 0.3:
            headers = headers._replace(to=tuple(sorted(self.random.sample(ATTRIBUTES, self.random.choice([1, 2])))))
        if self.random.random() < 0.12:
            later_ms = self.random.choice([-100, 200, 3_000, 60_000])
            headers = headers._replace(expires_at=self.world.clock.now_ms + later_ms)
        return headers._replace(high_priority=self._priorities.random() < self._high)

    def _payload(self, headers: MessageHeaders) -> bytes:
        text = b'{"m":"%s"}' % (headers.id or f"n{self._ids}").encode()
        return text + b" " * self.random.choice([0, 0, 0, 300, 900])

    def send(self) -> None:
        """One message. Before one of high priority others may wait, of its channel and of another one."""
        key, headers = self._key(), self._headers()
        if headers.high_priority and self._priorities.random() < 0.5:
            self._let_wait(key)
        self._sent.setdefault(key, []).append(headers)
        self.world.send(key, self._payload(headers), message_headers(headers))

    def _let_wait(self, key: str) -> None:
        """The group's clients do not read for a moment, and messages come for them."""
        draw = self._priorities
        group = key.split("/")[1]
        self._stall(group, draw.choice([0.2, 1.0, 4.0]))
        for _ in range(draw.choice([1, 2, 3])):
            self._send_small(draw.choice([key, f"{DOMAIN}/{group}/{draw.choice(CHANNELS)}"]))

    def _stall(self, group: str, seconds: float) -> None:
        for client in self.world.clients:
            if client.identity.group == group and client.link is not None:
                client.link.stall(seconds)

    def _send_small(self, key: str) -> None:
        self._ids += 1
        headers = MessageHeaders(id=f"m{self._ids}")
        self.world.send(key, b'{"m":"m%d"}' % self._ids, message_headers(headers))

    def send_many(self) -> None:
        """A burst, of all channels of a group."""
        group = self.random.choice(GROUPS[: len(self.world.clients)])
        for _ in range(self.random.choice([3, 10, 30])):
            headers = self._headers()
            key = f"{DOMAIN}/{group}/{self.random.choice(CHANNELS)}"
            self._sent.setdefault(key, []).append(headers)
            self.world.send(key, self._payload(headers), message_headers(headers))

    def send_again(self) -> None:
        """Repeats a message with the same id, as a publisher does that got no answer."""
        key = self._key()
        sent = [headers for headers in self._sent.get(key, ())[-6:] if headers.id]
        if sent:
            headers = self.random.choice(sent)
            # It says the same, whoever sends it, but for what does not matter.
            self.world.send(key, b'{"m":"%s"}' % headers.id.encode(), message_headers(headers))

    def send_anew(self) -> None:
        """Repeats a message that retention removes in the same moment, before or behind it; some clients lack it."""
        draw = self._anew
        sent = {key: ids for key, ids in self._sent.items() if any(headers.id for headers in ids)}
        if not sent:
            return
        key = draw.choice(list(sent))
        headers = draw.choice([headers for headers in sent[key] if headers.id][-6:])
        partition = group_partition(key.split("/")[1])
        end = self.world.kafka.log(TOPICS.channels_1d, partition).end
        if draw.random() < 0.3:
            self.world.send(key, b'{"m":"%s"}' % headers.id.encode(), message_headers(headers))
        self.world.trim(partition, end)
        self.world.send(key, b'{"m":"%s"}' % headers.id.encode(), message_headers(headers))

    def send_misplaced(self) -> None:
        """Sends to the wrong partition, as a producer does that knows nothing of groups; sometimes twice."""
        key, headers = self._key(), self._headers()
        wrong = 1 - GROUPS.index(key.split("/")[1])
        for _ in range(self.random.choice([1, 1, 2])):
            self.world.send(key, self._payload(headers), message_headers(headers), partition=wrong)

    def send_nonsense(self) -> None:
        """Sends an invalid message."""
        key = self._key()
        headers: Headers = self.random.choice(
            [
                ((ID_HEADER, b"\xff"),),
                ((ID_HEADER, b"x" * 65),),
                ((EXPIRES_HEADER, b"soon"),),
                ((TO_HEADER, b"a/b,,\xff"),),
                ((PRIORITY_HEADER, b"low"),),
            ]
        )
        wrong = 1 - GROUPS.index(key.split("/")[1])
        records: list[tuple[str, bytes | None, Headers, int | None]] = [
            (key, b"nonsense", headers, None),
            (key, None, (), None),
            ("no key", b"nonsense", (), None),
            ("other.domain/g/c", b"{}", (), None),
            (key, b"{}", ((MOVED_HEADER, b"nonsense"),), wrong),
        ]
        name, payload, said, partition = self.random.choice(records)
        self.world.send(name, payload, said, partition=partition)

    # ---- Kafka

    def _partition(self) -> int:
        return self.random.randrange(len(GROUPS))

    def trim(self) -> None:
        """Retention removes old messages, or all."""
        partition = self._partition()
        log = self.world.kafka.log(TOPICS.channels_1d, partition)
        if self.random.random() < 0.3:
            self.world.trim(partition, log.end)
        elif log.entries:
            self.world.trim(partition, self.random.choice(log.entries).offset)

    def leave_out(self) -> None:
        """Offsets of transactions that were aborted."""
        self.world.kafka.log(TOPICS.channels_1d, self._partition()).end += self._gap or self.random.choice(
            [1, 998, 9_990]
        )

    def open_transaction(self) -> None:
        """Somebody holds a transaction open: nobody can read later records meanwhile."""
        self.world.open_transaction(self._partition(), self.random.choice([0.3, 2.0, 12.0]), TOPICS.channels_1d)

    def lose_log(self) -> None:
        """The topic is recreated."""
        self.world.lose_topic(TOPICS.channels_1d)

    def lose_state(self) -> None:
        """The owners' stored knowledge of logs is lost."""
        self.world.lose_topic(TOPICS.channels_state)
