"""Asks the checker what MQTT devices still lack after all faults: what it would say if the history ended now."""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from coldnotify_checker.histories import (
    End,
    Event,
    MqttConnect,
    MqttDisconnected,
    MqttPublish,
    MqttPublished,
    in_order,
    now_us,
    read_histories,
)
from coldnotify_checker.mqtt.devices import MqttDevices
from coldnotify_checker.publishes import CheckedPublishes
from coldnotify_checker.topic_contents import merge
from coldnotify_checker.verdict import JudgeVerdict
from coldnotify_schemas.topics import TopicNames


def lacking(
    names: TopicNames, files: Iterable[Path], dump: Iterable[Event], wanted: Mapping[str, set[str]]
) -> Iterator[str]:
    """Yields what is missing. `files`: histories, as far as they are written; `dump`: the topics; `wanted`: the filters
    of the devices that should be connected. Raises HistoryError, OSError.
    """
    if not wanted:
        return
    end = End(t=now_us(), connected=sorted(wanted))
    history = in_order([*read_histories(file for file in files if file.exists()), *dump])
    verdict = JudgeVerdict()
    topics = merge(history, names)
    publishes = CheckedPublishes(history, verdict.statistics, topics.removed, names)
    devices = MqttDevices([*history, end], publishes, topics, verdict, names, 0)
    unanswered: dict[str, set[int]] = {}
    for event in history:
        devices.on_event(event)
        if isinstance(event, MqttConnect | MqttDisconnected):
            unanswered.pop(event.client, None)
        elif isinstance(event, MqttPublish) and event.qos:
            unanswered.setdefault(event.client, set()).add(event.id)
        elif isinstance(event, MqttPublished):
            unanswered.get(event.client, set()).discard(event.id)
    for client, filters in wanted.items():
        device = devices.of(client)
        if not device.is_connected:
            yield f"{client} is not connected"
        elif refused := filters - device.filters.keys():
            # One that has lost its disk may have more than it knows of.
            yield f"{client} was not granted {sorted(refused)}"
        elif unanswered.get(client):
            yield f"{client} waits for {len(unanswered[client])} acknowledgements"
    before = len(verdict.violations)
    devices.on_event(end)
    yield from (f"{one.promise}: {one.what}" for one in verdict.violations[before:])
