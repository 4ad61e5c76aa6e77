"""Judges P8: compares the messages that subscribers of channels were told with those that were sent.

A channel's messages are ordered by their offsets in the log. Publishers learn the offsets of their messages from the
acknowledgements; what the topics hold at the end, and what clients were told, reveals more of them. A message is *owed*
to a subscription if it was acknowledged, comes after the subscription's beginning, and is addressed to it. An owed
message is told before any later one of its channel, or it is missed: reported as missing, for a reason that holds.

A pattern of channels is judged as one channel (`channel_patterns`).

If a topic was lost, its messages are no longer owed, and offsets begin again: another *period* of its channels. A
client is in the previous period until it is told of the loss, since it may be told earlier messages for a while.
"""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field

from coldnotify_schemas.interests import BETWEEN
from coldnotify_schemas.partitioner import partition_of
from coldnotify_schemas.protocol import REPEATS_KNOWN_OFFSETS
from coldnotify_schemas.topics import TopicNames

from coldnotify_checker.channel_patterns import ChannelPatterns, OfSubscriber, is_pattern
from coldnotify_checker.histories import (
    CaughtUp,
    End,
    Event,
    Fresh,
    Killed,
    LogTrimmed,
    MessageTold,
    MissedTold,
    Published,
    Record,
    Send,
    Started,
    Subscribe,
    Topic,
    Unsubscribe,
)
from coldnotify_checker.log_periods import LogPeriods
from coldnotify_checker.mqtt.payload_contents import content
from coldnotify_checker.verdict import JudgeVerdict, Promise

UNNOTICED_US = 30_000_000
"""So long the loss of a topic may go unnoticed: who subscribes meanwhile may begin in the old one. A matcher looks
every 5 s; it may be stopped meanwhile, or without Kafka."""
ANEW_US = 5_000_000
"""P11 holds of a topic so long after it was recreated, or that of the registrations was."""
REPEATED_AFTER_A_KILL_US = 10_000_000
"""A message told so shortly before a power loss may be told again: its offset may not have been in
the state file yet.
"""
_NEVER = 1 << 63
_NAMED_MAX = 5
"""Messages that a violation names."""
_RETENTION, _EXPIRED, _LOST = "retention", "expired", "lost"


@dataclass(slots=True)
class SentMessage:
    """One message: all the calls that sent it."""

    id: str
    calls: list[Send] = field(default_factory=list)
    acknowledged: Published | None = None
    """The first answer that it is in Kafka."""
    unanswered: bool = False
    """True if the record of some call may or may not exist."""
    written_until: int = 0
    """When the last call was answered: its record may have been written until then."""
    placed: Published | None = None
    """The first answer that it is where it belongs. When a stray was moved there nobody knows."""
    offset: int | None = None
    """The lowest known offset, at which it is told."""

    @property
    def begun(self) -> Send:
        """The first call."""
        return self.calls[0]

    def is_for(self, attributes: Iterable[str]) -> bool:
        """Returns true if a subscription with these attributes is told it."""
        to = self.begun.to
        return not to or not set(to).isdisjoint(attributes)

    @property
    def strayed(self) -> bool:
        """Returns true if it may be the repeat of a stray, whose new place is unknown."""
        return len(self.calls) > 1 and any(call.path == "stray" for call in self.calls)


@dataclass(slots=True)
class CheckedSubscription:
    """One subscription of one client, and what it was told."""

    begun: Subscribe
    period: int = 0
    """The period of its channel's log in which it is."""
    began_anew: bool = False
    """True if it was told that the previous log was lost: it is owed all of this one."""
    position: int | None = None
    """The offset up to which messages were told or missed; None: nothing yet."""
    last: MessageTold | MissedTold | None = None
    told: dict[int, MessageTold] = field(default_factory=dict)
    """By offset, in this period."""
    ids: dict[str, int] = field(default_factory=dict)
    """The offset at which each message was told, by the message's id."""
    missed: list[tuple[int, int]] = field(default_factory=list)
    """(after, before)."""
    expired: list[tuple[int, int]] = field(default_factory=list)
    """(time, before) of each report that messages had expired."""
    resolved: int | None = None
    """When it was first told or confirmed something: by then the service had decided where it begins."""
    confirmed: int | None = None
    """When its client first reported to be caught up after it had subscribed."""
    killed: int | None = None
    """When its process was last killed."""

    def resolve(self, t: int) -> None:
        """Notes that the service had decided by then where it begins."""
        self.resolved = self.resolved or t

    def confirm(self, t: int) -> None:
        """Notes that the service had confirmed it by then."""
        self.resolve(t)
        self.confirmed = self.confirmed or t

    def covers(self, offset: int) -> bool:
        """Returns true if the message at this offset was told, or reported as missed."""
        return offset in self.told or any(after < offset < before for after, before in self.missed)


class MessageLog:
    """The messages of one channel between two losses of its topic."""

    def __init__(self) -> None:
        self.by_id: dict[str, SentMessage] = {}
        self._at: list[tuple[int, str]] = []

    def place(self, sent: SentMessage, offset: int) -> None:
        """It is known to be there."""
        if sent.offset is not None and sent.offset <= offset:
            return
        if sent.offset is not None:
            self._at.remove((sent.offset, sent.id))
        sent.offset = offset
        insort(self._at, (offset, sent.id))

    def between(self, after: int, before: int) -> Iterator[SentMessage]:
        """Those that are known to lie between these offsets."""
        begin = bisect_right(self._at, (after, "\U0010ffff"))
        for _, id_ in self._at[begin : bisect_left(self._at, (before, ""))]:
            yield self.by_id[id_]


class CheckedMessages:
    """The channels of all clients, followed event by event."""

    def __init__(
        self,
        events: Iterable[Event],
        verdict: JudgeVerdict,
        names: TopicNames,
        by_devices: Collection[tuple[str, bytes]] = (),
    ) -> None:
        """`by_devices`: what MQTT devices published, as `said_by_devices` gives it."""
        self._by_devices = by_devices
        self._verdict = verdict
        self._names = names
        events = list(events)
        self._patterns = ChannelPatterns(events)
        events = list(self._patterns.all(events))
        self._periods = LogPeriods(events, names)
        self._told_in: dict[int, int] = {}
        """The period of a `message` or `missed` event, by the event's identity."""
        self._trimmed: dict[tuple[str, int], list[tuple[int, int]]] = {}
        """By topic and partition, (time, offset below which all was removed)."""
        self._partitions = next(
            (e.partitions for e in events if isinstance(e, Topic) and e.topic in self._names.channels), None
        )
        self._there: dict[str, set[int]] = {}
        """By channel, the offsets that the topics hold at the end."""
        self._topic: dict[str, str] = {}
        """By channel, the topic that holds any of it at the end."""
        self._logs: dict[tuple[str, int], MessageLog] = {}
        """By channel and period."""
        self._of_client: dict[str, dict[str, CheckedSubscription]] = {}
        self._life: dict[str, int] = {}
        self._take_in(events)

    @property
    def any(self) -> bool:
        """Returns true if the history has channels."""
        return bool(self._logs or self._of_client)

    def _take_in(self, events: Iterable[Event]) -> None:
        answers = {(e.publisher, e.id): e for e in events if isinstance(e, Published)}
        for event in events:
            if isinstance(event, LogTrimmed):
                self._trimmed.setdefault((event.topic, event.partition), []).append((event.t, event.offset))
            if not isinstance(event, Send):
                continue
            answer = answers.get((event.publisher, event.id))
            if answer is not None and answer.outcome == "failed":
                continue
            period = self._periods.at(event.channel, event.t)
            log = self._log(event.channel, period)
            sent = log.by_id.setdefault(event.message, SentMessage(event.message))
            sent.calls.append(event)
            if answer is None or answer.outcome != "acknowledged":
                sent.unanswered = True
                sent.written_until = _NEVER
                continue
            sent.written_until = max(sent.written_until, answer.t)
            if not self._periods.within(event.channel, period, event.t, answer.t):
                continue
            if sent.acknowledged is None:
                sent.acknowledged = answer
                self._verdict.statistics.sent += not is_pattern(event.channel)
            if event.path == "stray":
                continue
            sent.placed = sent.placed or answer
            if answer.offset is not None:
                log.place(sent, answer.offset)
        self._take_in_starts(events)
        self._tell_periods(events)
        for event in events:
            if isinstance(event, MessageTold) and event.message is not None:
                told_in = self._log(event.channel, self._told_in[id(event)])
                found = told_in.by_id.get(event.message)
                if found is not None:
                    told_in.place(found, event.offset)
            if not isinstance(event, Record) or event.topic not in self._names.channels or event.key is None:
                continue
            if self._partitions and event.key.count("/") >= 2:
                domain, group, _ = event.key.split("/", 2)
                if event.partition != partition_of(domain, group, self._partitions):
                    continue
            self._there.setdefault(event.key, set()).add(event.offset)
            self._topic[event.key] = event.topic
            in_log = self._logs.get((event.key, self._periods.last(event.key)))
            found = None if in_log is None else in_log.by_id.get(event.headers.get("id", ""))
            if found is not None and in_log is not None:
                in_log.place(found, event.offset)

    def _take_in_starts(self, events: Iterable[Event]) -> None:
        """Takes in logs that were trimmed without a line, as their dumps show: that may have been at any time."""
        for event in events:
            if isinstance(event, Topic) and event.topic in self._names.channels:
                for partition, start in enumerate(event.starts):
                    if start and (event.topic, partition) not in self._trimmed:
                        self._trimmed[event.topic, partition] = [(0, start)]

    def _log(self, channel: str, period: int) -> MessageLog:
        return self._logs.setdefault((channel, period), MessageLog())

    def _tell_periods(self, events: Iterable[Event]) -> None:
        """Finds the log to which each message belongs that clients are told."""
        periods: dict[tuple[str, str], int] = {}
        fresh: set[tuple[str, str]] = set()
        """Subscriptions without a message so far: the first message tells which log it is."""
        lives: dict[str, int] = {}
        for event in events:
            if isinstance(event, Started):
                if event.life > lives.get(event.client, 0):
                    periods = {key: period for key, period in periods.items() if key[0] != event.client}
                lives[event.client] = event.life
            if isinstance(event, Unsubscribe):
                periods.pop((event.client, event.channel), None)
            elif isinstance(event, Subscribe | MessageTold | MissedTold):
                key, now = (event.client, event.channel), self._periods.at(event.channel, event.t)
                if key not in periods:
                    fresh.add(key)
                period = periods.setdefault(key, now)
                if isinstance(event, MissedTold) and event.reason == _LOST:
                    period = now
                elif isinstance(event, MessageTold):
                    while key in fresh and period < now and self._comes_later(event, period):
                        period += 1
                    fresh.discard(key)
                    period = self._period_of(event, period, now)
                periods[key] = self._told_in[id(event)] = period

    def _comes_later(self, event: MessageTold, period: int) -> bool:
        """Returns true if a message sent in this period may be in the next one's log, or was sent there again."""
        log, later = self._logs.get((event.channel, period)), self._logs.get((event.channel, period + 1))
        if log is None or event.message not in log.by_id:
            return False
        return self._may_be_in(event, log, period + 1) or (later is not None and event.message in later.by_id)

    def _period_of(self, event: MessageTold, period: int, now: int) -> int:
        """Returns the period of the log with this message: its client's, or a later one, or else the previous one."""
        if event.message is None:
            return period
        before = [period - 1] if event.t - self._periods.begun(event.channel, period) < UNNOTICED_US and period else []
        for one in (period, *range(period + 1, now + 1), *before):
            log = self._logs.get((event.channel, one))
            if log is not None and event.message in log.by_id:
                return period if one < period and self._may_be_in(event, log, period) else one
        return period

    def _may_be_in(self, event: MessageTold, log: MessageLog, period: int) -> bool:
        """Returns true if a message that was sent before a period began may nevertheless be in the
        log of that period.
        """
        assert event.message is not None
        sent, ends = log.by_id[event.message], self._periods.ends(event.channel, period - 1)
        return ends is not None and sent.written_until >= ends

    # --- what clients say

    def on_event(self, event: Event) -> None:
        """The next event of the history."""
        if isinstance(event, OfSubscriber):
            event = self._patterns.of_subscriber(event)
        if isinstance(event, Subscribe):
            mine = self._of_client.setdefault(event.client, {})
            if event.channel not in mine:
                mine[event.channel] = CheckedSubscription(event, self._periods.at(event.channel, event.t))
        elif isinstance(event, Unsubscribe):
            self._of_client.get(event.client, {}).pop(event.channel, None)
        elif isinstance(event, Started):
            if event.life > self._life.get(event.client, 0):
                self._of_client.pop(event.client, None)
            self._life[event.client] = event.life
        elif isinstance(event, Killed):
            for subscription in self._of_client.get(event.client, {}).values():
                subscription.killed = event.t
        elif isinstance(event, MessageTold):
            self._on_told(event)
        elif isinstance(event, MissedTold):
            self._on_missed(event)
        elif isinstance(event, CaughtUp):
            for subscription in self._of_client.get(event.client, {}).values():
                if subscription.begun.t > event.since:
                    continue  # this wake is not about it
                subscription.resolve(event.t)
                self._owed_by(subscription, event.since, event)
                subscription.confirm(event.t)
        elif isinstance(event, End):
            for client in event.connected:
                for subscription in self._of_client.get(client, {}).values():
                    self._owed_by(subscription, event.t, event)

    def _of(self, event: MessageTold | MissedTold) -> CheckedSubscription | None:
        return self._of_client.get(event.client, {}).get(event.channel)

    def _on_told(self, event: MessageTold) -> None:
        subscription = self._of(event)
        if subscription is None:
            return  # a callback that was on its way when the application unsubscribed
        self._verdict.statistics.messages += not event.failed
        self._enter(subscription, event)
        if event.message is not None:
            sent = self._sent(event.channel, event.message, subscription.period)
            own_channel = self._patterns.channel_of(event)
            if sent is None and (own_channel, content(event.payload)) in self._by_devices:
                pass
            elif sent is None:
                self._add(f"{event.client} was told a message of {event.channel} that nobody sent", event)
            elif sent.begun.payload != event.payload:
                self._add(
                    f"{event.client} was told another payload of {event.message} than was sent", sent.begun, event
                )
            elif not sent.is_for(subscription.begun.attributes):
                self._add(f"{event.client} was told {event.message}, which is for others", sent.begun, event)
        before = subscription.told.get(event.offset)
        position = subscription.position
        if position is not None and event.offset <= position and not self._may_repeat(subscription, before):
            what = "twice" if before is not None else f"behind what lies at {position}"
            self._add(f"{event.client} was told the message at {event.offset} of {event.channel} {what}", before, event)
        if event.message is not None:
            at = subscription.ids.setdefault(event.message, event.offset)
            near = at != event.offset and abs(event.offset - at) <= REPEATS_KNOWN_OFFSETS
            # A matcher that reads the log anew knows nothing of what retention has removed.
            if near and not self._was_trimmed(event.channel, at, event.t):
                self._add(f"{event.client} was told {event.message}, which lies at {at}, once more", event)
        if event.previous is not None and position is not None and event.previous > position:
            self._add(f"{event.client} was told that {event.previous} came before, and it did not", event)
        self._owed_before(subscription, event.offset, event)
        if not event.failed:
            subscription.told[event.offset] = event
            subscription.resolve(event.t)
            subscription.position = event.offset if position is None else max(position, event.offset)
            subscription.last = event

    def _enter(self, subscription: CheckedSubscription, event: MessageTold) -> None:
        """Enters another period, if the client is told something of another log than before."""
        period = self._told_in[id(event)]
        if period == subscription.period:
            return
        knew = self._knew_before(subscription, period)
        if subscription.told or knew or (subscription.began_anew and period < subscription.period):
            self._add(f"{event.client} was told of another log of {event.channel}, and not that one was lost", event)
            subscription.position, subscription.told, subscription.missed = None, {}, []
            subscription.ids.clear()
        # Else it began there: the service had not heard of it before.
        subscription.period = period

    def _knew_before(self, subscription: CheckedSubscription, period: int) -> bool:
        """Returns true if the service had confirmed it before that log began."""
        confirmed = subscription.confirmed
        return confirmed is not None and confirmed < self._periods.begun(subscription.begun.channel, period)

    def _sent(self, channel: str, message: str, period: int) -> SentMessage | None:
        """Also one that was sent before the log was lost, and came to be in the next one, as far as anybody knows."""
        for one in (period, period - 1):
            log = self._logs.get((channel, one))
            found = None if log is None else log.by_id.get(message)
            if found is None:
                continue
            ends = self._periods.ends(channel, one)
            if one == period or (ends is not None and found.written_until >= ends):
                return found
        return None

    def _may_repeat(self, subscription: CheckedSubscription, before: MessageTold | None) -> bool:
        killed = subscription.killed
        if killed is None or before is None:
            return False
        return before.t <= killed and before.t >= killed - REPEATED_AFTER_A_KILL_US

    def _on_missed(self, event: MissedTold) -> None:
        subscription = self._of(event)
        if subscription is None:
            return
        missed = self._verdict.statistics.missed
        missed[event.reason] = missed.get(event.reason, 0) + 1
        if event.reason == _LOST:
            if not self._periods.any_before(event.channel, event.t):
                self._add(f"{event.client} was told that {event.channel} was lost, and no topic was", event)
            subscription.position, subscription.told, subscription.missed = event.before - 1, {}, [(-2, event.before)]
            subscription.expired.clear()
            subscription.period, subscription.began_anew = self._told_in[id(event)], True
            subscription.ids.clear()
            subscription.last = event
            return
        after = event.after
        if after is None:
            after = -1 if subscription.position is None else subscription.position
        for sent in self._log(event.channel, subscription.period).between(after, event.before):
            if sent.offset in subscription.told or not sent.is_for(subscription.begun.attributes):
                continue
            if self._may_repeat_what_is_gone(sent, event.t):
                continue
            wrong = self._unreason(event, sent, subscription.period)
            if wrong is not None:
                self._add(
                    f"{event.client} was told that {sent.id} of {event.channel} is missed: {wrong}", sent.begun, event
                )
        self._owed_before(subscription, after + 1, event)
        subscription.missed.append((after, event.before))
        if event.reason == _EXPIRED:
            subscription.expired.append((event.t, event.before))
        subscription.position = max(event.before - 1, -1 if subscription.position is None else subscription.position)
        subscription.last = event

    def _unreason(self, event: MissedTold, sent: SentMessage, period: int) -> str | None:
        """Returns why the reason for missing it does not hold; None if it does, or if that is unknown."""
        if event.reason == _EXPIRED:
            expires_at = sent.begun.expires_at
            held = expires_at is not None and expires_at * 1000 <= event.t
            return None if held else "it had not expired"
        if event.reason == _RETENTION:
            if self._was_trimmed(event.channel, sent.offset, event.t):
                # A broker that is killed soon after may have it again: where its log begins is not flushed at once.
                return None
            here = sent.offset in self._there.get(event.channel, ())
            return "it is still there" if here and period == self._periods.last(event.channel) else None
        return f"{event.reason} is no reason that this history has"

    # --- what is owed

    def _owed(self, subscription: CheckedSubscription, after: int, before: int, until: int) -> Iterator[SentMessage]:
        """Messages between these offsets that are owed, and were acknowledged by `until`."""
        begun = subscription.begun
        for sent in self._logs.get((begun.channel, subscription.period), MessageLog()).between(after, before):
            answer = sent.acknowledged
            if answer is None or answer.t > until or not sent.is_for(begun.attributes):
                continue
            if self._may_repeat_what_is_gone(sent, until) or self._may_repeat_what_came_before(subscription, sent):
                continue
            if self._may_repeat_what_expired(subscription, sent):
                continue
            if self._lies_behind(subscription, sent, until):
                yield sent

    def _lies_behind(self, subscription: CheckedSubscription, sent: SentMessage, until: int) -> bool:
        """Returns true if it surely comes after the subscription's beginning."""
        since = subscription.begun.since
        offset = sent.offset
        if offset is None:
            return False
        if subscription.began_anew:
            return True
        if isinstance(since, int):
            return offset > since
        if subscription.told and offset >= min(subscription.told):
            return True
        resolved = until if subscription.resolved is None else subscription.resolved
        if since == "oldest" and not self._was_trimmed(subscription.begun.channel, offset, resolved):
            return True
        return subscription.confirmed is not None and sent.begun.t > subscription.confirmed

    def _may_repeat_what_is_gone(self, sent: SentMessage, until: int) -> bool:
        """Returns true if an unknown record of it, or one at an unknown place, may have been removed: then the known
        one may be its repeat, which nobody is told.
        """
        return (sent.unanswered or sent.strayed) and self._was_trimmed(sent.begun.channel, 0, until)

    @staticmethod
    def _may_repeat_what_came_before(subscription: CheckedSubscription, sent: SentMessage) -> bool:
        """Returns true if a stray of it may have been moved to before the subscription's beginning."""
        if subscription.began_anew or subscription.begun.since == "oldest":
            return False
        confirmed = subscription.confirmed
        return sent.strayed and (confirmed is None or sent.begun.t <= confirmed)

    @staticmethod
    def _may_repeat_what_expired(subscription: CheckedSubscription, sent: SentMessage) -> bool:
        """Returns true if an earlier record of it may lie between offsets whose messages were reported as expired. A
        client that loses its session sends again what is unanswered, and only the last record is acknowledged."""
        expires_at = sent.begun.expires_at
        if expires_at is None or sent.offset is None or all(call.path != "session" for call in sent.calls):
            return False
        return any(t >= expires_at * 1000 and before <= sent.offset for t, before in subscription.expired)

    def _was_trimmed(self, channel: str, offset: int | None, until: int) -> bool:
        if offset is None:
            return True
        partition = None
        if self._partitions:
            domain, group, _ = channel.split("/", 2)
            partition = partition_of(domain, group, self._partitions)
        topic = self._topic.get(channel)
        return any(
            t <= until and offset < at
            for place, marks in self._trimmed.items()
            if partition in (None, place[1]) and topic in (None, place[0])
            for t, at in marks
        )

    def _owed_before(self, subscription: CheckedSubscription, offset: int, event: Event) -> None:
        """Judges that all owed messages below this offset have been told or missed by now."""
        position = -1 if subscription.position is None else subscription.position
        lacking = [
            sent
            for sent in self._owed(subscription, position, offset, event.t)
            if sent.offset is not None and not subscription.covers(sent.offset)
        ]
        self._lacks(subscription, lacking, event, f"before the one at {offset}")

    def subscribed(self, client: str) -> Iterator[Subscribe]:
        """Yields the events that subscribed to what the client is subscribed to."""
        for subscription in self._of_client.get(client, {}).values():
            yield subscription.begun

    def settled(self, event: Fresh) -> None:
        """No operation of the client is pending: the service has decided where its subscriptions begin."""
        for subscription in self._of_client.get(event.client, {}).values():
            subscription.confirm(event.t)

    def judge_fresh(self, event: Fresh, by: int, is_settled: Callable[[CheckedSubscription], bool]) -> None:
        """P11: all owed messages of settled subscriptions that were acknowledged by then have been told or missed."""
        for subscription in self._of_client.get(event.client, {}).values():
            channel = subscription.begun.channel
            if is_settled(subscription) and by > self._periods.begun(channel, subscription.period) + ANEW_US:
                self._owed_by(subscription, by, event, "P11")

    def _owed_by(self, subscription: CheckedSubscription, until: int, event: Event, promise: Promise = "P8") -> None:
        """Judges that all owed messages acknowledged by then have been told or missed by now."""
        if self._missed_a_loss(subscription, until, event):
            return
        position = -1 if subscription.position is None else subscription.position
        lacking = [
            sent
            for sent in self._owed(subscription, position, 1 << 63, until)
            if sent.offset is not None
            and not subscription.covers(sent.offset)
            and (isinstance(event, End) or (sent.placed is not None and sent.placed.t <= until))
        ]
        when = "when it said that it was fresh" if promise == "P11" else "when it was complete"
        self._lacks(subscription, lacking, event, when, promise)

    def _missed_a_loss(self, subscription: CheckedSubscription, until: int, event: Event) -> bool:
        """Returns true if its client has not heard that its log was lost. At the end that is wrong, if it would have
        been told a later message.
        """
        channel, now = subscription.begun.channel, self._periods.at(subscription.begun.channel, until)
        if subscription.period == now:
            return False
        if not isinstance(event, End):
            return True
        # One that was confirmed later may have begun in the next log: the service had not heard of it before.
        if subscription.told or self._knew_before(subscription, subscription.period + 1):
            messages = self._logs.get((channel, now), MessageLog()).by_id.values()
            lacking = [one for one in messages if one.placed is not None and one.is_for(subscription.begun.attributes)]
            if lacking:
                words = f"{subscription.begun.client} was not told that a log of {channel} was lost"
                self._add(words, subscription.begun, subscription.last, lacking[0].begun, event)
        return True

    def _lacks(
        self,
        subscription: CheckedSubscription,
        lacking: list[SentMessage],
        event: Event,
        when: str,
        promise: Promise = "P8",
    ) -> None:
        if not lacking:
            return
        names = ", ".join(f"{sent.id} at {sent.offset}" for sent in lacking[:_NAMED_MAX])
        begun = subscription.begun
        self._add(
            f"{begun.client} was not told {len(lacking)} messages of {begun.channel} {when}: {names}",
            *(sent.begun for sent in lacking[:_NAMED_MAX]),
            begun,
            subscription.last,
            event,
            promise=promise,
        )
        for sent in lacking:
            if sent.offset is not None:
                subscription.missed.append((sent.offset - 1, sent.offset + 1))  # said once

    def _add(self, words: str, *evidence: Event | None, promise: Promise = "P8") -> None:
        self._verdict.add(promise, words.replace(BETWEEN, ""), evidence)
