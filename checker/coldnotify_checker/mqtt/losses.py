"""Judges M1, and that nothing is published more often than it was asked for (M4): compares devices with the topics."""

from collections.abc import Iterable

from coldnotify_schemas.partitioner import partition_of
from coldnotify_schemas.topics import TopicNames

from coldnotify_checker.histories import Event, LogTrimmed, MqttConnect, MqttPublish, MqttTold, Record, Topic
from coldnotify_checker.log_periods import LogPeriods
from coldnotify_checker.mqtt.payload_contents import content, contents_of_record
from coldnotify_checker.mqtt.topic_publishes import TopicPublish, TopicPublishes, surely_older, topic_name
from coldnotify_checker.topic_contents import DumpedTopics
from coldnotify_checker.verdict import JudgeVerdict


def judge_losses(
    events: list[Event], publications: TopicPublishes, topics: DumpedTopics, verdict: JudgeVerdict, names: TopicNames
) -> None:
    """Adds a violation for each publish of a device that was acknowledged and is not in the topics, and for each
    payload that is there more often than it was published. Notes what could not be judged.
    """
    dumped = {event.topic: event for event in events if isinstance(event, Topic)}
    if names.objects in dumped:
        _judge_versions(publications, topics, dumped[names.objects], verdict)
    if dumped.keys() >= set(names.channels):
        _judge_messages(events, publications, [dumped[topic] for topic in names.channels], verdict, names)
    if not dumped.keys() >= {names.objects, *names.channels}:
        verdict.judged_in_part["M1"] = "what the topics hold needs a dump of them"
    _judge_places(events, publications, verdict, names)


def _judge_versions(publications: TopicPublishes, topics: DumpedTopics, dumped: Topic, verdict: JudgeVerdict) -> None:
    """M1: of each topic, the objects topic holds the newest that a device published, or a newer one."""
    for name, all_ in publications.versions.items():
        last = publications.period(name, 1 << 62)
        held = topics.newest.get(name)
        contents = frozenset() if held is None else contents_of_record(held.record, held.key[1])
        may_be = [] if held is None else [
            one for one in all_ if one.contents & contents and one.version in (None, held.key[1])
        ]  # fmt: skip
        for one in all_:
            sure = isinstance(one.begun, MqttPublish | MqttConnect) and one.answered is not None
            if not sure or publications.period(name, one.t) != last:
                continue
            if dumped.t and one.answered is not None and one.answered >= dumped.t:
                continue
            if held is None or (may_be and all(surely_older(other, one) for other in may_be)):
                there = "nothing" if held is None else f"version {held.key[1]}, which is older"
                verdict.add(
                    "M1",
                    f"{'a will' if one.is_will else 'a retained payload'} of {one.client} for {name} was acknowledged, "
                    f"and the topic holds {there}",
                    (one.begun, held.record if held else dumped),
                )


def _judge_messages(
    events: list[Event],
    publications: TopicPublishes,
    dumped: list[Topic],
    verdict: JudgeVerdict,
    names: TopicNames,
) -> None:
    """M1: a message that was acknowledged to a device is in one of the logs, unless retention may have removed it."""
    held: dict[tuple[str, bytes], int] = {}
    for event in events:
        if isinstance(event, Record) and event.topic in names.channels and event.key is not None:
            for each in contents_of_record(event, None):
                held[event.key, each] = held.get((event.key, each), 0) + 1
    periods = LogPeriods(events, names)
    trimmed = {event.partition for event in events if isinstance(event, LogTrimmed)}
    trimmed |= {partition for topic in dumped for partition, start in enumerate(topic.starts) if start}
    dumped_at = min(topic.t for topic in dumped)
    for name, all_ in publications.messages.items():
        domain, group, _ = name.split("/", 2)
        if partition_of(domain, group, dumped[0].partitions) in trimmed:
            continue
        last = periods.last(name)
        for what, published in _by_content(all_).items():
            sure = [
                one
                for one in published
                if isinstance(one.begun, MqttPublish | MqttConnect)
                and one.answered is not None
                and not (dumped_at and one.answered >= dumped_at)
                and periods.within(name, last, one.t, one.answered)
            ]
            there = held.get((name, what), 0)
            if there < len(sure):
                verdict.add(
                    "M1",
                    f"{len(sure)} messages of {name} with the same payload were acknowledged to devices, "
                    f"and the logs hold {there}",
                    (*(one.begun for one in sure[:5]), *dumped),
                )


def _judge_places(
    events: Iterable[Event], publications: TopicPublishes, verdict: JudgeVerdict, names: TopicNames
) -> None:
    """M4: what devices published, and their wills, became at most one version or message each."""
    versions: dict[tuple[str, bytes], dict[int, Event]] = {}
    offsets: dict[tuple[str, bytes], dict[int, Event]] = {}
    for event in events:
        if isinstance(event, MqttTold) and event.version is not None:
            versions.setdefault((topic_name(event), content(event.payload)), {}).setdefault(event.version, event)
        elif isinstance(event, MqttTold) and event.offset is not None:
            offsets.setdefault((topic_name(event), content(event.payload)), {}).setdefault(event.offset, event)
        elif isinstance(event, Record) and event.topic in names.channels and event.key is not None:
            for what in contents_of_record(event, None):
                offsets.setdefault((event.key, what), {}).setdefault(event.offset, event)
    for of, places, word in (
        (publications.versions, versions, "versions"),
        (publications.messages, offsets, "messages"),
    ):
        for name, all_ in of.items():
            for what, published in _by_content(all_).items():
                found = places.get((name, what), {})
                by_devices = all(isinstance(one.begun, MqttPublish | MqttConnect) for one in published)
                if by_devices and len(found) > len(published):
                    verdict.add(
                        "M4",
                        f"what was published {len(published)} times to {name} became {len(found)} {word}",
                        (*(one.begun for one in published[:5]), *list(found.values())[:5]),
                    )


def _by_content(published: Iterable[TopicPublish]) -> dict[bytes, list[TopicPublish]]:
    found: dict[bytes, list[TopicPublish]] = {}
    for one in published:
        for what in one.contents:
            found.setdefault(what, []).append(one)
    return found
