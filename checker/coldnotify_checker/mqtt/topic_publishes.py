"""Gathers what was published to each topic, by devices, back-ends and wills, and what is known of its order."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from coldnotify_schemas.protocol import MESSAGE_BYTES_MAX
from coldnotify_schemas.records import PAYLOAD_BYTES_MAX
from coldnotify_schemas.topics import TopicNames

from coldnotify_checker.histories import (
    End,
    Event,
    Fault,
    Healed,
    MqttConnect,
    MqttConnected,
    MqttDisconnected,
    MqttPublish,
    MqttPublished,
    MqttTold,
    Publish,
    Published,
    Record,
    Send,
)
from coldnotify_checker.mqtt.payload_contents import EMPTY, content, contents_of_record, size_of
from coldnotify_checker.publishes import CheckedPublishes
from coldnotify_checker.topic_contents import DumpedTopics

UNHEALED_US = 30_000_000
"""A fault without an end, such as a kill, is felt for so long, and another one for so long behind its end: a gateway
that is not heard is given up after 15 s."""
WILL_US = 60_000_000
"""So long after its time at most a will is published, if no fault is felt. One of a gateway that was stopped waits 30
s."""


@dataclass(slots=True, eq=False)
class TopicPublish:
    """One publish to a topic."""

    begun: Event
    t: int
    """When it began; Unix time in microseconds, as all times here."""
    contents: frozenset[bytes]
    """The payloads as which a device may be told it."""
    retained: bool
    size: int
    """Bytes of its payload."""
    answered: int | None = None
    """When it was acknowledged; None: that is not known."""
    version: int | None = None
    incarnation: int = 0
    by_arrival: bool = False
    """Its owner gives it the version behind all that came before."""
    expires_at: int | None = None
    """Unix ms."""
    client: str | None = None
    """The device that published it, as domain/group/client."""
    qos: int = 1
    offset: int | None = None
    """The offset of a message."""
    is_will: bool = False

    @property
    def deletes(self) -> bool:
        """Returns true if it deletes an object."""
        return self.retained and EMPTY in self.contents

    def is_placed(self, offset: int) -> None:
        """It is known to lie there, or there, too."""
        self.offset = offset if self.offset is None else min(offset, self.offset)

    def is_version(self, incarnation: int, version: int) -> None:
        """It is known to have become this version, unless another one was known."""
        if self.version is None:
            self.incarnation, self.version = incarnation, version

    def is_acknowledged(self, t: int) -> None:
        """It is known to be in Kafka since then."""
        self.answered = t if self.answered is None else min(t, self.answered)

    def may_be(self, told: MqttTold) -> bool:
        """Returns true if a device may have been told this one."""
        same = told.version is None or self.version is None or told.version == self.version
        return same and content(told.payload) in self.contents

    def expired(self, by: int) -> bool:
        """Returns true if it had expired by then."""
        return self.expires_at is not None and self.expires_at * 1000 <= by


def surely_older(one: TopicPublish, other: TopicPublish) -> bool:
    """Returns true if one version is surely outdone by the other."""
    if one.version is not None and other.version is not None:
        return (one.incarnation, one.version) < (other.incarnation, other.version)
    return other.by_arrival and one.answered is not None and one.answered < other.t


class TopicPublishes:
    """All publications of a history, but those that surely failed."""

    def __init__(
        self, history: Iterable[Event], publishes: CheckedPublishes, topics: DumpedTopics, names: TopicNames
    ) -> None:
        self.versions: dict[str, list[TopicPublish]] = {}
        """By domain/group/topic."""
        self.messages: dict[str, list[TopicPublish]] = {}
        self._groups: dict[str, dict[str, None]] = {}
        """By domain/group: its topics, as domain/group/topic."""
        self._by_content: dict[tuple[bool, str, bytes], list[TopicPublish]] = {}
        """By retained, domain/group/topic, and content."""
        self.with_incarnations: set[str] = set()
        """The topics whose versions are not in the order of their numbers."""
        self._periods: dict[int, tuple[int, int | None]] = {}
        """By the identity of a publish: the periods of its begin and of its answer."""
        self._publishes = publishes
        self._troubles: list[tuple[int, int]] = []
        """The times from and to which faults may be felt."""
        events = list(history)
        self._without_reasons = {one.client for one in events if isinstance(one, MqttConnect) and one.protocol == 4}
        dumped = topics.dumped.get(names.objects)
        self._payload_bytes_max = PAYLOAD_BYTES_MAX if dumped is None else dumped.payload_bytes_max
        self._take_in_faults(events)
        answers = {(event.publisher, event.id): event for event in events if isinstance(event, Published)}
        puback = {(event.client, event.id): event for event in events if isinstance(event, MqttPublished)}
        ends = _ends(events)
        history_ends = next((event.t for event in events if isinstance(event, End)), 0)
        by_id: dict[tuple[str, str], TopicPublish] = {}
        for event in events:
            if isinstance(event, Publish):
                self._take_in_publish(event, answers.get((event.publisher, event.id)))
            elif isinstance(event, Send):
                self._take_in_send(event, answers.get((event.publisher, event.id)), by_id)
            elif isinstance(event, MqttPublish):
                self._take_in_device(event, puback.get((event.client, event.id)))
            elif isinstance(event, MqttConnect) and event.will is not None:
                self._take_in_will(event, ends.get(id(event)), history_ends)
        self._take_in_dump(events, topics, names, by_id)
        for event in events:
            if isinstance(event, MqttTold):
                self._learn(event)

    def of_group(self, client: str) -> Iterator[str]:
        """Yields the topics of a device's group, as domain/group/topic."""
        yield from self._groups.get(client.rpartition("/")[0], ())

    def period(self, name: str, t: int) -> int:
        """Returns how often the object's state had been lost before `t`."""
        return self._publishes.period_of(name, t)

    def troubled(self, since: int, until: int) -> bool:
        """Returns true if a fault may have been felt at some time between these."""
        return any(begin <= until and end >= since for begin, end in self._troubles)

    def told_of(self, of: dict[str, list[TopicPublish]], told: MqttTold, skew_us: int) -> list[TopicPublish]:
        """Returns those of `versions` or `messages` that a device may have been told."""
        same = self._same(topic_name(told), content(told.payload), retained=of is self.versions)
        return [one for one in same if one.t <= told.t + skew_us and one.may_be(told)]

    def like(self, name: str, one: TopicPublish) -> Iterator[TopicPublish]:
        """Yields the publishes to a topic with the payload of this one."""
        for what in one.contents:
            yield from self._same(name, what, retained=one.retained)

    def _same(self, name: str, what: bytes, *, retained: bool) -> list[TopicPublish]:
        return self._by_content.get((retained, name, what), [])

    def may_be_newest(self, name: str, before: int, by: int) -> list[TopicPublish] | None:
        """Returns the versions that may be the newest at `by`, if something was acknowledged before `before` and
        not lost since; else None.
        """
        period = self.period(name, by)
        there = [one for one in self.versions.get(name, ()) if one.t <= by and self._began_in(name, one)[0] == period]
        sure = [
            one
            for one in there
            if one.answered is not None and one.answered < before and self._began_in(name, one)[1] == period
        ]
        if not sure:
            return None
        highest = max(((one.incarnation, one.version) for one in sure if one.version is not None), default=(0, -1))
        arrived = max((one.t for one in sure if one.by_arrival), default=0)
        return [
            one
            for one in there
            if not (one.version is not None and (one.incarnation, one.version) < highest)
            and not (one.answered is not None and one.answered < arrived)
        ]

    def _began_in(self, name: str, one: TopicPublish) -> tuple[int, int | None]:
        """Returns the periods in which it began, and was acknowledged."""
        found = self._periods.get(id(one))
        if found is None:
            answered = None if one.answered is None else self.period(name, one.answered)
            found = self._periods[id(one)] = self.period(name, one.t), answered
        return found

    # --- what the lines say

    def _add(self, name: str, one: TopicPublish) -> TopicPublish:
        self._groups.setdefault("/".join(name.split("/", 2)[:2]), {})[name] = None
        for what in one.contents:
            self._by_content.setdefault((one.retained, name, what), []).append(one)
        if one.incarnation:
            self.with_incarnations.add(name)
        (self.versions if one.retained else self.messages).setdefault(name, []).append(one)
        return one

    def _take_in_publish(self, event: Publish, answer: Published | None) -> None:
        if answer is not None and answer.outcome == "failed":
            return
        version = event.version if event.version is not None or answer is None else answer.version
        said: Any = event.payload if event.payload is not None else {"version": version}
        contents = {EMPTY} if event.deleted else {content(said)}
        if event.payload is None and not event.deleted and version is None:
            contents = set()
        one = TopicPublish(
            event,
            event.t,
            frozenset(contents),
            retained=True,
            size=size_of(event.payload),
            version=version,
            incarnation=event.incarnation,
            expires_at=event.expires_at,
        )
        self._add(event.object, one)
        if answer is not None and answer.outcome == "acknowledged" and event.path != "raw" and not answer.skipped:
            one.is_acknowledged(answer.t)

    def _take_in_send(self, event: Send, answer: Published | None, by_id: dict[tuple[str, str], TopicPublish]) -> None:
        if answer is not None and answer.outcome == "failed":
            return
        one = by_id.get((event.channel, event.message))
        if one is None:
            contents = {content(event.payload)} | ({EMPTY} if event.payload is None else set())
            one = TopicPublish(
                event,
                event.t,
                frozenset(contents),
                retained=False,
                size=size_of(event.payload),
                expires_at=event.expires_at,
            )
            by_id[event.channel, event.message] = self._add(event.channel, one)
        # Who is addressed by attributes is no MQTT device, and nobody knows when a stray is where it belongs.
        if answer is not None and answer.outcome == "acknowledged" and event.path != "stray":
            if not event.to:
                one.is_acknowledged(answer.t)
            if answer.offset is not None:
                one.is_placed(answer.offset)

    def _take_in_device(self, event: MqttPublish, answer: MqttPublished | None) -> None:
        if answer is not None and answer.code >= 0x80:
            return
        one = TopicPublish(
            event,
            event.t,
            frozenset({content(event.payload)}),
            retained=event.retain,
            size=size_of(event.payload),
            by_arrival=True,
            client=event.client,
            qos=event.qos,
        )
        self._add(_name(event.client, event.topic), one)
        if answer is not None and not self._is_too_large(event, one.size):
            one.is_acknowledged(answer.t)

    def _is_too_large(self, event: MqttPublish, size: int) -> bool:
        """Returns true if a PUBACK does not say that it is in Kafka: 3.1.1 cannot say that a payload is too large."""
        most = self._payload_bytes_max if event.retain else MESSAGE_BYTES_MAX
        return event.client in self._without_reasons and size > most

    def _take_in_will(self, event: MqttConnect, ending: "_Ending | None", history_ends: int) -> None:
        assert event.will is not None
        ended = None if ending is None else ending.ended
        if ended is not None and ended.by == "device" and not self.troubled(event.t, ended.t):
            return
        will = event.will
        one = TopicPublish(
            event,
            event.t,
            frozenset({content(will.payload)}),
            retained=will.retain,
            size=size_of(will.payload),
            by_arrival=True,
            client=event.client,
            is_will=True,
        )
        self._add(_name(event.client, will.topic), one)
        if ending is not None and ending.is_last and ending.was_let_in:
            due = ending.ended.t + will.delay_s * 1_000_000 + WILL_US
            if due < history_ends and not self.troubled(ending.ended.t, due):
                one.is_acknowledged(due)

    def _take_in_faults(self, events: Iterable[Event]) -> None:
        open_: dict[tuple[str, str], int] = {}
        for event in events:
            if isinstance(event, Fault):
                open_.setdefault((event.kind, event.target), event.t)
            elif isinstance(event, Healed):
                begun = open_.pop((event.kind, event.target), event.t)
                self._troubles.append((begun, event.t + UNHEALED_US))
        self._troubles += [(begun, begun + UNHEALED_US) for begun in open_.values()]

    # --- what the topics and the devices reveal

    def _take_in_dump(
        self,
        events: Iterable[Event],
        topics: DumpedTopics,
        names: TopicNames,
        by_id: dict[tuple[str, str], TopicPublish],
    ) -> None:
        for name, all_held in topics.versions.items():
            known = name in self.versions
            for held in all_held:
                contents = contents_of_record(held.record, held.key[1])
                if not known:
                    # Somebody published who keeps no history.
                    one = TopicPublish(held.record, held.record.timestamp * 1000, contents, retained=True, size=0)
                    one.is_version(*held.key)
                    self._add(name, one)
                    continue
                same = {id(one): one for what in contents for one in self._same(name, what, retained=True)}
                if len(same) == 1:
                    next(iter(same.values())).is_version(*held.key)
        silent: set[str] = set()
        for event in events:
            if not isinstance(event, Record) or event.topic not in names.channels or event.key is None:
                continue
            contents = contents_of_record(event, None)
            sent = by_id.get((event.key, event.headers.get("id", "")))
            same = {id(one): one for what in contents for one in self._same(event.key, what, retained=False)}
            if event.key.count("/") >= 2 and (event.key in silent or event.key not in self.messages):
                silent.add(event.key)
                one = TopicPublish(event, event.timestamp * 1000, contents, retained=False, size=0)
                self._add(event.key, one).is_placed(event.offset)
            elif sent is not None:
                sent.is_placed(event.offset)
            elif len(same) == 1:
                next(iter(same.values())).is_placed(event.offset)

    def _learn(self, told: MqttTold) -> None:
        """Takes the version, or the offset, that a device was told of the only publication with that content."""
        same = self._same(topic_name(told), content(told.payload), retained=told.version is not None)
        if len(same) != 1:
            return
        if told.version is not None:
            if topic_name(told) not in self.with_incarnations:
                same[0].is_version(0, told.version)
        elif told.offset is not None and not told.retain:
            same[0].is_placed(told.offset)


def said_by_devices(events: Iterable[Event]) -> frozenset[tuple[str, bytes]]:
    """Returns (domain/group/topic, content) of all that MQTT devices may have published, for judging other clients."""
    found: set[tuple[str, bytes]] = set()
    for event in events:
        if isinstance(event, MqttPublish):
            found.add((_name(event.client, event.topic), content(event.payload)))
        elif isinstance(event, MqttConnect) and event.will is not None:
            found.add((_name(event.client, event.will.topic), content(event.will.payload)))
    return frozenset(found)


def topic_name(told: MqttTold) -> str:
    """Returns the topic as domain/group/topic."""
    return _name(told.client, told.topic)


def _name(client: str, topic: str) -> str:
    return f"{client.rpartition('/')[0]}/{topic}"


@dataclass(slots=True)
class _Ending:
    """The end of a connection."""

    ended: MqttDisconnected
    was_let_in: bool
    is_last: bool = True
    """The device did not come again."""


def _ends(events: Iterable[Event]) -> dict[int, _Ending]:
    """Returns how each connection ended, by the identity of its `mqtt_connect`."""
    open_: dict[str, MqttConnect] = {}
    let_in: set[str] = set()
    last: dict[str, MqttConnect] = {}
    found: dict[int, _Ending] = {}
    for event in events:
        if isinstance(event, MqttConnect):
            open_[event.client] = last[event.client] = event
            let_in.discard(event.client)
        elif isinstance(event, MqttConnected):
            let_in.add(event.client)
        elif isinstance(event, MqttDisconnected) and event.client in open_:
            connect = open_.pop(event.client)
            found[id(connect)] = _Ending(event, event.client in let_in)
    lasts = {id(connect) for connect in last.values()}
    return {connect: _Ending(one.ended, one.was_let_in, connect in lasts) for connect, one in found.items()}
