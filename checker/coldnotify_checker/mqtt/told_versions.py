"""Judges M2 and M3: which versions a device was told, and in which order."""

from collections.abc import Iterable

from coldnotify_schemas.topics import TopicNames

from coldnotify_checker.histories import End, Event, MqttTold
from coldnotify_checker.mqtt.kept_sessions import CheckedDevice, MqttConnection
from coldnotify_checker.mqtt.payload_contents import contents_of_record
from coldnotify_checker.mqtt.topic_publishes import TopicPublish, TopicPublishes, surely_older, topic_name
from coldnotify_checker.topic_contents import DumpedTopics
from coldnotify_checker.verdict import JudgeVerdict, Promise


class TopicVersions:
    """The versions of all devices, followed packet by packet."""

    def __init__(
        self,
        publications: TopicPublishes,
        topics: DumpedTopics,
        verdict: JudgeVerdict,
        names: TopicNames,
        skew_us: int,
    ) -> None:
        self._publications = publications
        self._topics = topics
        self._verdict = verdict
        self._dumped = names.objects in topics.dumped
        self._skew_us = skew_us

    # --- M3

    def on_told(self, device: CheckedDevice, told: MqttTold, possible: list[TopicPublish]) -> None:
        """A device is told a version in its connection. `possible`: what that may be."""
        connection, name = device.connection, topic_name(told)
        assert connection is not None
        before = connection.versions.get(name)
        times = connection.count(told)
        if before is not None and self._is_older(told, before, possible):
            self._verdict.add(
                "M3",
                f"{device.client} was told {words(told)} after {words(before)} in the same connection",
                (before, told),
            )
            return
        if before is not None and self._is_same(told, before, possible, times):
            if self._is_answer(connection, told):
                connection.uncount(told)
            else:
                self._verdict.add(
                    "M3", f"{device.client} was told {words(told)} twice in the same connection", (before, told)
                )
        elif told.retain and not device.retains(name):
            self._is_answer(connection, told)
        device.tell_version(told)

    def _is_older(self, told: MqttTold, before: MqttTold, possible: list[TopicPublish]) -> bool:
        if self._are_numbers(told, before):
            assert told.version is not None
            assert before.version is not None
            return told.version < before.version
        others = self._publications.told_of(self._publications.versions, before, self._skew_us)
        known = bool(possible) and bool(others)
        return known and all(surely_older(one, other) for one in possible for other in others)

    def _is_same(self, told: MqttTold, before: MqttTold, possible: list[TopicPublish], times: int) -> bool:
        if told.version is not None and before.version is not None:
            return told.version == before.version and self._are_numbers(told, before)
        # Without a version it may be another one with the same payload.
        return bool(possible) and times > len(possible)

    def _are_numbers(self, told: MqttTold, before: MqttTold) -> bool:
        """Returns true if the versions of both say which is newer."""
        name = topic_name(told)
        one = self._publications.period(name, told.t) == self._publications.period(name, before.t)
        plain = name not in self._publications.with_incarnations
        return one and plain and told.version is not None and before.version is not None

    @staticmethod
    def _is_answer(connection: MqttConnection, told: MqttTold) -> bool:
        """Returns true if it may be told in answer to a SUBSCRIBE, and counts that answer."""
        allowed = told.retain and connection.allowed_answers(topic_name(told)) > 0
        if allowed:
            connection.take_answer(topic_name(told))
        return allowed

    # --- M2

    def judge_owed(
        self, device: CheckedDevice, event: Event, *, before: int, held_at: int, promise: Promise, when: str
    ) -> None:
        """Judges that it has the newest of all that was acknowledged before `before`, for filters held at `held_at`."""
        for name in self._publications.of_group(device.client):
            held = [one for one in device.fitting(name) if one.since <= held_at]
            newest = self._newest(name, before, event) if held else None
            if not newest:
                continue
            known = device.newest_known(name)
            if any(
                (known is not None and one.may_be(known))
                or (one.deletes and name not in device.seen)
                or not any(device.is_owed(one, filter_, event.t) for filter_ in held)
                for one in newest
            ):
                continue
            self._verdict.add(
                promise,
                f"{device.client} has {words(known)} {when}; the newest of {name} is {_newest_words(newest)}",
                (*(one.begun for one in newest[:3]), known, event),
            )

    def _newest(self, name: str, before: int, event: Event) -> list[TopicPublish] | None:
        """Returns those that may be the newest; None: nothing is owed."""
        found = self._publications.may_be_newest(name, before, event.t)
        if not isinstance(event, End) or not self._dumped:
            return found
        held = self._topics.newest.get(name)
        if held is None:
            return None
        if held.record.timestamp * 1000 > event.t:
            return found
        contents = contents_of_record(held.record, held.key[1])
        same = [
            one
            for one in self._publications.versions.get(name, ())
            if one.contents & contents and one.version in (None, held.key[1])
        ]
        if same:
            return same
        one = TopicPublish(held.record, held.record.timestamp * 1000, contents, retained=True, size=0)
        one.is_version(*held.key)
        return [one]


def words(told: MqttTold | None) -> str:
    """Returns the words for what a device was told; None: nothing."""
    if told is None:
        return "nothing"
    what = f"version {told.version}" if told.version is not None else "a version without its number"
    return f"{what} of {told.topic}"


def _newest_words(newest: Iterable[TopicPublish]) -> str:
    return " or ".join(dict.fromkeys(_publication_words(one) for one in newest))


def _publication_words(one: TopicPublish) -> str:
    if one.deletes:
        return "a deletion"
    return "what was published last" if one.version is None else f"version {one.version}"
