"""Follows an MQTT device's session: its filters, what it was told and has acknowledged, from connection to connection.

What was told with QoS 1 and not acknowledged has to come again in the next connection: the device does not have it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from coldnotify_schemas.filters import can_be_said, fits

from coldnotify_checker.histories import (
    MqttAcknowledge,
    MqttConnect,
    MqttConnected,
    MqttDisconnected,
    MqttFilter,
    MqttPong,
    MqttTold,
)
from coldnotify_checker.mqtt.payload_contents import EMPTY, content
from coldnotify_checker.mqtt.topic_publishes import TopicPublish, topic_name

WRITTEN_US = 5_000_000
"""So long a cursor that has moved need not be in Kafka."""
PROPERTIES_BYTES = 2_500
"""The most that a PUBLISH has besides its topic and its payload."""
FOR_EVER_S = 0xFFFF_FFFF
_REFUSED_FROM = 0x80
_ALWAYS, _IF_NEW = 0, 1
"""Values of Retain Handling."""


@dataclass(slots=True)
class GrantedFilter:
    """A filter that was granted."""

    options: MqttFilter
    granted: int
    """The QoS."""
    since: int
    """When the SUBACK came that made it new; Unix time in microseconds, as all times here."""
    versions_from: int
    """Earlier publishes need not be told, because they are sent on no subscribing, or went with QoS 0."""
    messages_from: int

    def again(self, options: MqttFilter, granted: int, t: int) -> None:
        """It was subscribed again: its options are others, and its retained messages come again if they say so."""
        self.options, self.granted = options, granted
        if options.retain_handling == _ALWAYS:
            self.versions_from = 0

    def on_connect(self, t: int) -> None:
        """A CONNECT is sent: an earlier connection, whose end was not noticed, may have taken what went with QoS 0."""
        if not self.granted:
            self.versions_from, self.messages_from = max(self.versions_from, t), max(self.messages_from, t)


@dataclass(slots=True)
class MqttConnection:
    """One connection."""

    connect: MqttConnect
    connected: MqttConnected
    asks: dict[str, int] = field(default_factory=dict)
    """By filter, how often its retained messages were asked for, or may be owed from the connection before."""
    carried: list[str] = field(default_factory=list)
    """The filters whose retained messages may be owed from the connection before."""
    carried_until: int | None = None
    """When the service surely knew that these were told and acknowledged."""
    answers: dict[str, int] = field(default_factory=dict)
    """By domain/group/topic, how many of these asks were answered."""
    versions: dict[str, MqttTold] = field(default_factory=dict)
    """By domain/group/topic: the newest that was told in this connection."""
    times_told: dict[tuple[str, bytes], int] = field(default_factory=dict)
    """By domain/group/topic and content."""
    messages: dict[str, tuple[MqttTold, TopicPublish | None]] = field(default_factory=dict)
    """By domain/group/topic: the last one."""
    offsets: set[tuple[str, int]] = field(default_factory=set)
    """(domain/group/topic, offset) of the messages that were told."""
    waiting: dict[int, MqttTold] = field(default_factory=dict)
    """By packet identifier: what was told and is not acknowledged."""
    busy_until: int = 0
    """When something was last told that waited, or an acknowledgement was last sent."""
    unsettled: list[MqttTold] = field(default_factory=list)
    """Lines that the device has acknowledged; the service may not have heard that."""
    settled: list[tuple[int, MqttTold]] = field(default_factory=list)
    """(when it surely had heard, what was told)."""
    pongs: int = 0

    def carry(self, filters: list[str]) -> None:
        """The retained messages of these filters may still be owed."""
        self.carried = filters
        self.asks |= dict.fromkeys(filters, 1)

    def ask_again(self) -> None:
        """Kafka has lost its set, and its gateway registers that: the service answers each filter a second time."""
        for text in self.asks:
            self.asks[text] += 1

    def allowed_answers(self, name: str) -> int:
        """Returns how many answers with the retained message of a topic may still come."""
        topic = name.split("/", 2)[2]
        return sum(asks for text, asks in self.asks.items() if fits(text, topic)) - self.answers.get(name, 0)

    def take_answer(self, name: str) -> None:
        """One of them came."""
        self.answers[name] = self.answers.get(name, 0) + 1

    def tell_version(self, name: str, told: MqttTold) -> None:
        """It was told a version that is not older than the one before."""
        self.versions[name] = told

    def count(self, told: MqttTold) -> int:
        """Returns how often it was told the same of this topic by now."""
        what = topic_name(told), content(told.payload)
        times = self.times_told[what] = self.times_told.get(what, 0) + 1
        return times

    def uncount(self, told: MqttTold) -> None:
        """This was an answer: it stands for no publish of its own."""
        self.times_told[topic_name(told), content(told.payload)] -= 1

    def take(self, told: MqttTold) -> None:
        """A PUBLISH came."""
        if told.qos and told.packet_id is not None:
            self.waiting[told.packet_id] = told
            self.busy_until = told.t
        else:
            self.unsettled.append(told)

    def acknowledge(self, event: MqttAcknowledge) -> MqttTold | None:
        """A PUBACK is sent. Returns what it acknowledges."""
        told = self.waiting.pop(event.packet_id, None)
        if told is not None:
            self.unsettled.append(told)
            self.busy_until = event.t
        return told

    def on_pong(self, event: MqttPong) -> None:
        """The service has heard all acknowledgements that were sent before the PINGREQ."""
        self.pongs += 1
        if not self.waiting and self.busy_until < event.asked:
            self.settled += [(event.t, told) for told in self.unsettled]
            self.unsettled.clear()
            self.carried_until = self.carried_until or event.t

    def carries(self, ended: int) -> list[str]:
        """Returns the filters whose retained messages may be owed in the next connection."""
        known = self.carried_until is not None and self.carried_until + WRITTEN_US <= ended
        asked = [text for text, asks in self.asks.items() if asks > (text in self.carried)]
        return asked if known else [*asked, *self.carried]


@dataclass(slots=True)
class CheckedDevice:
    """One device, with its session."""

    client: str
    connect: MqttConnect | None = None
    """The CONNECT of the connection, or of the attempt, that has not ended."""
    connection: MqttConnection | None = None
    filters: dict[str, GrantedFilter] = field(default_factory=dict)
    asked: dict[int, list[MqttFilter]] = field(default_factory=dict)
    """By the id of a SUBSCRIBE without its SUBACK."""
    unheard: dict[str, MqttFilter] = field(default_factory=dict)
    """By their texts: filters that may be held all the same, as their SUBACK did not come, or that were ended."""
    last_connect: MqttConnect | None = None
    """The CONNECT of the last connection that was let in."""
    unanswered: MqttConnect | None = None
    """A CONNECT since then whose CONNACK did not come: it may have been heard all the same."""
    ended: MqttDisconnected | None = None
    """The end of the last connection."""
    granted_at: int = 0
    """When the last filter was granted."""
    known: dict[str, MqttTold] = field(default_factory=dict)
    """By domain/group/topic: the newest version that it was told and has acknowledged, in this session."""
    seen: set[str] = field(default_factory=set)
    """Topics that it was told with another version than a deletion."""
    versions_told: set[int] = field(default_factory=set)
    """The identities of the `mqtt_told` lines that may have told a version."""
    had: dict[int, TopicPublish] = field(default_factory=dict)
    """Messages that it has been told, by their identity."""
    had_by: dict[int, TopicPublish] = field(default_factory=dict)
    """By the identity of a `mqtt_told` line: the message that it told."""
    acknowledged: set[int] = field(default_factory=set)
    """The identities of those messages that it has acknowledged."""
    _open: dict[str, list[TopicPublish]] = field(default_factory=dict)
    """By domain/group/topic: messages that may be owed to it."""
    _looked_at: dict[str, int] = field(default_factory=dict)
    """By domain/group/topic, so many of its messages were looked at."""
    missed: list[tuple[int, int]] = field(default_factory=list)
    """(after, before): the offsets between which messages were said to be missed."""
    kept: list[tuple[int, MqttTold]] = field(default_factory=list)
    """(when the service had heard, what was told): acknowledged in earlier connections, to come no more."""

    def fitting(self, name: str) -> list[GrantedFilter]:
        """Returns its filters that fit a topic, if MQTT can say that."""
        topic = name.split("/", 2)[2]
        return [held for text, held in self.filters.items() if fits(text, topic)] if can_be_said(topic) else []

    def retains(self, name: str) -> bool:
        """Returns true if a version may be told with the retain flag otherwise than in answer to a SUBSCRIBE."""
        topic = name.split("/", 2)[2]
        unheard = (one.retain_as_published for text, one in self.unheard.items() if fits(text, topic))
        return any(held.options.retain_as_published for held in self.fitting(name)) or any(unheard)

    def is_owed(self, one: TopicPublish, held: GrantedFilter, by: int) -> bool:
        """Returns true if a publication has to be told for a filter that fits, by the time `by`."""
        if held.options.no_local and one.client == self.client:
            return False
        if one.t < (held.versions_from if one.retained else held.messages_from) or one.expired(by):
            return False
        if one.retained and one.deletes and one.t < held.since:
            return False  # the answer to a SUBSCRIBE says what is there
        if not one.qos and self.connect is not None and one.t < self.connect.t:
            # An earlier connection of it, whose death the service had not noticed, may have taken it.
            return False
        most = self.connect.packet_bytes_max if self.connect is not None else None
        return most is None or one.size + PROPERTIES_BYTES <= most

    def newest_known(self, name: str) -> MqttTold | None:
        """Returns the newest version that it was told, or has from earlier connections."""
        told = None if self.connection is None else self.connection.versions.get(name)
        return told or self.known.get(name)

    # --- a connection begins and ends

    @property
    def is_connected(self) -> bool:
        """Returns true from its CONNACK to the end of the connection."""
        return self.connection is not None and self.connection.connect is self.connect

    def on_connect(self, event: MqttConnect) -> None:
        """A CONNECT is sent. If the last connection did not end, its process was killed."""
        if self.connect is not None:
            self.end(MqttDisconnected(t=event.t, client=self.client, by="crash"))
        self.connect = event
        for held in self.filters.values():
            held.on_connect(event.t)

    def begin(self, event: MqttConnected) -> None:
        """It was let in. Without a session it knows nothing, and nothing is owed to it."""
        assert self.connect is not None
        before, self.connection = self.connection, MqttConnection(self.connect, event)
        anew = not event.present or (self.unanswered is not None and self.unanswered.clean)
        self.last_connect, self.unanswered = self.connect, None
        if anew:
            self._forget()
        elif before is not None and self.ended is not None:
            self.connection.carry(before.carries(self.ended.t))

    def _forget(self) -> None:
        self.filters.clear()
        self.unheard.clear()
        self.known.clear()
        self.seen.clear()
        self.had.clear()
        self.acknowledged.clear()
        self.missed.clear()
        self.kept.clear()

    def end(self, event: MqttDisconnected) -> None:
        """The connection ended: what was not acknowledged is not had."""
        connect, self.connect = self.connect, None
        self.unheard |= {one.filter: one for filters in self.asked.values() for one in filters}
        self.asked.clear()
        connection = self.connection
        if connection is None or connection.connect is not connect:
            self.unanswered = connect or self.unanswered
            return
        self.ended = event
        for told in connection.waiting.values():
            one = self.had_by.get(id(told))
            if one is not None and id(one) not in self.acknowledged:
                self.had.pop(id(one), None)
                self.keep_open(topic_name(told), one)
        connection.waiting.clear()
        connection.versions.clear()
        self.kept += [(t, told) for t, told in connection.settled if t + WRITTEN_US <= event.t]

    # --- filters

    def ask(self, id_: int, filters: list[MqttFilter]) -> None:
        """A SUBSCRIBE is sent: retained messages may come at once."""
        self.asked[id_] = filters
        if self.connection is None:
            return
        asks = self.connection.asks
        for one in filters:
            asks[one.filter] = asks.get(one.filter, 0) + (one.retain_handling in (_ALWAYS, _IF_NEW))

    def grant(self, id_: int, codes: list[int], t: int) -> None:
        """Its SUBACK came."""
        for options, code in zip(self.asked.pop(id_, ()), codes, strict=False):
            if code >= _REFUSED_FROM:
                continue
            self.granted_at = t
            held = self.filters.get(options.filter)
            if held is not None:
                held.again(options, code, t)
                continue
            answered = options.retain_handling in (_ALWAYS, _IF_NEW)
            self.filters[options.filter] = GrantedFilter(options, code, t, 0 if answered else t, t)

    def unsubscribe(self, text: str) -> None:
        """An UNSUBSCRIBE is sent: what is on its way is told by the filter."""
        held = self.filters.pop(text, None)
        if held is not None:
            self.unheard[text] = held.options

    # --- what it is told

    def tell_version(self, told: MqttTold) -> None:
        """It was told a version that is not older than the one before in its connection."""
        assert self.connection is not None
        self.connection.tell_version(topic_name(told), told)
        self.versions_told.add(id(told))
        if content(told.payload) != EMPTY:
            self.seen.add(topic_name(told))
        if not told.qos:
            self.know_version(told)

    def know_version(self, told: MqttTold) -> None:
        """It has acknowledged a version, and knows it from now on, unless it had acknowledged a later one."""
        before = self.known.get(topic_name(told))
        if before is None or before.t <= told.t:
            self.known[topic_name(told)] = told

    def acknowledge(self, told: MqttTold) -> None:
        """It has acknowledged what it was told."""
        one = self.had_by.get(id(told))
        if one is not None:
            self.acknowledged.add(id(one))
        if id(told) in self.versions_told:
            self.know_version(told)

    def have(self, told: MqttTold, one: TopicPublish) -> None:
        """It was told a message."""
        self.had[id(one)] = self.had_by[id(told)] = one

    def open_messages(self, name: str, all_: Sequence[TopicPublish], by: int) -> list[TopicPublish]:
        """Returns the messages of a topic that may be owed to it, in the order in which they began, until `by`; which
        of them still may be `keep_open` has to say. `all_` are those of the topic, in that order.
        """
        first = last = self._looked_at.get(name, 0)
        while last < len(all_) and all_[last].t <= by:
            last += 1
        self._looked_at[name] = last
        found = {id(one): one for one in (*self._open.pop(name, ()), *all_[first:last])}
        return sorted(found.values(), key=_begun)

    def keep_open(self, name: str, one: TopicPublish) -> None:
        """A message may be owed to it later, too."""
        self._open.setdefault(name, []).append(one)

    def was_missed(self, one: TopicPublish) -> bool:
        """Returns true if a message was said to be missed. Of one whose offset is not known, any such word counts."""
        if one.offset is None:
            return bool(self.missed)
        return any(after < one.offset < before for after, before in self.missed)


def _begun(one: TopicPublish) -> int:
    return one.t
