"""Judges M8: whether a device was told every message, in order and once in a connection, or that some are missed."""

import re
from collections.abc import Iterable, Iterator

from coldnotify_schemas.partitioner import partition_of
from coldnotify_schemas.topics import TopicNames

from coldnotify_checker.histories import Event, LogTrimmed, MqttTold, Record, Topic
from coldnotify_checker.log_periods import LogPeriods
from coldnotify_checker.mqtt.kept_sessions import CheckedDevice
from coldnotify_checker.mqtt.topic_publishes import TopicPublish, TopicPublishes, topic_name
from coldnotify_checker.verdict import JudgeVerdict, Promise

UNNOTICED_US = 30_000_000
"""So long after the loss of a log, messages that were read before may be told."""
_MISSED = re.compile(r"(-?\d{1,19})?-(\d{1,19}) ([a-z_ ]+)", re.ASCII)
"""AFTER is left out where all before may be missed."""
_NAMED_MAX = 5
"""Messages that a violation names."""


class TrimmedLogs:
    """The ends to which the logs of channels were trimmed, and the records that the dump still has."""

    def __init__(self, events: Iterable[Event], names: TopicNames) -> None:
        self._marks: dict[int, list[tuple[int, int]]] = {}
        """By partition, (time, offset below which all was removed)."""
        self._there: set[tuple[str | None, int]] = set()
        self._partitions = 0
        for event in events:
            if isinstance(event, LogTrimmed) and event.topic in names.channels:
                self._marks.setdefault(event.partition, []).append((event.t, event.offset))
            elif isinstance(event, Topic) and event.topic in names.channels:
                self._partitions = event.partitions
                for partition, start in enumerate(event.starts):
                    if start:
                        self._marks.setdefault(partition, []).append((0, start))
            elif isinstance(event, Record) and event.topic in names.channels:
                self._there.add((event.key, event.offset))

    def may_be_gone(self, name: str, one: TopicPublish, by: int) -> bool:
        """Returns true if retention may have removed a message by then."""
        if one.offset is not None and (name, one.offset) in self._there:
            return any(t and t <= by and one.offset < offset for t, offset in self._of(name))
        return any(t <= by and (one.offset is None or one.offset < offset) for t, offset in self._of(name))

    def _of(self, name: str) -> Iterator[tuple[int, int]]:
        domain, group, _ = name.split("/", 2)
        mine = partition_of(domain, group, self._partitions) if self._partitions else None
        for partition, marks in self._marks.items():
            if mine in (None, partition):
                yield from marks


class TopicMessages:
    """The messages of all devices, followed packet by packet."""

    def __init__(
        self,
        events: list[Event],
        publications: TopicPublishes,
        verdict: JudgeVerdict,
        names: TopicNames,
    ) -> None:
        self._publications = publications
        self._verdict = verdict
        self._trimmed = TrimmedLogs(events, names)
        self._periods = LogPeriods(events, names)

    def on_told(self, device: CheckedDevice, told: MqttTold, possible: list[TopicPublish]) -> None:
        """A device is told a message in its connection. `possible`: what that may be."""
        connection, name = device.connection, topic_name(told)
        assert connection is not None
        one = self._most_likely(device, told, possible)
        times = connection.count(told)
        last = connection.messages.get(name)
        in_order = last is None or self._judge_order(device, told, one, last, is_repeat=times > len(possible) > 0)
        for text in told.missed:
            self._on_missed(device, told, text)
        self._judge_skipped(device, told, one)
        if one is not None:
            device.have(told, one)
        if told.offset is not None:
            connection.offsets.add((name, told.offset))
        if in_order:
            connection.messages[name] = told, one

    def _judge_order(
        self,
        device: CheckedDevice,
        told: MqttTold,
        one: TopicPublish | None,
        last: tuple[MqttTold, TopicPublish | None],
        *,
        is_repeat: bool,
    ) -> bool:
        name, (before, other) = topic_name(told), last
        assert device.connection is not None
        if self._periods.at(name, before.t) != self._periods.at(name, told.t) or self._is_just_lost(name, told.t):
            return True
        if told.offset is not None and before.offset is not None:
            twice = (name, told.offset) in device.connection.offsets
            back = told.offset < before.offset
        else:
            twice = is_repeat
            back = one is not None and other is not None and one is not other and _lies_before(one, other)
        if twice or back:
            what = "twice in the same connection" if twice else "behind a later one"
            self._verdict.add("M8", f"{device.client} was told {_place(told)} {what}", (before, told))
        return not (twice or back)

    def _is_just_lost(self, name: str, t: int) -> bool:
        return self._periods.at(name, t) != self._periods.at(name, max(0, t - UNNOTICED_US))

    def _on_missed(self, device: CheckedDevice, told: MqttTold, text: str) -> None:
        said = _MISSED.fullmatch(text)
        if said is None:
            self._verdict.add("M8", f"{device.client} was told {text!r}, which does not say what is missed", (told,))
            return
        after, before, reason = int(said[1] or -1), int(said[2]), said[3]
        name = topic_name(told)
        wrong = None
        if reason == "lost":
            if not self._periods.any_before(name, told.t):
                wrong = "no log was lost"
        elif reason == "retention":
            for one in self._publications.messages.get(name, ()):
                within = one.offset is not None and after < one.offset < before and id(one) not in device.had
                same = self._periods.at(name, one.t) == self._periods.at(name, told.t)
                if within and same and not self._trimmed.may_be_gone(name, one, told.t):
                    wrong = f"the message at {one.offset} of {name} was not removed"
        else:
            wrong = "that is no reason of this history"
        if wrong is not None:
            self._verdict.add("M8", f"{device.client} was told that messages are missed, {text}: {wrong}", (told,))
        device.missed.append((after, before))

    def _most_likely(self, device: CheckedDevice, told: MqttTold, possible: list[TopicPublish]) -> TopicPublish | None:
        """Returns what was told: the one at that place, else the first one that the device does not have.

        If that one passed over others, it may be one that an earlier connection had, and comes again.
        """
        one = _first_lacking(device, told, possible)
        if one is None or told.offset is not None or id(one) in device.had or not self._skipped(device, told, one):
            return one
        again = (other for other in possible if id(other) in device.had and not self._skipped(device, told, other))
        return next(again, one)

    def _judge_skipped(self, device: CheckedDevice, told: MqttTold, one: TopicPublish | None) -> None:
        """Judges that all owed messages that lie before this one were told or missed."""
        lacking = self._skipped(device, told, one)
        self._lacks(device, topic_name(told), lacking, told, f"before {_place(told)}", "M8")

    def _skipped(self, device: CheckedDevice, told: MqttTold, one: TopicPublish | None) -> list[TopicPublish]:
        """Returns the owed messages that lie before this one, and were neither told nor missed."""
        name = topic_name(told)
        if self._is_just_lost(name, told.t):
            return []

        def lies_before(other: TopicPublish) -> bool:
            if other.offset is not None and told.offset is not None:
                return other.offset < told.offset
            return one is not None and _lies_before(other, one)

        with_numbers = told.offset is not None
        return [
            other
            for other in self._owed(device, name, before=told.t, by=told.t, held_at=told.t)
            if lies_before(other) and not (self._trimmed.may_be_gone(name, other, told.t) and not with_numbers)
        ]

    def judge_owed(
        self, device: CheckedDevice, event: Event, *, before: int, held_at: int, promise: Promise, when: str
    ) -> None:
        """Judges that it was told all that was acknowledged before `before`, for filters that it held at `held_at`."""
        for name in self._publications.of_group(device.client):
            lacking = [
                one
                for one in self._owed(device, name, before=before, by=event.t, held_at=held_at)
                if not self._trimmed.may_be_gone(name, one, event.t)
            ]
            self._lacks(device, name, lacking, event, when, promise)

    def _owed(self, device: CheckedDevice, name: str, *, before: int, by: int, held_at: int) -> Iterator[TopicPublish]:
        """Yields what was acknowledged before `before`, and was neither told nor missed."""
        fitting = device.fitting(name)
        held = [one for one in fitting if one.since <= held_at]
        period = self._periods.at(name, by)
        for one in device.open_messages(name, self._publications.messages.get(name, ()), by):
            if one.answered is None or id(one) in device.had or device.was_missed(one):
                continue
            # Of a PUBLISH that was sent again the first one may have come nowhere: what was told may be this one.
            if any(other.answered is None and id(other) in device.had for other in self._publications.like(name, one)):
                continue
            if not self._periods.within(name, period, one.t, one.answered):
                continue
            if not any(device.is_owed(one, filter_, by) for filter_ in fitting):
                continue
            device.keep_open(name, one)
            if one.answered < before and any(device.is_owed(one, filter_, by) for filter_ in held):
                yield one

    def _lacks(
        self,
        device: CheckedDevice,
        name: str,
        lacking: list[TopicPublish],
        event: Event,
        when: str,
        promise: Promise,
    ) -> None:
        if not lacking:
            return
        places = ", ".join(
            f"that at {one.offset}" if one.offset is not None else "one whose place is not known"
            for one in lacking[:_NAMED_MAX]
        )
        self._verdict.add(
            promise,
            f"{device.client} was not told {len(lacking)} messages of {name} {when}: {places}",
            (*(one.begun for one in lacking[:_NAMED_MAX]), event),
        )
        for one in lacking:
            device.had[id(one)] = one  # said once


def _first_lacking(device: CheckedDevice, told: MqttTold, possible: list[TopicPublish]) -> TopicPublish | None:
    """Returns the one at its place, else the first one that the device does not have."""
    if told.offset is not None:
        placed = [one for one in possible if one.offset == told.offset]
        possible = placed or [one for one in possible if one.offset is None]
    return next((one for one in possible if id(one) not in device.had), possible[0] if possible else None)


def _lies_before(one: TopicPublish, other: TopicPublish) -> bool:
    """Returns true if one message surely has the lower offset."""
    if one.offset is not None and other.offset is not None:
        return one.offset < other.offset
    return one.answered is not None and one.answered < other.t


def _place(told: MqttTold) -> str:
    return f"a message of {told.topic}" if told.offset is None else f"the message at {told.offset} of {told.topic}"
