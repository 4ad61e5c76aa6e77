"""Judges P8: compares what applications were told of channels with the log.

It decides from the log alone which records are messages, and which of these are repeats. A message is owed to a
subscription if it comes after the subscription's beginning and is addressed to it; it is told or missed, in order,
before the position passes it.
"""

import re
from bisect import bisect_right
from collections import Counter
from dataclasses import dataclass, field

from coldnotify._core.document.document import Document
from coldnotify._core.interests.since import Since
from coldnotify._core.streams.feed import BEGINNING, ChannelJob, KeptChannel
from coldnotify.message import Message, Missed, MissedReason
from coldnotify_schemas.channels import NO_HEADERS, MessageHeaders, parse_message_headers
from coldnotify_schemas.interests import channel_of, expression_of
from coldnotify_schemas.names import InvalidName, parse_object_key
from coldnotify_schemas.partitioner import partition_of
from coldnotify_schemas.protocol import REPEATS_KNOWN_OFFSETS
from coldnotify_schemas.records import InvalidRecord
from coldnotify_schemas.topics import TopicNames

from coldnotify_simulation.client import SimulatedClient
from coldnotify_simulation.clock import Clock
from coldnotify_simulation.kafka import PARTITIONS, Kafka, LogEntry
from coldnotify_simulation.promises import Broken, group_partition

TOPICS = TopicNames()


@dataclass(frozen=True, slots=True)
class SimulatedMessage:
    """One record that is a message of a channel where it belongs."""

    offset: int
    at_s: float
    timestamp_ms: int
    payload: bytes
    headers: MessageHeaders
    repeats: int | None
    """The last record of the channel with the same id, or `moved` header, if that is near enough."""
    anew: bool = False
    """True if retention had removed that record before this one was written."""

    def is_for(self, attributes: frozenset[str]) -> bool:
        """Returns true if a subscription with these attributes is told it."""
        return not self.headers.to or not attributes.isdisjoint(self.headers.to)


class Log:
    """One log of channels, over all its partitions, from its topic's making on."""

    def __init__(self) -> None:
        self.sent: dict[str, list[SimulatedMessage]] = {}
        """By channel's key, ordered by offset."""
        self.moved: set[tuple[int, bytes]] = set()
        """(partition, `moved` header) of all that was moved."""
        self.starts = [0] * PARTITIONS
        self._marks: dict[tuple[str, str, object], int] = {}

    def on_record(self, partition: int, entry: LogEntry, at_s: float) -> None:
        """A record was written."""
        try:
            key = (entry.key or b"").decode()
            domain, group, _ = parse_object_key(key.encode())
            headers = parse_message_headers(entry.headers) if entry.headers else NO_HEADERS
        except (InvalidName, InvalidRecord, UnicodeDecodeError):
            return
        if entry.value is None or partition_of(domain, group, PARTITIONS) != partition:
            return
        repeats = None
        marks: list[tuple[str, object]] = [("id", headers.id)] if headers.id else []
        if headers.moved is not None:
            marks.append(("moved", headers.moved))
            self.moved.add((partition, headers.moved))
        for mark in marks:
            before = self._marks.get((key, *mark))
            if before is not None and before >= entry.offset - REPEATS_KNOWN_OFFSETS:
                repeats = max(before, -1 if repeats is None else repeats)
            self._marks[(key, *mark)] = entry.offset
        anew = repeats is not None and repeats < self.starts[partition]
        one = SimulatedMessage(entry.offset, at_s, entry.timestamp_ms, entry.value, headers, repeats, anew)
        self.sent.setdefault(key, []).append(one)

    def at(self, key: str, offset: int) -> SimulatedMessage | None:
        """The message there."""
        return next(iter(self.between(key, offset - 1, offset + 1)), None)

    def between(self, key: str, after: int, before: int) -> list[SimulatedMessage]:
        """Records of this channel between these offsets, repeats, too."""
        sent = self.sent.get(key, [])
        first = bisect_right(sent, after, key=lambda one: one.offset)
        last = bisect_right(sent, before - 1, key=lambda one: one.offset)
        return sent[first:last]

    def of(self, client: SimulatedClient, name: str, after: int, before: int) -> list[SimulatedMessage]:
        """The same of a client's channel, or of all channels of its group that a pattern fits."""
        if expression_of(name) is None:
            return self.between(client.key_of(name), after, before)
        prefix = client.key_of("")
        keys = [key for key in self.sent if key.startswith(prefix) and _fits(name, key.removeprefix(prefix))]
        return sorted((one for key in keys for one in self.between(key, after, before)), key=lambda one: one.offset)

    def is_owed(self, partition: int, one: SimulatedMessage) -> bool:
        """Returns true if it is not a repeat. One whose original was removed is owed to who has missed that alone: for
        how long the removal goes unnoticed, nobody knows."""
        return one.repeats is None

    def may_be_told(self, partition: int, one: SimulatedMessage) -> bool:
        """Returns true if it is not a repeat, or repeats a message that retention has removed."""
        return one.repeats is None or one.repeats < self.starts[partition]


@dataclass(slots=True)
class _Subscription:
    """One channel of one client."""

    attributes: frozenset[str]
    since: Since
    epoch: int | None = None
    """The epoch of the log that all fields refer to; None: unknown."""
    begin: int | None = None
    """Behind this offset all is owed; None: it is not known yet."""
    judged: bool = False
    """Its beginning was compared with `since`, or cannot be."""
    position: int = BEGINNING
    """Everything up to here was told or missed."""
    before_last: int = BEGINNING
    """The same before the last message."""
    lenient_to: int = BEGINNING
    """Messages up to there are not owed, because the attributes were different."""
    failed: int | None = None
    """The callback for this offset has raised."""
    losses: int = 0
    """The number of logs lost before it began, or whose loss it was told."""
    doubted: bool = False
    """The service may have lost the registration."""
    begun_s: float = 0.0
    """When the application subscribed; 0: a document contained it."""
    missed: set[int] = field(default_factory=set)
    """Offsets of records that it was told to have missed, because retention has removed them."""


class SimulatedMessages:
    """Looks at each thing that happens; `at_rest` once all has come to rest."""

    def __init__(self, clock: Clock, kafka: Kafka) -> None:
        self._clock = clock
        self._kafka = kafka
        self.epoch = 0
        self.losses = 0
        self._lost_s = float("-inf")
        self.logs: dict[int, Log] = {}
        """By epoch."""
        self._of: dict[str, dict[str, _Subscription]] = {}
        """By client and channel's name."""
        self._ended: set[tuple[str, str]] = set()
        """(client, channel) that was once unsubscribed; the service may not have heard of it before it began again."""
        self._recorded: dict[tuple[str, str], int] = {}
        """(client, text): where the service wrote first that it begins."""
        self.counts: Counter[str] = Counter()

    @property
    def log(self) -> Log:
        """The present log."""
        return self.logs[self.epoch]

    # ---- what happens to the log

    def begin_epoch(self, epoch: int, *, anew: bool) -> None:
        """A new log begins, or (not `anew`) the same one gets another epoch."""
        before = self.logs.get(self.epoch)
        self.logs[epoch] = Log() if anew or before is None else before
        self.losses += before is not None
        if before is not None:
            self._lost_s = self._clock.now_s
        self.epoch = epoch
        self._recorded.clear()

    def on_record(self, partition: int, entry: LogEntry) -> None:
        """A record was written."""
        self.log.on_record(partition, entry, self._clock.now_s)

    def on_trimmed(self, partition: int, start: int) -> None:
        """Retention has removed everything below."""
        self.log.starts[partition] = max(start, self.log.starts[partition])

    # ---- what clients do

    def starts(self, client: SimulatedClient, document: Document) -> None:
        """Its process begins with this document. Further subscriptions of the application follow as `subscribes`."""
        mine = self._of.setdefault(client.key, {})
        kept_by_name = {channel.name: (channel, kept) for channel, kept in document.channels.items()}
        for name, (channel, kept) in kept_by_name.items():
            one = mine.get(name)
            if one is None:
                self._ended.add((client.key, name))
                one = mine[name] = _Subscription(frozenset(channel.attributes), kept.since or Since("now"))
                one.losses = 0
            attributes = frozenset(channel.attributes)
            if attributes != one.attributes:
                self._change(client, one, channel.name, attributes)
            one.failed = None
            if kept.since is not None:
                one.since = kept.since
                if one.begin is None:
                    continue
                # It asks anew where it begins. It had been told that, and said to have begun.
                one.position = min(one.position, one.begin)
                continue
            applied = self._applied(document, channel.name)
            if one.begin is None or one.epoch != document.channels_epoch:
                one.begin, one.judged, one.epoch = applied, True, document.channels_epoch
                one.position = applied
            one.position = min(one.position, applied)
        for name in mine.keys() - kept_by_name.keys():
            one = mine[name]
            one.failed = None
            if one.begin is not None:
                one.position = one.begin  # all may be told again

    def _change(self, client: SimulatedClient, one: _Subscription, name: str, attributes: frozenset[str]) -> None:
        self._ended.add((client.key, name))
        one.attributes = attributes
        # The callback that runs just then is called once more.
        one.position = min(one.position, one.before_last)
        one.lenient_to = self._kafka.log(TOPICS.channels_1d, group_partition(client.identity.group)).end - 1

    def subscribes(self, client: SimulatedClient, name: str, attributes: frozenset[str], since: Since) -> None:
        """Its application subscribes, or repeats that it does."""
        mine = self._of.setdefault(client.key, {})
        one = mine.get(name)
        if one is None:
            mine[name] = _Subscription(attributes, since, losses=self.losses, begun_s=self._clock.now_s)
        elif one.attributes != attributes:
            self._change(client, one, name, attributes)

    def unsubscribes(self, client: SimulatedClient, name: str) -> None:
        """And no more."""
        self._of.get(client.key, {}).pop(name, None)
        self._ended.add((client.key, name))
        self._forget_recorded(client.key)

    def wiped(self, client: str) -> None:
        """It has lost its state."""
        mine = self._of.pop(client, {})
        self._ended |= {(client, name) for name in mine}
        self._forget_recorded(client)

    def _forget_recorded(self, client: str) -> None:
        for place in [place for place in self._recorded if place[0] == client]:
            del self._recorded[place]

    # ---- what happens to registrations

    def doubt(self, client: str) -> None:
        """They were lost."""
        for one in self._of.get(client, {}).values():
            one.doubted = True
        self.forgotten(client)

    def forgotten(self, client: str) -> None:
        """An operator had it forgotten, so it registers again: from its position, or as at its beginning if it has
        none.
        """
        self._forget_recorded(client)
        self._ended |= {(client, name) for name in self._of.get(client, {})}

    def registers_again(self, client: str) -> None:
        """Note that a record of its registrations was ended: it registers again, from wherever it is by then."""
        self._forget_recorded(client)

    def on_registered(self, client: str, positions: dict[str, tuple[int, int]]) -> None:
        """A record of them was written. `positions`: by text, (position, epoch)."""
        for text, (position, epoch) in positions.items():
            name = channel_of(text)[0]
            if epoch != self.epoch or (client, name) in self._ended:
                continue
            first = self._recorded.setdefault((client, text), position)
            if position > first:
                raise Broken(f"P8: {client} began with {name!r} behind {first}, and then behind {position}")

    # ---- what it is told

    def on_told(self, client: SimulatedClient, job: ChannelJob, *, failed: bool) -> None:
        """A callback is entered."""
        said = job.message
        name = job.feed.channel.name
        one = self._of.get(client.key, {}).get(name)
        if one is None or (isinstance(said, Message) and not _fits(name, said.channel)):
            raise Broken(f"P8: {client.name} is told of {said.channel!r}, to which it has not subscribed")
        self.counts["told by patterns"] += expression_of(name) is not None
        if isinstance(said, Missed):
            self._on_missed(client, one, name, said, failed=failed)
        else:
            self._on_message(client, one, name, said, failed=failed)

    def _on_message(
        self, client: SimulatedClient, one: _Subscription, name: str, said: Message, *, failed: bool
    ) -> None:
        key, partition = client.key_of(said.channel), group_partition(client.identity.group)
        who, what = client.name, f"the message at {said.offset} of {said.channel!r}"
        log = self.logs.get(said.epoch)
        if log is None:
            raise Broken(f"P8: {who} was told {what} in epoch {said.epoch}, which there never was")
        if one.epoch is None:
            one.epoch = said.epoch
        if said.epoch != one.epoch:
            raise Broken(f"P8: {who} was told {what} of another log, and not that the log before was lost")
        sent = log.at(key, said.offset)
        if said.epoch != self.epoch and not _is_told(sent, said) and _is_told(self.log.at(key, said.offset), said):
            return  # the topic was made anew, and who reads it does not know yet: it will be told again, after the loss
        if sent is None:
            raise Broken(f"P8: {who} was told {what}, which nobody sent")
        if not _is_told(sent, said):
            raise Broken(f"P8: {who} was told {what} with {said.id!r} {said.data!r}, sent was {sent}")
        if not sent.is_for(one.attributes):
            raise Broken(f"P8: {who} was told {what}, which is for {sent.headers.to}")
        if not log.may_be_told(partition, sent):
            raise Broken(f"P8: {who} was told {what}, which repeats the one at {sent.repeats}")
        if said.offset <= one.position:
            raise Broken(f"P8: {who} was told {what} when it knew all up to {one.position}")
        if said.previous is not None and said.previous > max(one.position, one.lenient_to):
            raise Broken(f"P8: {who} was told {what} with {said.previous} before it, not {one.position}")
        self._must_be_told(client, one, name, said.offset - 1, f"was told {what}")
        if failed:
            one.failed = said.offset
            return
        self.counts["told messages"] += 1
        one.failed = None
        if one.begin is None:
            one.begin = said.offset - 1
        one.before_last, one.position = one.position, said.offset
        one.missed.discard(said.offset)

    def _on_missed(self, client: SimulatedClient, one: _Subscription, name: str, said: Missed, *, failed: bool) -> None:
        who, what = client.name, f"that messages of {said.channel!r} are missed before {said.before} ({said.reason})"
        partition = group_partition(client.identity.group)
        if not failed:
            self.counts[f"missed {said.reason.lower()}"] += 1
        if said.reason is MissedReason.LOST:
            if not self.losses:
                raise Broken(f"P8: {who} was told {what}, and no log was lost")
            if not failed:
                one.losses, one.epoch, one.begin, one.judged = self.losses, None, None, True
                one.position, one.missed = said.before - 1, set()
                one.epoch, one.begin = self._epoch_of(client), said.before - 1
            return
        after = one.position if said.after is None else said.after
        if after > one.position and one.begin is not None:
            self._must_be_told(client, one, name, after, f"was told {what}")
        log = self.logs[self.epoch if one.epoch is None else one.epoch]
        for sent in log.of(client, name, max(after, one.position), said.before):
            if not (log.is_owed(partition, sent) and sent.is_for(one.attributes)):
                continue
            if sent.offset <= one.lenient_to:
                continue
            expired = sent.headers.expires_at is not None and sent.headers.expires_at <= self._clock.now_ms
            trimmed = sent.offset < log.starts[partition] or log is not self.log
            if not (expired if said.reason is MissedReason.EXPIRED else trimmed):
                raise Broken(f"P8: {who} was told {what}, and the one at {sent.offset} is there")
        if failed:
            return
        known = said.reason in (MissedReason.EXPIRED, MissedReason.RETENTION)
        if said.reason is MissedReason.UNREADABLE:
            # Whosever it was, nobody can know. Of a log that is no more, nobody knows what could not be read.
            unreadable = self._kafka.log(TOPICS.channels_1d, partition).unreadable
            known = log is not self.log or any(after < offset < said.before for offset in unreadable)
        if not known:
            raise Broken(f"P8: {who} was told {what}, and nothing was")
        if said.reason is MissedReason.RETENTION:
            one.missed.update(sent.offset for sent in log.of(client, name, max(after, one.position), said.before))
        if one.begin is None:
            one.begin = after
        one.position = max(one.position, said.before - 1)

    def _epoch_of(self, client: SimulatedClient) -> int | None:
        epoch = None if client.driver is None else client.driver.status(self._clock.now_s).channels_epoch
        return self.epoch if epoch is None else epoch

    # ---- what is owed

    def _lacking(
        self, client: SimulatedClient, one: _Subscription, name: str, end: int, by_s: float | None = None
    ) -> list[int]:
        """Returns owed offsets up to `end` that were neither told nor missed."""
        log = self.logs.get(self.epoch if one.epoch is None else one.epoch)
        if log is None or one.begin is None:
            return []
        partition = group_partition(client.identity.group)
        first = max(one.begin, one.position, one.lenient_to)
        return [
            sent.offset
            for sent in log.of(client, name, first, end + 1)
            if (log.is_owed(partition, sent) or (sent.anew and sent.repeats in one.missed))
            and sent.is_for(one.attributes)
            and (by_s is None or sent.at_s <= by_s)
        ]

    def _must_be_told(self, client: SimulatedClient, one: _Subscription, name: str, end: int, what: str) -> None:
        if one.doubted:
            return
        lacking = self._lacking(client, one, name, end)
        if lacking:
            raise Broken(f"P8: {client.name} {what}, and lacks {lacking} of {name!r}: it knows all to {one.position}")

    # ---- what it says

    @staticmethod
    def _applied(document: Document, name: str) -> int:
        """Returns the offset up to which the document says that all of the channel is told."""
        channel, kept = next((c, k) for c, k in document.channels.items() if c.name == name)
        known = [BEGINNING, kept.told, kept.position]
        if channel not in document.pending_channels:
            known.append(document.channels_cursor)
        return max(one for one in known if one is not None)

    def on_saved(self, client: SimulatedClient, document: Document, written_s: float) -> None:
        """Judges the central invariant: what the durable document says of a channel is true."""
        mine = self._of.get(client.key, {})
        if document.channels_epoch != self.epoch:
            return
        for channel, kept in document.channels.items():
            one = mine.get(channel.name)
            if one is None or kept.since is not None or frozenset(channel.attributes) != one.attributes:
                continue
            if written_s < one.begun_s:
                continue  # it is of the subscription before: a machine that sleeps may write for long
            if kept.lost or (one.epoch is not None and one.epoch != self.epoch):
                continue
            applied = self._applied(document, channel.name)
            if one.epoch is None:
                one.epoch = self.epoch
            if not one.judged:
                self._judge_beginning(client, one, channel.name, kept, applied)
            if one.doubted:
                one.lenient_to = max(one.lenient_to, applied)
                continue
            self._must_be_told(client, one, channel.name, applied, f"stores that it has all up to {applied}")

    def _judge_beginning(
        self, client: SimulatedClient, one: _Subscription, name: str, kept: KeptChannel, applied: int
    ) -> None:
        """It has heard where it begins."""
        one.judged = True
        begin = applied if kept.position is None else kept.position
        if kept.told is not None or kept.position is None:
            if one.begin is None:
                one.begin = begin
            return
        if one.begin is not None and begin > one.begin:
            raise Broken(f"P8: {client.name} begins with {name!r} behind {begin}, and was to behind {one.begin}")
        one.begin = begin if one.begin is None else min(begin, one.begin)
        one.position = max(begin, one.position)
        if (client.key, name) in self._ended:
            return
        since, partition = one.since, group_partition(client.identity.group)
        log = self._kafka.log(TOPICS.channels_1d, partition)
        if since.kind == "oldest" and begin >= max(log.start, 0) and begin >= self.log.starts[partition]:
            raise Broken(f"P8: {client.name} begins with {name!r} behind {begin}, the oldest is at {log.start}")
        if since.is_position and begin != since.at and since.epoch == self.epoch:
            raise Broken(f"P8: {client.name} begins with {name!r} behind {begin}, not {since.at}")
        if begin >= log.end:
            raise Broken(f"P8: {client.name} begins with {name!r} behind {begin}, the log ends at {log.end}")

    def on_caught_up(self, client: SimulatedClient, since_s: float, losses: int) -> None:
        """A wake began at `since_s`, when so many logs had been lost."""
        parked = () if client.driver is None else client.driver.status(self._clock.now_s).parked
        end = self._kafka.log(TOPICS.channels_1d, group_partition(client.identity.group)).end
        for name, one in self._of.get(client.key, {}).items():
            if losses != self.losses or (expression_of(name) or name) in parked:
                continue
            if one.doubted:
                one.doubted, one.lenient_to = False, max(one.lenient_to, end - 1)
                continue
            if one.begin is None and one.losses == self.losses:
                one.begin = end - 1
                continue
            if one.epoch not in (None, self.epoch):
                continue
            self.counts["wakes with channels"] += 1
            lacking = self._lacking(client, one, name, 1 << 62, since_s)
            if lacking:
                raise Broken(f"P8: {client.name} is caught up and lacks {lacking} of {name!r}")

    def on_fresh(self, client: SimulatedClient, as_of_s: float, settled: set[str], *, anew_s: float) -> None:
        """P11: the client says that it has been told of these channels what was acknowledged before that time."""
        if as_of_s <= self._lost_s + anew_s:
            return
        for name, one in self._of.get(client.key, {}).items():
            if (expression_of(name) or name) not in settled or one.doubted or one.epoch not in (None, self.epoch):
                continue
            lacking = self._lacking(client, one, name, 1 << 62, as_of_s)
            if lacking:
                raise Broken(f"P11: {client.name} is fresh as of {as_of_s:.3f} and lacks {lacking} of {name!r}")

    # ---- at rest

    def at_rest(self, online: list[SimulatedClient], registered: dict[str, set[str]]) -> list[str]:
        """Returns what is wrong. `registered`: by client, the names of channels."""
        found = []
        for client in online:
            mine = self._of.get(client.key, {})
            if client.driver is None:
                continue
            if registered.get(client.key, set()) != mine.keys():
                found.append(
                    f"P5: {client.name} wants channels {sorted(mine)}, and is registered for "
                    f"{sorted(registered.get(client.key, set()))}"
                )
            parked = client.driver.status(self._clock.now_s).parked
            for name, one in mine.items():
                if (expression_of(name) or name) in parked:
                    found.append(f"P8: {client.name} has parked {name!r}")
                if one.doubted:
                    continue
                if one.epoch not in (None, self.epoch) or (one.losses != self.losses and one.epoch != self.epoch):
                    if one.begin is not None and one.judged:
                        found.append(f"P8: {client.name} was not told that {name!r} was lost")
                    continue
                lacking = self._lacking(client, one, name, 1 << 62)
                if lacking:
                    words = f"was not told {lacking} of {name!r}: it knows all to {one.position}"
                    found.append(f"P8: {client.name} {words}")
        for partition in range(PARTITIONS):
            entries = self._kafka.log(TOPICS.channels_1d, partition).entries
            strays = [(entry.offset, self._stray(partition, entry)) for entry in entries]
            found += [f"P8: {partition}@{offset} was not moved to {place}" for offset, place in strays if place]
        return found

    def _stray(self, partition: int, entry: LogEntry) -> str:
        """Returns the key of a message that is misplaced and was not moved; "" if it was, or is not misplaced."""
        try:
            domain, group, _ = parse_object_key(entry.key or b"")
            headers = parse_message_headers(entry.headers) if entry.headers else NO_HEADERS
        except (InvalidName, InvalidRecord):
            return ""
        right = partition_of(domain, group, PARTITIONS)
        if right == partition or entry.value is None or headers.moved is not None:
            return ""
        return "" if (right, b"%d@%d" % (partition, entry.offset)) in self.log.moved else str(right)


def _is_told(sent: SimulatedMessage | None, said: Message) -> bool:
    """Returns true if the application is told exactly this message."""
    return sent is not None and sent.payload == said.data and (sent.headers.id or None) == said.id


def _fits(name: str, channel: str) -> bool:
    """Returns true if a subscription of this name is told messages of this channel."""
    expression = expression_of(name)
    return channel == name if expression is None else re.search(expression, channel) is not None
