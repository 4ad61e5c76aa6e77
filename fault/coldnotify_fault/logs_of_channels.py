"""The logs of channels from outside: retention removes old messages; `lacking` finds those that nobody was told."""

import queue
import re
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import NamedTuple

from coldnotify_checker.histories import Event, Record
from coldnotify_schemas.channels import ID_HEADER, TO_HEADER
from coldnotify_schemas.topics import TopicNames
from confluent_kafka import KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from coldnotify_fault.history import HistoryFile
from coldnotify_fault.schedule import DOMAINS
from coldnotify_fault.senders import right_partition, topic_of
from coldnotify_fault.told import FollowedChannel

_ASK_S = 5.0


class LostLog(NamedTuple):
    """A topic that is being recreated."""

    topic: str
    id: str
    """The one that it had."""
    begun: int
    """The time, as `t` of a history."""


def domains_of(names: TopicNames, topic: str) -> list[str]:
    """Returns the domains whose channels are in the topic."""
    return [domain for domain in DOMAINS if topic_of(names, domain) == topic]


class RetentionFault:
    """Removes old messages on command, in a thread, because Kafka may be away. Those that cannot be removed stay."""

    def __init__(self, admin: Callable[[], AdminClient], names: TopicNames, history: HistoryFile) -> None:
        self._names = names
        self._admin = admin
        self._history = history
        self._wanted: queue.Queue[tuple[str, bool] | None] = queue.Queue()
        self._thread = threading.Thread(target=self._work, name="retention", daemon=True)
        self._thread.start()

    def trim(self, group: str, *, all_: bool) -> None:
        """Removes all messages of the partition of a group, or half of them."""
        self._wanted.put((group, all_))

    def idle(self) -> bool:
        """Returns true if nothing is in progress."""
        return self._wanted.unfinished_tasks == 0

    def close(self) -> None:
        """Ends, once everything requested is done."""
        self._wanted.put(None)
        self._thread.join(4 * _ASK_S)

    def _work(self) -> None:
        while (one := self._wanted.get()) is not None:
            group, all_ = one
            with suppress(KafkaException, TimeoutError):
                self._trim(TopicPartition(topic_of(self._names, group), right_partition(group)), all_=all_)
            self._wanted.task_done()

    def _trim(self, place: TopicPartition, *, all_: bool) -> None:
        admin = self._admin()
        ends = [
            admin.list_offsets({place: spec}, request_timeout=_ASK_S)[place].result(_ASK_S).offset
            for spec in (OffsetSpec.earliest(), OffsetSpec.latest())  # type: ignore[no-untyped-call]
        ]
        offset = ends[1] if all_ else sum(ends) // 2
        # Before it is done: nobody is to see it earlier than the history says it.
        self._history.write("log_trimmed", topic=place.topic, partition=place.partition, offset=offset)
        to = TopicPartition(place.topic, place.partition, offset)
        admin.delete_records([to], request_timeout=_ASK_S)[to].result(_ASK_S)


def lacking(
    names: TopicNames,
    events: Iterable[Event],
    following: Mapping[tuple[str, str], FollowedChannel],
    repeated: Collection[str] = (),
) -> Iterator[str]:
    """Yields messages in the topics that clients were neither told nor told to be missing. It compares offsets alone:
    the checker judges each of them. `repeated`: ids of those that are sent more than once, because the first record may
    have been removed while the matcher remembers it.
    """
    there: dict[str, list[tuple[int, list[str]]]] = {}
    known: set[tuple[str, str]] = set()
    for event in events:
        if not isinstance(event, Record) or event.key is None or event.key.count("/") < 2:
            continue
        channel = event.key
        if event.topic != topic_of(names, channel) or event.partition != right_partition(channel):
            continue
        # Without an id it is none of ours.
        id_ = event.headers.get(ID_HEADER)
        if id_ is not None and id_ not in repeated and (channel, id_) not in known:
            known.add((channel, id_))
            to = event.headers.get(TO_HEADER, "")
            there.setdefault(channel, []).append((event.offset, to.split(",") if to else []))
    for (client, channel), one in following.items():
        if one.position is None and one.since != "oldest":
            continue  # nobody knows from outside where it began
        position = -1 if one.position is None else one.position
        records = there.get(channel, []) if one.pattern is None else _of_pattern(there, client, one.pattern)
        offsets = [offset for offset, to in records if offset > position and one.is_for(to)]
        if offsets:
            yield f"{client} lacks {len(offsets)} messages of {channel}: it knows all to {position}, not {offsets[0]}"


def _of_pattern(
    there: Mapping[str, list[tuple[int, list[str]]]], client: str, pattern: str
) -> list[tuple[int, list[str]]]:
    group = f"{client.rpartition('/')[0]}/"
    fitting = [
        of for channel, of in there.items() if channel.startswith(group) and re.search(pattern, channel[len(group) :])
    ]
    return sorted(record for of in fitting for record in of)
