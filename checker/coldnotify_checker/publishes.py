"""The published versions of each object that may be told, and when each was acknowledged."""

import hashlib
import json
from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from coldnotify_schemas.topics import TopicNames

from coldnotify_checker.histories import Event, Publish, Published, Removed, TopicLost
from coldnotify_checker.verdict import Statistics

_ALWAYS = 1 << 63
"""Later than any time in microseconds."""
Key = tuple[int, int]
"""(incarnation, version): the order of an object's versions."""


@dataclass(frozen=True, slots=True)
class PublishCall:
    """One publish, with its answer."""

    begun: Publish
    answer: Published | None
    version: int | None

    @property
    def acknowledged(self) -> bool:
        """Returns true if Kafka surely has it."""
        return self.answer is not None and self.answer.outcome == "acknowledged"

    @property
    def failed(self) -> bool:
        """Returns true if it surely was not written."""
        return self.answer is not None and self.answer.outcome == "failed"

    @property
    def key(self) -> Key | None:
        """None: its version is not known."""
        return None if self.version is None else (self.begun.incarnation, self.version)

    @property
    def sure_key(self) -> Key:
        """The key of a call whose version is known."""
        assert self.version is not None
        return (self.begun.incarnation, self.version)


@dataclass(slots=True)
class Rising:
    """Acknowledged publishes of one object, each newer than the one before, by the time of their answers."""

    calls: list[PublishCall] = field(default_factory=list)
    answered_at: list[int] = field(default_factory=list)

    def add(self, call: PublishCall) -> bool:
        """The next that was answered; one that is not newer adds nothing, and is False."""
        if call.key is None or (self.calls and call.key <= self.calls[-1].sure_key):
            return False
        self.calls.append(call)
        self.answered_at.append(_answered_at(call))
        return True


@dataclass(slots=True)
class PublishedObject:
    """One object's publishes."""

    by_version: dict[int | None, list[PublishCall]] = field(default_factory=dict)
    written_twice: list[PublishCall] = field(default_factory=list)
    """Those by arrival that were under way while the topic was lost: in each topic they may have a version."""
    rising: dict[int, Rising] = field(default_factory=dict)
    """By the number of times that the objects topic had been lost."""
    in_place: dict[int, Rising] = field(default_factory=dict)
    """The same without what a plain Kafka producer wrote: it may be in another partition, until its owner moves it."""


class CheckedPublishes:
    """All publishes of a history.

    A lost topic loses everything begun before, and so does the removal of an object. A repeat that the publisher
    skipped counts only if nothing was lost, because its first record may be gone.
    """

    def __init__(
        self,
        events: Iterable[Event],
        statistics: Statistics,
        removed: Iterable[tuple[int, str, bool]],
        names: TopicNames,
    ) -> None:
        """`removed`: the removals in a dump, as `topic_contents.Topics` has them."""
        self.objects: dict[str, PublishedObject] = {}
        self.objects_lost_at: list[int] = []
        """Times at which the objects topic was lost, rising."""
        self._removed_at: dict[tuple[str, bool], list[int]] = {}
        """Times of removal, rising, by object and whether its description was removed."""
        self.news: list[tuple[int, str]] = []
        """When an object's newest acknowledged version changed, and of which object, by time."""
        self._caused: dict[tuple[str, str], dict[int, list[PublishCall]]] = {}
        """By object and source, then by the number of losses of the object: the calls whose version was the newest of
        that source since the last loss, if it was written.
        """
        begun: dict[tuple[str, int | str], Publish] = {}
        answers: dict[tuple[str, int | str], Published] = {}
        for event in events:
            if isinstance(event, Publish):
                begun[event.publisher, event.id] = event
            elif isinstance(event, Published):
                answers[event.publisher, event.id] = event
            elif isinstance(event, TopicLost) and event.topic == names.objects:
                self.objects_lost_at.append(event.t)
            elif isinstance(event, Removed):
                removed = [*removed, (event.t, event.object, event.what == "description")]
        for t, object_, describes in sorted(removed):
            self._removed_at.setdefault((object_, describes), []).append(t)
        calls = [_call(call, answers.get(name)) for name, call in begun.items()]
        for call in calls:
            self._object(call).by_version.setdefault(call.version, []).append(call)
            answer = call.answer
            if call.begun.version is None and answer and self.period(call.begun.t) != self.period(answer.t):
                self._object(call).written_twice.append(call)
            if call.begun.source is not None and call.key is not None and not call.failed:
                by_source = call.begun.object, call.begun.source
                period = self.period_of(call.begun.object, call.begun.t)
                newest = self._caused.setdefault(by_source, {}).setdefault(period, [])
                if not newest or call.key > newest[-1].sure_key:
                    newest.append(call)
            statistics.publishes += 1
            statistics.acknowledged += call.acknowledged
            statistics.failed += call.failed
            statistics.indeterminate += not (call.acknowledged or call.failed)
        for call in sorted(filter(_is_acknowledged, calls), key=_answered_at):
            period = self.period_of(call.begun.object, call.begun.t)
            if self.period_of(call.begun.object, _answered_at(call)) == period and not (
                period and call.answer and call.answer.skipped
            ):
                if self._object(call).rising.setdefault(period, Rising()).add(call):
                    self.news.append((_answered_at(call), call.begun.object))
                if call.begun.path != "raw":
                    self._object(call).in_place.setdefault(period, Rising()).add(call)

    def _object(self, call: PublishCall) -> PublishedObject:
        return self.objects.setdefault(call.begun.object, PublishedObject())

    def period(self, t: int) -> int:
        """Returns how often the objects topic had been lost before `t`."""
        return bisect_left(self.objects_lost_at, t)

    def period_of(self, object_: str, t: int, *, described: bool = False) -> int:
        """Returns how often the object's state, or with `described` its description, had been lost before `t`."""
        removed_at = self._removed_at.get((object_, described))
        return self.period(t) + (bisect_left(removed_at, t) if removed_at else 0)

    def was_removed(self, object_: str, before: int) -> bool:
        """Returns true if the object was ever removed: then neither the service nor a client that was told need know a
        version.
        """
        removed_at = self._removed_at.get((object_, False))
        return removed_at is not None and removed_at[0] <= before

    def newest(self, object_: str, before: int | None = None, *, in_place: bool = False) -> PublishCall | None:
        """Returns the newest version of an object that was acknowledged before `before`, or ever, and not lost by then.

        `in_place`: only what was surely written to the object's own partition.
        """
        period = self.period_of(object_, _ALWAYS if before is None else before)
        published = self.objects.get(object_)
        rising = None
        if published is not None:
            rising = (published.in_place if in_place else published.rising).get(period)
        if rising is None:
            return None
        index = len(rising.calls) if before is None else bisect_left(rising.answered_at, before)
        return rising.calls[index - 1] if index else None

    def caused(self, object_: str, source: str, key: Key, by: int, *, since: int) -> bool:
        """Returns true if a client may itself be the source of this version, or of a newer one begun until the time
        `by`.

        Then it is not owed it, except what was acknowledged before it registered, at `since`: that is the answer.
        """
        periods = self._caused.get((object_, source), {}).values()
        return any(self._caused_by(own, key, by, since) for own in periods)

    @staticmethod
    def _caused_by(own: list[PublishCall], key: Key, by: int, since: int) -> bool:
        for index in range(bisect_right(own, by, key=lambda call: call.begun.t) - 1, -1, -1):
            call = own[index]
            if call.sure_key < key:
                return False
            # What a plain producer wrote elsewhere is in place only once its owner has moved it.
            if not call.acknowledged or call.begun.path == "raw" or _answered_at(call) >= since:
                return True
        return False

    def with_version(self, object_: str, version: int) -> list[PublishCall]:
        """The publishes that this version may be of: those of it, and those whose version is not known."""
        published = self.objects.get(object_)
        if published is None:
            return []
        others = [one for one in published.written_twice if one.version not in (version, None)]
        return published.by_version.get(version, []) + published.by_version.get(None, []) + others


def _call(begun: Publish, answer: Published | None) -> PublishCall:
    version = begun.version
    if answer is not None and answer.version is not None and (version is None or begun.if_changed):
        version = answer.version
    return PublishCall(begun, answer, version)


def _is_acknowledged(call: PublishCall) -> bool:
    return call.acknowledged


def _answered_at(call: PublishCall) -> int:
    assert call.answer is not None
    return call.answer.t


def fingerprint(payload: Any) -> bytes:
    """Returns 16 bytes that identify a payload; b"" if there is none."""
    if payload is None:
        return b""
    text = json.dumps(payload, sort_keys=True, separators=(",", ":"))
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()
