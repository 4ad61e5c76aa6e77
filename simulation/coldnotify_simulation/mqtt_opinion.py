"""Asks the checker about the meters: gives it their lines, those of others in their group, and a dump of the group."""

import base64
from collections.abc import Iterable, Sequence

import msgspec
from coldnotify_checker import Event, judge
from coldnotify_checker.histories import End, Topic, parse_event
from coldnotify_cli.noting import message_payload
from coldnotify_schemas.topics import TopicNames

from coldnotify_simulation.kafka import PARTITIONS
from coldnotify_simulation.second_opinion import record_of
from coldnotify_simulation.world import World

TOPICS = TopicNames()

_OF_STATE = TOPICS.objects, TOPICS.registrations, TOPICS.sessions
_OF_ALL = frozenset(("topic_lost", "log_trimmed"))
_OF_GROUP = frozenset(("publish", "removed"))


def ask(world: World, group: str, lines: Iterable[Event], connected: Sequence[str]) -> str:
    """Returns the first violation, as if the history ended now; "": there is none. `connected`: who should be."""
    end = End(t=world.trace.now_us, connected=list(connected))
    violations = judge([*lines, *_of_world(world, group), end, *_dump(world, group)]).violations
    return f"the checker says: {violations[0]}" if violations else ""


def _of_world(world: World, group: str) -> list[Event]:
    events: list[Event] = []
    published: set[object] = set()
    for fields in world.trace.history:
        kind = fields["event"]
        if kind in _OF_GROUP:
            if not str(fields["object"]).startswith(f"{group}/"):
                continue
            if kind == "publish":
                published.add((fields["publisher"], fields["id"]))
                if isinstance(payload := fields["payload"], bytes):
                    fields = {**fields, "payload": {"base64": base64.b64encode(payload).decode()}}
        elif kind == "published":
            if (fields["publisher"], fields["id"]) not in published:
                continue
        elif kind not in _OF_ALL:
            continue
        event = parse_event(msgspec.json.encode(fields))
        assert event is not None
        events.append(event)
    return events


def _dump(world: World, group: str) -> list[Event]:
    t = world.trace.now_us
    events: list[Event] = []
    for topic in (*_OF_STATE, *TOPICS.channels):
        if topic not in world.kafka.topics:  # all domains have one log for their channels
            events.append(Topic(t=t, topic=topic, partitions=PARTITIONS))
            continue
        partitions = world.kafka.topics[topic].partitions
        for number, log in enumerate(partitions):
            for entry in log.entries:
                if not (entry.key or b"").startswith(f"{group}/".encode()):
                    continue
                record = record_of(t, topic, number, entry)
                if topic in TOPICS.channels:
                    headers = {name: value.decode(errors="replace") for name, value in entry.headers}
                    payload = message_payload(entry.value or b"")
                    record = msgspec.structs.replace(record, value=payload, headers=headers, raw=False)
                events.append(record)
        starts = [log.start for log in partitions]
        ends = [log.end for log in partitions]
        events.append(Topic(t=t, topic=topic, partitions=len(partitions), starts=starts, ends=ends))
    return events
